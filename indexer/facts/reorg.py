"""When a chain takes blocks back: where it forked, and taking back what we kept of them."""

import logging

from sqlalchemy import Connection

from indexer.chains.ports import Block, ChainReader
from indexer.errors import DeepReorg
from indexer.events.common import Event
from indexer.facts import store
from indexer.facts.store import Cursor
from indexer.networks import Chain
from warehouse_schema.identifiers import Height

logger = logging.getLogger(__name__)


def find_fork(conn: Connection, reader: ChainReader, chain: Chain, cursor: Cursor) -> Block:
    """The highest stored block that is still on the node's chain.

    Walks down from the cursor, at most as deep as the chain's confirmations: a block under that
    many others is final, and a node that denies one is not to be followed. Raises `DeepReorg`.
    """
    lowest = cursor.height - chain.confirmations
    for height in range(cursor.height, max(lowest, chain.start_height) - 1, -1):
        stored = store.block_at(conn, chain.id, Height(height))
        if stored is not None and reader.block(Height(height)).hash == stored.hash:
            return stored
    raise DeepReorg(
        f"{chain.id}: no stored block from {cursor.height} down to {lowest} is on the node's chain;"
        f" that is deeper than the {chain.confirmations} confirmations which make a block final."
        " Check the node; if the chain really did this, rebuild from an earlier height"
    )


def rewind(conn: Connection, cursor: Cursor, fork: Block) -> list[Event]:
    """Take back all facts above `fork` and put the cursor there; the events taken back.

    The raw logs move to `facts.orphans`. The caller refolds what the events touched, in the same
    transaction.
    """
    taken = store.take_back(conn, fork.chain, above=fork.height)
    store.move_cursor(
        conn,
        cursor,
        Cursor(
            chain=fork.chain,
            height=fork.height,
            block_hash=fork.hash,
            block_time=fork.time,
            head_height=cursor.head_height,
            head_time=cursor.head_time,
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
