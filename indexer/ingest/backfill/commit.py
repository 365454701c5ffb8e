"""Commits chunks, then folds the movements that were too many for their chunk.

The span's row in `facts.backfills` is written in the transaction that it stands for.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import pairwise

from sqlalchemy import Connection, exists, func, select

from indexer.chains.events import Event
from indexer.chains.finality import final_by_depth
from indexer.chains.raw import Block, RawEvent
from indexer.config.networks import Chain, Network
from indexer.errors import (
    ConfigurationError,
    FollowerConflict,
    InconsistentAnswer,
    RangeRefused,
)
from indexer.facts import backfills, days, proofs, quarantine, store
from indexer.facts.alarms import clear_alarms_about, raise_alarm
from indexer.facts.backfills import BackfillSpan, BackfillTotals
from indexer.facts.cursors import read_cursor
from indexer.facts.sessions import reading, shared_transaction
from indexer.ingest.backfill import chunks
from indexer.ingest.backfill.chunks import Chunk
from indexer.ingest.backfill_lease import busy_message
from indexer.movements.mechanisms import affected_movements, stored_keys
from indexer.movements.store import refold_movements
from indexer.transfers.store import refold_affected
from warehouse_schema import locks
from warehouse_schema.facts import blocks
from warehouse_schema.identifiers import ChainId, Height, is_evm

logger = logging.getLogger(__name__)

FOLDED_EVENTS = 2_000
"""Raw events whose movements are folded in one transaction, which blocks the followers."""

LEASE_TIMEOUT = 120.0
"""Seconds to wait for a lease of another session, such as a swap's."""


def check_range(conn: Connection, chain: Chain, first: Height, last: Height) -> None:
    """Raise `RangeRefused` for an invalid range, or one that the follower writes or will write."""
    if not 0 <= first <= last:
        raise RangeRefused(f"a backfill goes from low to high, not from {first} to {last}")
    with conn.begin():
        cursor = read_cursor(conn, chain.id)
    if cursor is None:
        # The follower's first range would meet stored blocks.
        if chain.start_height is not None and last >= chain.start_height:
            raise RangeRefused(
                f"{chain.id}: the follower begins at {chain.start_height} and has not begun; "
                f"until then a backfill may reach up to {chain.start_height - 1}, not {last}"
            )
    elif last > (final := final_by_depth(chain, cursor.height)):
        raise RangeRefused(
            f"{chain.id}: the follower is at {cursor.height} and may still take back "
            f"{chain.confirmations} blocks; a backfill may reach up to {final}, not {last}"
        )


def read_progress(conn: Connection, chain: ChainId, first: Height, last: Height) -> BackfillTotals:
    """Progress of the backfill of this exact range, as a statement without a transaction."""
    with reading(conn):
        return backfills.read_totals(conn, chain, first, last)


def read_spans(conn: Connection, chain: ChainId, first: Height, last: Height) -> list[BackfillSpan]:
    """The spans of the backfill of this exact range; none before it is planned."""
    with conn.begin():
        return backfills.read_spans(conn, chain, first, last)


def commit_chunk(
    conn: Connection, network: Network, now: BackfillSpan, chunk: Chunk
) -> BackfillSpan | None:
    """Replace what is stored in the chunk's place. Returns the new progress of the span.

    None, and nothing is written, when another process has written the span since `now` was read.

    The chunk must continue the span; it may begin earlier, if it was fetched again with another
    size. Raises `InconsistentAnswer` when it does not join the stored blocks on both sides,
    `ConfigurationError` when it is another span's, and `FollowerConflict` when another session has
    the lease of the chain for long.
    """
    continues = now.first <= chunk.first <= now.done + 1 <= chunk.last <= now.last
    if chunk.chain != now.chain or not continues:
        raise ConfigurationError(
            f"{now.chain} {now.first} to {now.last}: block {now.done + 1} is next, this is a chunk"
            f" of {chunk.chain} {chunk.first} to {chunk.last}"
        )
    busy = busy_message(chunk.chain)
    with shared_transaction(conn, locks.BACKFILL, chunk.chain, busy, timeout=LEASE_TIMEOUT):
        if not backfills.claim_span(conn, now):
            return None
        after = _replace(conn, network, now, chunk)
        backfills.save_spans(conn, [after])
    logger.info(
        "backfilled chain=%s from=%d to=%d of=%d events=%d",
        chunk.chain,
        chunk.first,
        chunk.last,
        now.last,
        chunk.events,
    )
    return after


@dataclass(frozen=True, slots=True)
class _Replaced:
    """What was stored in a chunk's place, and is deleted."""

    events: Sequence[Event] = ()
    counted: int = 0
    """Raw events that the span's progress counts."""
    undecodable: Set[str] = frozenset()
    """Alarm subjects."""
    proven: Mapping[Block, list[RawEvent]] = field(default_factory=dict)


