"""Chunks into the warehouse in order, and the movements that were too many to fold on the way.

The backfill's row in `facts.backfills` moves in the transaction that writes what it stands for.
"""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from sqlalchemy import Connection, Engine, exists, func, select

from indexer.chains.events import Event
from indexer.config.networks import Chain, Network
from indexer.errors import (
    ConfigurationError,
    FollowerConflict,
    InconsistentAnswer,
    RangeRefused,
)
from indexer.facts import backfills, days, proofs, quarantine, store
from indexer.facts.alarms import clear_alarms_about, raise_alarm
from indexer.facts.backfills import Backfill
from indexer.facts.columns_copy import copy_text
from indexer.facts.cursors import read_cursor
from indexer.ingest.backfill.chunks import Chunk
from indexer.movements.fold import MOVEMENT_EVENTS
from indexer.movements.store import affected_movements, refold_movements
from indexer.transfers.affected import PAYMENT_EVENTS
from indexer.transfers.store import refold_affected
from warehouse_schema import locks
from warehouse_schema.facts import blocks
from warehouse_schema.identifiers import ChainId, Height
from warehouse_schema.leases import end_lease, take_lease
from warehouse_schema.lock_tables import leases

logger = logging.getLogger(__name__)

FOLDED_EVENTS = 2_000
"""Raw events whose movements are folded in one transaction, which holds up the followers."""

_LOOK_SECONDS = 0.1
"""From one try for the lease to the next."""


@contextmanager
def backfill_lease(
    engine: Engine, chain: ChainId, *, patience: float = 0.0
) -> Iterator[Connection]:
    """A connection that alone may backfill the chain.

    The lease belongs to the session that writes: losing the one is losing the other. Raises
    `FollowerConflict` when another session still has it after `patience` seconds.
    """
    with engine.connect() as conn:
        key = take_backfill_lease(conn, chain, patience)
        try:
            yield conn
        finally:
            if not conn.invalidated:
                conn.rollback()
                end_lease(conn, locks.BACKFILL, key)
                conn.commit()


def take_backfill_lease(conn: Connection, chain: ChainId, patience: float) -> int:
    """The key of the lease, for `end_lease`. Raises `FollowerConflict` as `backfiller` does."""
    deadline = time.monotonic() + patience
    while True:
        with conn.begin():
            key = take_lease(conn, leases, locks.BACKFILL, chain)
        if key is not None:
            return key
        if time.monotonic() >= deadline:
            raise FollowerConflict(f"another backfill of {chain} is running")
        time.sleep(_LOOK_SECONDS)


def check_range(conn: Connection, chain: Chain, first: Height, last: Height) -> None:
    """Raise `RangeRefused` for a range that the follower writes or is going to, or that is none."""
    if not 0 <= first <= last:
        raise RangeRefused(f"a backfill goes from low to high, not from {first} to {last}")
    with conn.begin():
        cursor = read_cursor(conn, chain.id)
    if cursor is None:
        # Its first range would meet blocks that are there already.
        if chain.start_height is not None and last >= chain.start_height:
            raise RangeRefused(
                f"{chain.id}: the follower begins at {chain.start_height} and has not begun; "
                f"until then a backfill may reach up to {chain.start_height - 1}, not {last}"
            )
    elif last > cursor.height - chain.confirmations:
        raise RangeRefused(
            f"{chain.id}: the follower is at {cursor.height} and may still take back "
            f"{chain.confirmations} blocks; a backfill may reach up to "
            f"{cursor.height - chain.confirmations}, not {last}"
        )


def read_progress(conn: Connection, chain: ChainId, first: Height, last: Height) -> Backfill:
    """Where a backfill of that very range stands; at its beginning if none is under way."""
    with conn.begin():
        return backfills.read_backfill(conn, chain, first, last)


