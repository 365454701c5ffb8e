"""Ingest of one range of blocks; `indexer.ingest.follow` is the loop.

Each range is one database transaction: cursor, blocks, raw and decoded events, affected projections
and the outbox. A killed process reads the same range again and writes it once.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine

from indexer.chains.finality import ReportsFinality, final_by_depth
from indexer.chains.ports import Block, ChainReader, Range, ReadsFullLedgers
from indexer.chains.raw import UnreadLedger
from indexer.chains.watchlist import Watchlist
from indexer.config.networks import Chain, Network
from indexer.decode.build import decoder_build
from indexer.errors import InconsistentAnswer
from indexer.facts import proofs, quarantine, store
from indexer.facts.cursors import (
    Cursor,
    ingested_notice,
    move_cursor,
    notify_ingested,
    read_cursor,
    record_finality,
)
from indexer.facts.decoding import decode_events
from indexer.facts.reorg import apply_finality, find_fork, rewind
from indexer.facts.sessions import fences_itself, lease_session, standby_session
from indexer.facts.store import DecodedEvent
from indexer.facts.watchlist import StoredWatchlist
from indexer.garbage import rare_collections
from indexer.ingest.projections import apply_range, revert_events
from indexer.tracing import Attributes, transfer_changes
from indexer.transfers.affected import AffectedKeys, payments_among
from indexer.transfers.store import refold_final
from warehouse_schema import locks
from warehouse_schema.identifiers import ChainId, Height, UnixSeconds

if TYPE_CHECKING:
    from indexer.chains.stellar.event_columns import LedgerColumns
    from indexer.facts.columns_decode import DecodedColumns

logger = logging.getLogger(__name__)

MAX_BLOCKS = 200
"""Blocks of one transaction: bounds memory, and a waiting reader sees progress."""
_OBJECTS = 100_000
"""New objects between two garbage collections: a full Stellar ledger has a third of them."""


@dataclass(frozen=True, slots=True)
class RangeProgress:
    """State of a chain after one range. Counts of a reorg are negative."""

    chain: ChainId
    height: Height
    block_time: UnixSeconds
    head_height: Height
    head_time: UnixSeconds
    blocks: int
    events: int
    undecodable: int
    quarantined: int = 0
    """Ledgers of which only the header could be decoded."""

    @property
    def lag_blocks(self) -> int:
        """Blocks between the head and the last committed block."""
        return max(0, self.head_height - self.height)

    @property
    def lag_seconds(self) -> int:
        """Seconds of chain time between the head and the last committed block."""
        return max(0, self.head_time - self.block_time)


@dataclass(frozen=True, slots=True)
class RangeStep:
    """Result of `ingest_range`."""

    cursor: Cursor | None
    """The cursor after it; None when it must be read again."""
    progress: RangeProgress | None
    """None when there was nothing new."""


def follower_lease(engine: Engine, chain: ChainId) -> AbstractContextManager[Connection]:
    """A connection that alone may write the chain. Raises `FollowerConflict`."""
    return lease_session(engine, locks.FOLLOWER, chain, f"another process follows {chain}")


def follower_session(
    engine: Engine, chain: ChainId, should_stop: Callable[[], bool]
) -> AbstractContextManager[Connection | None]:
    """As `follower_lease`, but waits as a standby; None when `should_stop` came first."""
    return standby_session(engine, locks.FOLLOWER, chain, should_stop)


@rare_collections(_OBJECTS)
def ingest_range(
    conn: Connection,
    reader: ChainReader,
    network: Network,
    head: Block,
    max_blocks: int,
    cursor: Cursor | None,
    *,
    watched: Watchlist | None = None,
) -> RangeStep:
    """Ingest one range towards a head, or rewind after a reorg.

    `cursor` as stored, None before the first range: the commit compares it with the stored one.
    Raises the errors of `indexer.errors`; nothing half-written stays.
    """
    chain = network.chain(reader.chain)
    # A head below the cursor is usually a lagging node: wait. After a reorg the new head passes the
    # cursor in the end, and its range does not join.
    if cursor is not None and head.height == cursor.height and head.hash != cursor.block_hash:
        return _rewind(conn, reader, network, chain, cursor, head)
    first = Height(chain.first_height if cursor is None else cursor.height + 1)
    if head.height < first:
        return RangeStep(cursor, None)
    last = Height(min(head.height, first + max_blocks - 1))
    fresh = _read(reader, chain, first, last, watched or StoredWatchlist.on(conn, chain))
    if cursor is not None and fresh.blocks[0].parent_hash != cursor.block_hash:
        return _rewind(conn, reader, network, chain, cursor, head)
    moved = cursor_at(reader, chain, cursor, fresh.blocks[-1], head)
    return RangeStep(moved, _commit(conn, network, chain, cursor, moved, fresh))


@dataclass(frozen=True, slots=True)
class _DecodedRange:
    """A range as it is written."""

    blocks: Sequence[Block]
    decoded: Sequence[DecodedEvent]
    unread: Sequence[UnreadLedger] = ()
    columns: "DecodedColumns | None" = None
    """Events that columns decided, written as they are; `decoded` are those that they did not."""
    payments: AffectedKeys | None = None
    """Payments among the events that columns decided."""

    @property
    def events_in_columns(self) -> int:
        """Raw events that are not in `decoded`."""
        return 0 if self.columns is None else sum(self.columns.counts.values())


def _read(
    reader: ChainReader, chain: Chain, first: Height, last: Height, watched: Watchlist
) -> _DecodedRange:
    if isinstance(reader, ReadsFullLedgers):
        try:
            found = reader.read_full(first, last, watched)
            if not isinstance(found, Range):
                return _decode_columns(chain, found)
        except (ValueError, TypeError, LookupError):
            # What fails in columns alone must not stop the chain.
            logger.exception("no columns chain=%s height=%d", chain.id, first)
        else:
            return _decode_range(chain, found)
    return _decode_range(chain, reader.read(first, last, watched))


def _decode_range(chain: Chain, read: Range) -> _DecodedRange:
    return _DecodedRange(read.blocks, decode_events(read.events, chain), read.unread)


def _decode_columns(chain: Chain, read: "LedgerColumns") -> _DecodedRange:
    # Imported here: polars takes 40 MB, which a follower does without until a ledger is full.
    from indexer.chains.polars_errors import polars_errors_as_value_errors
    from indexer.facts.columns_decode import decode_frame

    with polars_errors_as_value_errors():
        columns = decode_frame(read.events, chain)
        payments = payments_among((), columns.events)
    return _DecodedRange(read.blocks, columns.others, columns=columns, payments=payments)


def cursor_at(
    reader: ChainReader, chain: Chain, cursor: Cursor | None, top: Block, head: Block
) -> Cursor:
    """The cursor after a range that ends with `top`."""
    moved = Cursor(
        chain=top.chain,
        height=top.height,
        block_hash=top.hash,
        block_time=top.time,
        head_height=Height(max(head.height, top.height)),
        head_time=UnixSeconds(max(head.time, top.time)),
        safe_height=None if cursor is None else cursor.safe_height,
        final_height=None if cursor is None else cursor.final_height,
    )
    return moved if isinstance(reader, ReportsFinality) else _finalize_by_depth(chain, moved)


def _commit(
    conn: Connection,
    network: Network,
    chain: Chain,
    cursor: Cursor | None,
    moved: Cursor,
    fresh: "_DecodedRange",
) -> RangeProgress:
    first, last, decoded = fresh.blocks[0], fresh.blocks[-1], fresh.decoded
    span: Attributes = {"chain": chain.id, "from_height": first.height, "to_height": last.height}
    with transfer_changes("follower range", span), fences_itself(conn):
        # The cursor first, and the lease with it: a second writer fails here, before it has written
        # anything.
        move_cursor(conn, cursor, moved)
        heights = {item.raw.seen.height for item in decoded}
        held = [block for block in fresh.blocks if block.height in heights]
        notice = ingested_notice(chain.id, last.height)
        also = [proofs.unproven_rows(chain, held), notice]
        store.append(conn, fresh.blocks, decoded, also, fresh.columns)
        if fresh.unread:
            quarantine.add_ledgers(conn, fresh.unread, decoder_build())
        events = [item.event for item in decoded if item.event is not None]
        apply_range(conn, network, chain.id, fresh.blocks, events, fresh.payments)
    for ledger in fresh.unread:
        logger.error(
            "quarantined chain=%s height=%d: %s", chain.id, ledger.block.height, ledger.reason
        )
    return committed_progress(
        moved,
        blocks=len(fresh.blocks),
        events=len(decoded) + fresh.events_in_columns,
        undecodable=sum(item.undecodable is not None for item in decoded),
        quarantined=len(fresh.unread),
    )


def committed_progress(
    moved: Cursor, *, blocks: int, events: int, undecodable: int, quarantined: int = 0
) -> RangeProgress:
    """The progress of a committed range that ends at the cursor; logs it."""
    logger.info(
        "ingested chain=%s from=%d to=%d events=%d undecodable=%d",
        moved.chain,
        moved.height - blocks + 1,
        moved.height,
        events,
        undecodable,
    )
    return RangeProgress(
        chain=moved.chain,
        height=moved.height,
        block_time=moved.block_time,
        head_height=moved.head_height,
        head_time=moved.head_time,
        blocks=blocks,
        events=events,
        undecodable=undecodable,
        quarantined=quarantined,
    )


def _rewind(
    conn: Connection,
    reader: ChainReader,
    network: Network,
    chain: Chain,
    cursor: Cursor,
    head: Block,
) -> RangeStep:
    with fences_itself(conn):
        fork = find_fork(conn, reader, chain, cursor)
    if fork.height == cursor.height:
        # The range does not join our last block, yet the node has that block: two nodes behind one
        # address, on two forks.
        raise InconsistentAnswer(f"{chain.id}: the node has block {fork.height} and denies it")
    with transfer_changes("follower rewind", {"chain": chain.id}), conn.begin():
        deleted = rewind(conn, cursor, fork)
        revert_events(conn, network, deleted)
        notify_ingested(conn, chain.id, fork.height)
    progress = RangeProgress(
        chain=chain.id,
        height=fork.height,
        block_time=fork.time,
        head_height=Height(max(head.height, fork.height)),
        head_time=UnixSeconds(max(head.time, fork.time)),
        blocks=fork.height - cursor.height,
        events=-len(deleted),
        undecodable=0,
    )
    return RangeStep(None, progress)


def update_finality(conn: Connection, reader: ChainReader, network: Network) -> Cursor | None:
    """Record newly finalized blocks: as the node reports them, else by depth.

    Returns the cursor as it is stored now; None if it was not read.
    """
    chain = network.chain(reader.chain)
    if not isinstance(reader, ReportsFinality):
        # Each range records it. Where every block is final at once no transfer waits for it.
        if chain.confirmations > 0:
            with transfer_changes("follower finality", {"chain": chain.id}), conn.begin():
                refold_final(conn, network, chain.id)
        return None
    reported = reader.finality()
    with transfer_changes("follower finality", {"chain": chain.id}), conn.begin():
        cursor = read_cursor(conn, chain.id)
        if cursor is None:
            return None
        if reported is None:
            updated = _finalize_by_depth(chain, cursor)
        else:
            updated = apply_finality(conn, reader, chain, cursor, reported)
        if updated != cursor:
            record_finality(conn, updated)
            refold_final(conn, network, chain.id)
    return updated


def _finalize_by_depth(chain: Chain, cursor: Cursor) -> Cursor:
    """Final blocks by confirmations, which count as safe as well."""
    height = final_by_depth(chain, cursor.height)
    return cursor if height < chain.first_height else cursor.finalized(safe=height, final=height)