def _replace(conn: Connection, network: Network, now: BackfillSpan, chunk: Chunk) -> BackfillSpan:
    _check_joins(conn, chunk)
    before = _remove(conn, now, chunk)
    chunk.write(conn)
    proofs.record_unproven(conn, network.chain(chunk.chain), chunk.first, chunk.last)
    proofs.restore_proven(conn, before.proven)
    days.record_change(conn, chunk.chain, chunk.first, chunk.last)
    _sync_alarms(conn, chunk, before.undecodable)
    affected = affected_movements(before.events)
    new = chunk.movements or frozenset()
    new |= chunk.sends.append(conn, affected | new)
    folded = Height(min(now.folded, chunk.first - 1))
    if chunk.movements is not None and len(new - affected) <= chunks.MAX_MOVEMENTS:
        affected |= new
        folded = chunk.last if now.folded == now.done else now.folded
    refold_movements(conn, network, affected)
    written = affected | chunk.sends.keys
    refold_affected(conn, network, before.events, written, chunk.payments, rewound=True)
    events = now.events + chunk.events - before.counted
    return replace(now, done=chunk.last, folded=folded, events=events)


def _remove(conn: Connection, now: BackfillSpan, chunk: Chunk) -> _Replaced:
    place = (chunk.chain, chunk.first, chunk.last)
    in_chunk = (blocks.c.chain == chunk.chain, blocks.c.height.between(chunk.first, chunk.last))
    if not conn.scalar(select(exists().where(*in_chunk))):
        # A range without blocks holds nothing.
        return _Replaced()
    total = select(func.coalesce(func.sum(blocks.c.events), 0))
    counted = conn.scalar(total.where(*in_chunk, blocks.c.height <= now.done))
    undecodable = store.undecodable_subjects(conn, *place)
    proven = proofs.proven_logs(conn, *place)
    events = store.remove_range(conn, *place)
    return _Replaced(events, int(counted or 0), undecodable, proven)


def _sync_alarms(conn: Connection, chunk: Chunk, alarmed: Set[str]) -> None:
    """Clear alarms of events that decode now (of `alarmed`), and raise those of the chunk."""
    decoded = alarmed - {subject for subject, _ in chunk.undecodable}
    if decoded:
        clear_alarms_about(conn, chunk.chain, *decoded)
    for subject, reason in chunk.undecodable:
        raise_alarm(conn, chunk.chain, store.UNDECODABLE, subject, reason)
    # Blocks of an EVM chain are not quarantined.
    if not is_evm(chunk.chain):
        quarantine.sync_alarms(conn, chunk.chain, chunk.first, chunk.last)


def _check_joins(conn: Connection, chunk: Chunk) -> None:
    before, after = Height(chunk.first - 1), Height(chunk.last + 1)
    beside = store.blocks_at(conn, chunk.chain, before, after)
    below, above = beside.get(before), beside.get(after)
    if below is not None and chunk.parent_hash != below.hash:
        raise InconsistentAnswer(f"{chunk.chain}: block {chunk.first} does not join below")
    if above is not None and above.parent_hash != chunk.top.hash:
        raise InconsistentAnswer(f"{chunk.chain}: block {chunk.last} does not join above")


def check_seams(conn: Connection, spans: Sequence[BackfillSpan]) -> None:
    """Raise `InconsistentAnswer` where two spans do not join.

    Of two that are committed at the same time neither sees the other's blocks.
    """
    with conn.begin():
        for below, above in pairwise(spans):
            low = store.block_at(conn, below.chain, below.last)
            high = store.block_at(conn, above.chain, above.first)
            if low is None or high is None or high.parent_hash != low.hash:
                raise InconsistentAnswer(f"{above.chain}: block {above.first} does not join below")


def fold_movements(conn: Connection, network: Network, now: BackfillSpan) -> Iterator[BackfillSpan]:
    """Fold the movements of committed facts that are not folded yet, in batches of events."""
    for last in list(_fold_steps(conn, now)):
        with conn.begin():
            if not backfills.claim_span(conn, now):
                raise FollowerConflict(busy_message(now.chain))
            first = Height(now.folded + 1)
            # These days may have been computed without the movements. Days are locked before
            # movements everywhere, or two transactions would deadlock.
            days.record_change(conn, now.chain, first, last)
            affected = stored_keys(conn, now.chain, first, last)
            refold_movements(conn, network, affected)
            refold_affected(conn, network, (), affected)
            now = replace(now, folded=last)
            backfills.save_spans(conn, [now])
        yield now


def _fold_steps(conn: Connection, now: BackfillSpan) -> Iterator[Height]:
    """Last heights of ranges of about `FOLDED_EVENTS` each, up to `now.done`."""
    if now.folded == now.done:
        return
    counted = select(blocks.c.height, blocks.c.events).where(
        blocks.c.chain == now.chain,
        blocks.c.height.between(now.folded + 1, now.done),
        blocks.c.events > 0,
    )
    events = 0
    with conn.begin():
        rows = conn.execute(
            counted.order_by(blocks.c.height), execution_options={"yield_per": 1000}
        )
        for height, count in rows:
            events += count
            if events >= FOLDED_EVENTS and height < now.done:
                yield height
                events = 0
    yield now.done