def commit_chunk(conn: Connection, network: Network, now: Backfill, chunk: Chunk) -> Backfill:
    """Put the chunk in the place of what is stored there.

    It must go on where the backfill is; it may begin earlier, as one does that was fetched anew in
    other pieces. Raises `InconsistentAnswer` when it does not join what is stored on both sides,
    and `ConfigurationError` when it is another range's.
    """
    goes_on = now.first <= chunk.first <= now.done + 1 <= chunk.last <= now.last
    if chunk.chain != now.chain or not goes_on:
        raise _stray(now, chunk)
    with conn.begin():
        _check_seams(conn, chunk)
        again = _events_between(conn, chunk.chain, chunk.first, now.done)
        alarmed = {*store.undecodable_subjects(conn, chunk.chain, chunk.first, chunk.last)}
        proven = proofs.proven_logs(conn, chunk.chain, chunk.first, chunk.last)
        before = _remove(conn, chunk)
        for copied in chunk.copies:
            copy_text(conn, copied)
        proofs.record_unproven(conn, network.chain(chunk.chain), chunk.first, chunk.last)
        proofs.restore_proven(conn, proven)
        days.record_change(conn, chunk.chain, chunk.first, chunk.last)
        _settle_alarms(conn, chunk, alarmed)
        burn_keys, guids = affected_movements(before)
        folded = Height(min(now.folded, chunk.first - 1))
        if chunk.movements is not None:
            burn_keys |= chunk.movements.burn_keys
            guids |= chunk.movements.guids
            folded = chunk.last if now.folded == now.done else now.folded
        refold_movements(conn, network, burn_keys, guids)
        paid = store.read_events(conn, PAYMENT_EVENTS, chunk.chain, chunk.first, chunk.last)
        refold_affected(conn, network, [*before, *paid], burn_keys | guids, rewound=True)
        events = now.events + chunk.events - again
        after = replace(now, done=chunk.last, folded=folded, events=events)
        backfills.save_backfill(conn, after)
    logger.info(
        "backfilled chain=%s from=%d to=%d of=%d events=%d",
        chunk.chain,
        chunk.first,
        chunk.last,
        now.last,
        chunk.events,
    )
    return after


def _settle_alarms(conn: Connection, chunk: Chunk, alarmed: set[str]) -> None:
    """Clear what is decoded by now, and call for an operator about what is not.

    `alarmed` are the events that stood here and were undecodable.
    """
    decoded = alarmed - {subject for subject, _ in chunk.undecodable}
    clear_alarms_about(conn, chunk.chain, *decoded)
    for subject, reason in chunk.undecodable:
        raise_alarm(conn, chunk.chain, store.UNDECODABLE, subject, reason)
    quarantine.sync_alarms(conn, chunk.chain, chunk.first, chunk.last)


def _stray(now: Backfill, chunk: Chunk) -> ConfigurationError:
    return ConfigurationError(
        f"{now.chain} {now.first} to {now.last}: block {now.done + 1} is next, this is a chunk of"
        f" {chunk.chain} {chunk.first} to {chunk.last}"
    )


def _events_between(conn: Connection, chain: ChainId, first: Height, last: Height) -> int:
    counted = select(func.coalesce(func.sum(blocks.c.events), 0))
    in_range = (blocks.c.chain == chain) & blocks.c.height.between(first, last)
    return int(conn.scalar(counted.where(in_range)) or 0)


def _check_seams(conn: Connection, chunk: Chunk) -> None:
    """What is read must join what is stored on both sides."""
    below = store.block_at(conn, chunk.chain, Height(chunk.first - 1))
    above = store.block_at(conn, chunk.chain, Height(chunk.last + 1))
    if below is not None and chunk.parent_hash != below.hash:
        raise InconsistentAnswer(f"{chunk.chain}: block {chunk.first} does not join below")
    if above is not None and above.parent_hash != chunk.hash:
        raise InconsistentAnswer(f"{chunk.chain}: block {chunk.last} does not join above")


def _remove(conn: Connection, chunk: Chunk) -> list[Event]:
    """What is stored in the chunk's place. A range without blocks holds nothing."""
    stored = select(
        exists().where(
            blocks.c.chain == chunk.chain, blocks.c.height.between(chunk.first, chunk.last)
        )
    )
    if not conn.scalar(stored):
        return []
    return store.remove_range(conn, chunk.chain, chunk.first, chunk.last)


def fold_movements(conn: Connection, network: Network, now: Backfill) -> Iterator[Backfill]:
    """Fold the movements of what is committed and not folded yet, some events at a time."""
    for last in list(_fold_steps(conn, now)):
        with conn.begin():
            events = store.read_events(
                conn, MOVEMENT_EVENTS, now.chain, Height(now.folded + 1), last
            )
            # Who computed these days since the facts came in did it without these movements. Days
            # before movements, as everywhere: two that wait for each other would wait for ever.
            days.record_change(conn, now.chain, Height(now.folded + 1), last)
            burn_keys, guids = affected_movements(events)
            refold_movements(conn, network, burn_keys, guids)
            refold_affected(conn, network, (), burn_keys | guids)
            now = replace(now, folded=last)
            backfills.save_backfill(conn, now)
        yield now


def _fold_steps(conn: Connection, now: Backfill) -> Iterator[Height]:
    """Last heights of ranges of about `FOLDED_EVENTS` each, up to the last that is done."""
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


def finish(conn: Connection, now: Backfill) -> None:
    """Forget a backfill that is done: another one of the range begins anew."""
    with conn.begin():
        backfills.delete_backfill(conn, now)
