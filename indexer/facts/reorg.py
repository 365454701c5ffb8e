"""Reorgs: find the fork, and delete the facts above it.

A finalized block is never deleted: a node that denies one stops the chain.
"""

import logging
from dataclasses import replace

from sqlalchemy import Connection

from indexer.chains.events import Event
from indexer.chains.finality import Finality, final_by_depth
from indexer.chains.ports import Block, ChainReader
from indexer.config.networks import Chain, confirmations_variable
from indexer.errors import DeepReorg, InconsistentAnswer
from indexer.facts import store
from indexer.facts.cursors import Cursor, move_cursor
from warehouse_schema.identifiers import Height

logger = logging.getLogger(__name__)


def find_fork(conn: Connection, reader: ChainReader, chain: Chain, cursor: Cursor) -> Block:
    """The highest stored block that is still on the node's chain.

    Walks down from the cursor to the highest finalized block, by record or by confirmations. Raises
    `DeepReorg` when the node denies that one as well, and `InconsistentAnswer` when the node's own
    blocks do not join.
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
    depth = f"{chain.confirmations} confirmations"
    was_recorded = final > by_depth
    reason = f"a node said so, before its {depth}" if was_recorded else f"it has {depth}"
    raise DeepReorg(
        f"{chain.id}: no stored block from {cursor.height} down to {final} is on the node's chain,"
        f" and that one is final ({reason}). Compare the node with an explorer; if the chain really"
        f" did this, set {confirmations_variable(chain.id)} deeper and reset the recorded finality"
        " (docs/operations.md, A reorg below finality)"
    )


def apply_finality(
    conn: Connection, reader: ChainReader, chain: Chain, cursor: Cursor, reported: Finality
) -> Cursor:
    """The cursor with the finality that a node reports.

    A reported block finalizes the stored one with its hash; one above the cursor finalizes all
    blocks if the node agrees on the cursor's. Where hashes differ nothing changes: the next range
    will not join, and the fork is found then. Raises `DeepReorg` when the stored block was final
    before, and `InconsistentAnswer` when the node itself has another block there.
    """
    final = reported.final
    if cursor.final_height is not None and final.height <= cursor.final_height:
        stored = store.block_at(conn, final.chain, final.height)
        if stored is not None and stored.hash != final.hash:
            if reader.block(final.height).hash != final.hash:
                raise InconsistentAnswer(f"{final.chain}: the node has two blocks {final.height}")
            raise DeepReorg(
                f"{chain.id}: the node calls {final.hash} final at height {final.height};"
                f" another block is stored there, and blocks up to {cursor.final_height} were final"
            )
    final_height = _stored_height(conn, reader, cursor, final)
    if final_height is None:
        return cursor
    safe_height = _stored_height(conn, reader, cursor, reported.safe)
    safe_height = final_height if safe_height is None else safe_height
    return cursor.finalized(safe=safe_height, final=final_height)


def _stored_height(
    conn: Connection, reader: ChainReader, cursor: Cursor, named: Block
) -> Height | None:
    """Height of a named block, at most the cursor's, if the same block is stored there."""
    if named.height > cursor.height:
        named = reader.block(cursor.height)
    stored = store.block_at(conn, cursor.chain, named.height)
    return named.height if stored is not None and stored.hash == named.hash else None


def rewind(conn: Connection, cursor: Cursor, fork: Block) -> list[Event]:
    """Delete all facts above `fork` and move the cursor there. Returns the deleted events.

    Raw logs move to `facts.orphans`. The caller refolds what the events touched, in the same
    transaction.
    """

    def at_fork(height: Height | None) -> Height | None:
        return None if height is None else Height(min(height, fork.height))

    deleted = store.delete_above(conn, fork.chain, above=fork.height)
    move_cursor(
        conn,
        cursor,
        replace(
            cursor,
            height=fork.height,
            block_hash=fork.hash,
            block_time=fork.time,
            safe_height=at_fork(cursor.safe_height),
            final_height=at_fork(cursor.final_height),
        ),
    )
    logger.warning(
        "reorg chain=%s from=%d to=%d events=%d",
        fork.chain,
        cursor.height,
        fork.height,
        len(deleted),
    )
    return deleted
