"""How a chain comes into the warehouse: a range at a time (`indexer.ingest.follow` is the loop).

Each range is one database transaction: cursor, blocks, raw and decoded events, the projections
they touch and the socket's messages. Killed anywhere, a restart reads the same range again and
writes it once.
"""

import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, text

from indexer.chains.finality import ReportsFinality, final_by_depth
from indexer.chains.ports import Block, ChainReader, Range
from indexer.config.networks import Chain, Network
from indexer.decode.build import decoder_build
from indexer.errors import FollowerConflict, InconsistentAnswer
from indexer.facts import proofs, quarantine, store
from indexer.facts.cursors import Cursor, move_cursor, read_cursor, record_finality
from indexer.facts.decoding import decode_events
from indexer.facts.reorg import apply_finality, find_fork, rewind
from indexer.facts.watchlist import StoredWatchlist
from indexer.ingest.projections import apply_range, revert_events
from indexer.ingest.proving import BlockProver
from indexer.transfers.store import refold_final
from warehouse_schema import channels, locks
from warehouse_schema.identifiers import ChainId, Height, UnixSeconds
from warehouse_schema.leases import end_lease, take_lease
from warehouse_schema.lock_tables import leases

logger = logging.getLogger(__name__)

MAX_BLOCKS = 200
"""Most blocks of one transaction: bounded memory, and a reader that waits sees progress."""


@dataclass(frozen=True, slots=True)
class RangeProgress:
    """Where a chain stands after one range. A reorg's counts are negative: taken back."""

    chain: ChainId
    height: Height
    block_time: UnixSeconds
    head_height: Height
    head_time: UnixSeconds
    blocks: int
    events: int
    undecodable: int
    quarantined: int = 0
    """Ledgers of which nothing could be decoded but the header."""

    @property
    def lag_blocks(self) -> int:
        """Blocks between the head and what is committed."""
        return max(0, self.head_height - self.height)

    @property
    def lag_seconds(self) -> int:
        """Seconds of chain time between the head and what is committed."""
        return max(0, self.head_time - self.block_time)


def ingest_once(
    engine: Engine, reader: ChainReader, network: Network, *, max_blocks: int = MAX_BLOCKS
) -> RangeProgress | None:
    """Bring in at most one range, and prove what is wanted; None when there is nothing new.

    What a node says of finality is recorded by `indexer.ingest.follow` alone. Raises the errors of
    `indexer.errors`; whatever is raised, nothing half-written stays.
    """
    with follower_lease(engine, reader.chain) as conn:
        progress = ingest_range(conn, reader, network, reader.head(), max_blocks).progress
        proving = BlockProver.beside(reader, network)
        if proving is not None:
            with closing(proving):
                proving.prove_wanted(conn)
        return progress


@contextmanager
def follower_lease(engine: Engine, chain: ChainId) -> Iterator[Connection]:
    """A connection that alone may write the chain.

    The lease belongs to the session that writes: when the session is lost so is the right to write,
    and an orphaned process cannot come back to it. Raises `FollowerConflict`.
    """
    with engine.connect() as conn:
        with conn.begin():
            key = take_lease(conn, leases, locks.FOLLOWER, chain)
        if key is None:
            raise FollowerConflict(f"another process follows {chain}")
        try:
            yield conn
        finally:
            if not conn.invalidated:
                conn.rollback()
                end_lease(conn, locks.FOLLOWER, key)
                conn.commit()


@dataclass(frozen=True, slots=True)
class RangeStep:
    """One look at a chain: the cursor after it, None if it has to be read, and what it brought."""

    stands: Cursor | None
    progress: RangeProgress | None


def ingest_range(
    conn: Connection, reader: ChainReader, network: Network, head: Block, max_blocks: int
) -> RangeStep:
    """One range towards a head, or a rewind where the chain forked. Raises as `ingest_once`."""
    chain = network.chain(reader.chain)
    with conn.begin():
        cursor = read_cursor(conn, chain.id)
    if cursor is not None and _forked_at_head(cursor, head):
        return _take_back(conn, reader, network, chain, cursor, head)
    first = Height(chain.first_height if cursor is None else cursor.height + 1)
    if head.height < first:
        return RangeStep(cursor, None)
    last = Height(min(head.height, first + max_blocks - 1))
    fresh = reader.read(first, last, StoredWatchlist.on(conn, chain))
    if cursor is not None and fresh.blocks[0].parent_hash != cursor.block_hash:
        return _take_back(conn, reader, network, chain, cursor, head)
    moved = _cursor_at(fresh.blocks[-1], head, cursor)
    if not isinstance(reader, ReportsFinality):
        moved = _final_by_depth(chain, moved)
    return RangeStep(moved, _commit(conn, network, chain, cursor, moved, fresh))


