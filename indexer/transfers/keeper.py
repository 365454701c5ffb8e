"""The loop that folds rows of clients and the relay, and expires transfers by the database's clock.

Chain events are folded in the transaction that writes them. Rows of clients and the relay are
announced to it; those that were written while no keeper listened are found at the start. It runs
the publisher as well, which sends these announcements.
"""

import threading
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, func, insert, select, text

from indexer.config.networks import Network
from indexer.loops import pause, pause_on_outage
from indexer.metrics.catalogue import KEEPER_TRANSFERS
from indexer.metrics.collectors import count, loop_time, waiting
from indexer.notifications import listen, wait_for_notifications
from indexer.publisher import publish_notifications
from indexer.tracing import transfer_changes
from indexer.transfers import state_machine
from indexer.transfers.read import read_transfers
from indexer.transfers.store import (
    is_behind,
    refold_transfers,
    try_lock_transfers,
    with_interchangeable,
)
from warehouse_schema import channels
from warehouse_schema.facts import cursors, expiries
from warehouse_schema.intake import quotes, transfers
from warehouse_schema.projections import transfer_states
from warehouse_schema.queries import any_of

_BATCH = 100
"""Transfers per transaction: few, so that others do not wait long for one of them."""
_NOTIFICATION_SECONDS = 1.0
"""Timeout of the wait for notifications, after which clock and stop are checked."""
_RECONNECT_SECONDS = 2.0
_FROZEN_SECONDS = 10
"""A keeper that stops for so long within a transaction loses its session: it holds rows of
transfers, for which followers and other keepers wait."""


@dataclass(frozen=True, slots=True)
class KeeperProgress:
    """What one pass did."""

    moved: int = 0
    """Rows changed."""
    expired: int = 0


def run_keeper(
    engine: Engine,
    network: Network,
    *,
    should_stop: Callable[[], bool],
    on_progress: Callable[[KeeperProgress], None] = lambda _: None,
) -> None:
    """Run until `should_stop`, with a publisher; reconnects after a database outage.

    Several may run: each transfer is refolded under its lock. `on_progress` is called after
    catching up, and after each pass that changed a row.
    """
    over = threading.Event()
    with ThreadPoolExecutor(1, "publisher") as pool:
        publisher = pool.submit(publish_notifications, engine, should_stop=over.is_set)
        try:
            _run(engine, network, lambda: should_stop() or publisher.done(), on_progress)
        finally:
            over.set()
    publisher.result()


def _run(
    engine: Engine,
    network: Network,
    should_stop: Callable[[], bool],
    on_progress: Callable[[KeeperProgress], None],
) -> None:
    while not should_stop():
        with (
            loop_time("keeper"),
            pause_on_outage("keeper", lambda: pause(_RECONNECT_SECONDS, should_stop)),
            engine.connect() as conn,
        ):
            try:
                with conn.begin():
                    conn.execute(
                        text(f"SET idle_in_transaction_session_timeout = '{_FROZEN_SECONDS}s'")
                    )
                listen(conn, channels.INTAKE)
                progress = catch_up(conn, network)
                _count(progress)
                on_progress(progress)
                while not should_stop():
                    progress = process_notifications(conn, network, _NOTIFICATION_SECONDS)
                    if progress != KeeperProgress():
                        _count(progress)
                        on_progress(progress)
            finally:
                # In the pool it would deliver notifications to its next user.
                conn.invalidate()


def _count(progress: KeeperProgress) -> None:
    count(KEEPER_TRANSFERS, "moved", by=progress.moved)
    count(KEEPER_TRANSFERS, "expired", by=progress.expired)


def process_notifications(conn: Connection, network: Network, seconds: float) -> KeeperProgress:
    """Refold the transfers announced within `seconds`, and expire those that are due."""
    with waiting("idle"):
        announced = wait_for_notifications(conn, seconds)
    with transfer_changes("keeper notification", {}), conn.begin():
        moved = refold_transfers(conn, network, announced)
    with transfer_changes("keeper expiry", {}), conn.begin():
        return KeeperProgress(moved, expire_due(conn, network))


def catch_up(conn: Connection, network: Network) -> KeeperProgress:
    """Refold the transfers whose row is behind, and expire all that are due."""
    query = (
        select(transfers.c.id)
        .outerjoin(transfer_states, transfer_states.c.transfer == transfers.c.id)
        .where(is_behind())
        .order_by(transfers.c.id)
    )
    with conn.begin():
        behind: list[str] = list(conn.scalars(query))
    moved = expired = 0
    for start in range(0, len(behind), _BATCH):
        with transfer_changes("keeper catch-up", {}), conn.begin():
            moved += refold_transfers(conn, network, behind[start : start + _BATCH])
    while True:
        with transfer_changes("keeper expiry", {}), conn.begin():
            more = expire_due(conn, network)
        expired += more
        if not more:
            return KeeperProgress(moved, expired)


def expire_due(conn: Connection, network: Network) -> int:
    """Expire transfers whose time ran out before anything irreversible; returns how many.

    Their source chain must have been read beyond their time: a payment in time may not be read yet.
    They are checked again under their locks, so a submission comes before or after, never between.
    A transfer that is being decided waits for the next pass.
    """
    due = with_interchangeable(conn, _due(conn))
    if not due:
        return 0
    free = try_lock_transfers(conn, due)
    still = set(_due(conn, among=due))
    if len(free) < len(due):
        still = {each for each in still if free.issuperset(with_interchangeable(conn, [each]))}
    # A transfer that cannot be folded stays: its refold raises the alarm. One with an unproven
    # block stays too: the block may hold a payment in time.
    expired = [
        {"transfer": each.terms.id}
        for each in read_transfers(conn, network, still)
        if each.illegal is None
        and not each.loaded.unproven
        and state_machine.may_expire(each.state.stage)
    ]
    if expired:
        conn.execute(insert(expiries), expired)
    refold_transfers(conn, network, due)
    return len(expired)


def _due(conn: Connection, among: Collection[str] | None = None) -> list[str]:
    """Due transfers: of `among`, or `_BATCH` random ones.

    Random, because 100 that have to wait (unproven, being decided, not foldable) would keep all
    others from expiring.
    """
    stages = [stage for stage in state_machine.STAGES if state_machine.may_expire(stage)]
    query = (
        select(transfers.c.id)
        .join_from(transfers, quotes)
        .join(transfer_states, transfer_states.c.transfer == transfers.c.id)
        .join(cursors, cursors.c.chain == quotes.c.source_chain)
        .where(
            transfer_states.c.stage == any_of(stages),
            transfers.c.expires_at <= func.clock_timestamp(),
            transfers.c.expires_at < func.to_timestamp(cursors.c.block_time),
        )
    )
    if among is not None:
        return list(conn.scalars(query.where(transfers.c.id == any_of(among))))
    return list(conn.scalars(query.order_by(func.random()).limit(_BATCH)))
