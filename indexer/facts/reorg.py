"""When a chain takes blocks back: where it forked, and taking back what we kept of them.

A block that is final stays, whatever a node says: what would change one stops the chain.
"""

import logging

from sqlalchemy import Connection

from indexer.chains.events import Event
from indexer.chains.finality import Finality, final_by_depth
from indexer.chains.ports import Block, ChainReader
from indexer.config.networks import Chain
from indexer.errors import DeepReorg, InconsistentAnswer
from indexer.facts import store
from indexer.facts.cursors import Cursor, move_cursor
from warehouse_schema.identifiers import Height

logger = logging.getLogger(__name__)


def find_fork(conn: Connection, reader: ChainReader, chain: Chain, cursor: Cursor) -> Block:
    """The highest stored block that is still on the node's chain.

    Walks down from the cursor to the highest block that is final, by what was recorded or by the
    chain's confirmations: a node that denies that one is not to be followed. Raises `DeepReorg`,
    and `InconsistentAnswer` when the blocks that it names instead do not join.
    """
    by_depth = final_by_depth(chain, cursor.height)
    final = max(by_depth, by_depth if cursor.final_height is None else cursor.final_height)
    above: Block | None = None
    for height in range(cursor.height, max(final, chain.first_height) - 1, -1):
        named = reader.block(Height(height))
        if above is not None and above.parent_hash != named.hash:
            raise InconsistentAnswer(f"{chain.id}: blocks {height} and {above.height} do not join")
        stored = store.block_at(conn, chain.id, named.height)
        if stored is not None and named.hash == stored.hash:
            return stored
        above = named
    if above is not None and reader.block(above.height) != above:
        raise InconsistentAnswer(f"{chain.id}: the node has two blocks {above.height}")
    raise DeepReorg(
        f"{chain.id}: no stored block from {cursor.height} down to {final} is on the node's chain,"
        f" and that one is final ({_why_final(chain, final > by_depth)}). Check the node; if the"
        " chain really did this, rebuild from an earlier height"
    )


def _why_final(chain: Chain, was_recorded: bool) -> str:
    depth = f"{chain.confirmations} confirmations"
    return f"a node said so, before its {depth}" if was_recorded else f"it has {depth}"


def final_heights(
    conn: Connection, reader: ChainReader, chain: Chain, cursor: Cursor, said: Finality
) -> Cursor:
    """The cursor with what a node's word makes of stored blocks: all, some or none is final.

    It covers a stored block that it names, and all of them when it names a block above the cursor
    and agrees on the cursor's. Where it names another block than the stored one, the next range
    will not join, and the fork is found then. Raises `DeepReorg` when that block was final before,
    and `InconsistentAnswer` when the node itself has another one there.
    """
    was_final = cursor.final_height is not None and said.final.height <= cursor.final_height
    if was_final and _denies(conn, reader, said.final):
        raise DeepReorg(
            f"{chain.id}: the node calls {said.final.hash} final at height {said.final.height};"
            f" another block is stored there, and blocks up to {cursor.final_height} were final"
        )
    final = _covered(conn, reader, cursor, said.final)
    if final is None:
        return cursor
    safe = _covered(conn, reader, cursor, said.safe)
    return cursor.finalized(safe=final if safe is None else safe, final=final)


def _denies(conn: Connection, reader: ChainReader, named: Block) -> bool:
    """Whether the node names another block than the stored one, and stands by it."""
    stored = store.block_at(conn, named.chain, named.height)
    if stored is None or stored.hash == named.hash:
        return False
    if reader.block(named.height).hash != named.hash:
        raise InconsistentAnswer(f"{named.chain}: the node has two blocks {named.height}")
    return True


def _covered(conn: Connection, reader: ChainReader, cursor: Cursor, named: Block) -> Height | None:
    if named.height > cursor.height:
        named = reader.block(cursor.height)
    stored = store.block_at(conn, cursor.chain, named.height)
    return named.height if stored is not None and stored.hash == named.hash else None


def rewind(conn: Connection, cursor: Cursor, fork: Block) -> list[Event]:
    """Take back all facts above `fork` and put the cursor there; the events taken back.

    The raw logs move to `facts.orphans`. The caller refolds what the events touched, in the same
    transaction.
    """
    taken = store.delete_above(conn, fork.chain, above=fork.height)
    move_cursor(
        conn,
        cursor,
        Cursor(
            chain=fork.chain,
            height=fork.height,
            block_hash=fork.hash,
            block_time=fork.time,
            head_height=cursor.head_height,
            head_time=cursor.head_time,
            safe_height=_at_most(cursor.safe_height, fork.height),
            final_height=_at_most(cursor.final_height, fork.height),
        ),
    )
    logger.warning(
        "reorg chain=%s from=%d to=%d events=%d",
        fork.chain,
        cursor.height,
        fork.height,
        len(taken),
    )
    return taken


def _at_most(height: Height | None, limit: Height) -> Height | None:
    return None if height is None else Height(min(height, limit))