def _forked_at_head(cursor: Cursor, head: Block) -> bool:
    """Whether the chain replaced our last block without growing past it yet."""
    # A head below the cursor is a lagging node as a rule, and waiting is right: had the chain
    # forked, its new head will not join our last block once it has passed it.
    return head.height == cursor.height and head.hash != cursor.block_hash


def _commit(
    conn: Connection,
    network: Network,
    chain: Chain,
    cursor: Cursor | None,
    moved: Cursor,
    fresh: Range,
) -> RangeProgress:
    last = fresh.blocks[-1]
    decoded = decode_events(fresh.events, chain)
    undecodable = sum(item.undecodable is not None for item in decoded)
    with conn.begin():
        # The cursor first: a second writer fails here, before it has written anything.
        move_cursor(conn, cursor, moved)
        store.append(conn, fresh.blocks, decoded)
        if fresh.events:
            proofs.record_unproven(conn, chain, fresh.blocks[0].height, last.height)
        quarantine.add_ledgers(conn, fresh.unread, decoder_build())
        events = [item.event for item in decoded if item.event is not None]
        apply_range(conn, network, chain.id, fresh.blocks, events)
        _notify(conn, last)
    for ledger in fresh.unread:
        logger.error(
            "quarantined chain=%s height=%d: %s", chain.id, ledger.block.height, ledger.reason
        )
    logger.info(
        "ingested chain=%s from=%d to=%d events=%d undecodable=%d",
        chain.id,
        fresh.blocks[0].height,
        last.height,
        len(decoded),
        undecodable,
    )
    return RangeProgress(
        chain=chain.id,
        height=last.height,
        block_time=last.time,
        head_height=moved.head_height,
        head_time=moved.head_time,
        blocks=len(fresh.blocks),
        events=len(decoded),
        undecodable=undecodable,
        quarantined=len(fresh.unread),
    )


def _take_back(
    conn: Connection,
    reader: ChainReader,
    network: Network,
    chain: Chain,
    cursor: Cursor,
    head: Block,
) -> RangeStep:
    with conn.begin():
        fork = find_fork(conn, reader, chain, cursor)
    if fork.height == cursor.height:
        # Asked for the range the node denied our last block, asked for the block it has it: two
        # nodes behind one address, on two forks.
        raise InconsistentAnswer(f"{chain.id}: the node has block {fork.height} and denies it")
    with conn.begin():
        taken = rewind(conn, cursor, fork)
        revert_events(conn, network, taken)
        _notify(conn, fork)
    progress = RangeProgress(
        chain=chain.id,
        height=fork.height,
        block_time=fork.time,
        head_height=Height(max(head.height, fork.height)),
        head_time=UnixSeconds(max(head.time, fork.time)),
        blocks=fork.height - cursor.height,
        events=-len(taken),
        undecodable=0,
    )
    return RangeStep(None, progress)


def update_finality(conn: Connection, reader: ChainReader, network: Network) -> None:
    """Record what became final since: as the node names it, by depth where it has no words."""
    chain = network.chain(reader.chain)
    if not isinstance(reader, ReportsFinality):
        # Noted with each range. Where every block is final nothing waits for it.
        if chain.confirmations > 0:
            with conn.begin():
                refold_final(conn, network, chain.id)
        return
    said = reader.finality()
    with conn.begin():
        cursor = read_cursor(conn, chain.id)
        if cursor is None:
            return
        if said is None:
            noted = _final_by_depth(chain, cursor)
        else:
            noted = apply_finality(conn, reader, chain, cursor, said)
        if noted != cursor:
            record_finality(conn, noted)
            refold_final(conn, network, chain.id)


def _final_by_depth(chain: Chain, cursor: Cursor) -> Cursor:
    """Where nobody says what is safe, what is final is."""
    height = final_by_depth(chain, cursor.height)
    return cursor if height < chain.first_height else cursor.finalized(safe=height, final=height)


def _cursor_at(block: Block, head: Block, before: Cursor | None) -> Cursor:
    return Cursor(
        chain=block.chain,
        height=block.height,
        block_hash=block.hash,
        block_time=block.time,
        head_height=Height(max(head.height, block.height)),
        head_time=UnixSeconds(max(head.time, block.time)),
        safe_height=None if before is None else before.safe_height,
        final_height=None if before is None else before.final_height,
    )


def _notify(conn: Connection, block: Block) -> None:
    conn.execute(
        text("SELECT pg_notify(:channel, :payload)"),
        {"channel": channels.INGESTED, "payload": f"{block.chain}:{block.height}"},
    )
