"""The loop that keeps stages of transfers up to what clients and the relay wrote, and to the clock.

What chains say moves a transfer in the transaction that writes it. What clients ask for and what
the relay signs is written by others, who tell us by NOTIFY; what was written while nobody listened
is found when we begin to. Time runs out by the database's clock.
"""

import logging
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, Select, func, insert, select

from indexer.config.networks import Network
from indexer.loops import pause_on_outage
from indexer.notifications import listen, wait_for_notifications
from indexer.transfers import state_machine
from indexer.transfers.fold import fold_transfer
from indexer.transfers.load import LoadedTransfer, load_transfers
from indexer.transfers.state_machine import IllegalTransition
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

logger = logging.getLogger(__name__)

_AT_ONCE = 100
"""Most transfers of one transaction: who waits for one of them does not wait long."""
_TURN_SECONDS = 1.0
"""How long to wait for a word before looking at the clock, and at the stop."""
_LOST_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class KeeperProgress:
    """What was done for transfers."""

    moved: int = 0
    """Rows that are others now."""
    expired: int = 0


def run_keeper(
    engine: Engine,
    network: Network,
    *,
    should_stop: Callable[[], bool],
    on_progress: Callable[[KeeperProgress], None] = lambda _: None,
) -> None:
    """Keep up until `should_stop` says so; a lost database is waited for.

    Any number of these may run: each transfer is refolded under its lock. `on_progress` is told
    once it has caught up, and whenever something was done.
    """
    while not should_stop():
        with pause_on_outage("keeper", _LOST_SECONDS, should_stop), _listening(engine) as conn:
            on_progress(catch_up(conn, network))
            while not should_stop():
                kept = process_notifications(conn, network, _TURN_SECONDS)
                if kept != KeeperProgress():
                    on_progress(kept)


@contextmanager
def _listening(engine: Engine) -> Iterator[Connection]:
    with engine.connect() as conn:
        listen(conn, channels.INTAKE)
        try:
            yield conn
        finally:
            # The pool would hand it to somebody who hears what was not meant for them.
            conn.invalidate()


def process_notifications(conn: Connection, network: Network, seconds: float) -> KeeperProgress:
    """Refold what is told within so many seconds, and let expire what is due."""
    told = wait_for_notifications(conn, seconds)
    with conn.begin():
        moved = refold_transfers(conn, network, told)
    with conn.begin():
        return KeeperProgress(moved, expire_due(conn, network))


def catch_up(conn: Connection, network: Network) -> KeeperProgress:
    """Refold what was written while nobody listened, and let expire what became due."""
    with conn.begin():
        missed: list[str] = list(conn.scalars(_missed()))
    moved = expired = 0
    for start in range(0, len(missed), _AT_ONCE):
        with conn.begin():
            moved += refold_transfers(conn, network, missed[start : start + _AT_ONCE])
    while True:
        with conn.begin():
            more = expire_due(conn, network)
        expired += more
        if not more:
            return KeeperProgress(moved, expired)


def _missed() -> Select[tuple[str]]:
    return (
        select(transfers.c.id)
        .outerjoin(transfer_states, transfer_states.c.transfer == transfers.c.id)
        .where(is_behind())
        .order_by(transfers.c.id)
    )


def expire_due(conn: Connection, network: Network) -> int:
    """Let those expire of which nothing irreversible has happened in time; how many did.

    Their source chain has to be read beyond their time: what was paid in time and not read yet is
    in time. They are looked at again under their locks, so a submission at that moment comes first
    or second, and not between. One that is being decided about has to wait for the next turn.
    """
    due = with_interchangeable(conn, _due(conn))
    if not due:
        return 0
    free = try_lock_transfers(conn, due)
    still = set(_due(conn, among=due))
    if len(free) < len(due):
        still = {each for each in still if free.issuperset(with_interchangeable(conn, [each]))}
    over = [
        {"transfer": each.inputs.terms.id}
        for each in load_transfers(conn, network, still)
        if _may_expire(each)
    ]
    if over:
        conn.execute(insert(expiries), over)
    refold_transfers(conn, network, due)
    return len(over)


def _may_expire(loaded: LoadedTransfer) -> bool:
    """What cannot be folded does not: its refold raises the alarm, and the others go on.

    Neither does one with an unproven block, which may hold a payment that came in time.
    """
    if loaded.unproven:
        return False
    try:
        return state_machine.may_expire(fold_transfer(loaded.inputs).stage)
    except IllegalTransition:
        return False


def _due(conn: Connection, among: Collection[str] | None = None) -> list[str]:
    """Up to `_AT_ONCE` transfers to expire, of all or of these.

    Chance says which: 100 that have to wait (unproven, being decided, impossible to fold) would
    keep all others from expiring.
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
    return list(conn.scalars(query.order_by(func.random()).limit(_AT_ONCE)))
