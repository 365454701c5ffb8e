"""How the relay is, for people: what it says of itself, and what it cannot say."""

from typing import Any

from sqlalchemy import Connection, Row, func, select

from indexer.policy.relay_accounts import SILENT_SECONDS
from indexer.transfers import state_machine
from relay import store
from relay.account import MAX_FAILURES
from relay.store import seconds_since
from warehouse_schema.intake import transfers
from warehouse_schema.projections import transfer_states
from warehouse_schema.relay import health, slots

STUCK_SECONDS = 3600.0
"""Longer than any chain of ours takes to be final, with room for a replacement or two."""


def relay_problems(conn: Connection) -> list[str]:
    """What an operator has to look at, a sentence each."""
    accounts = store.all_health(conn)
    if not accounts:
        return ["no account of a relay has ever been here"]
    found = [
        f"{row.chain} {row.account}: {row.reason}" for row in accounts if row.reason is not None
    ]
    found += [
        f"{row.chain} {row.account}: silent for {row.seen_ago:.0f} s; is its relay running?"
        for row in accounts
        if row.seen_ago > SILENT_SECONDS
    ]
    found += [
        f"{row.chain} {row.account}: {row.purpose} of {row.subject} under number {row.number} "
        f"waits for {row.open_for:.0f} s"
        for row in _waiting_longest(conn, STUCK_SECONDS)
    ]
    for row in accounts:
        run = store.failed_run(conn, store.AccountId(row.chain, row.account))
        if run.things >= MAX_FAILURES:
            found.append(
                f"{row.chain} {row.account}: the last {run.things} things to be done were included "
                "and had no effect; it goes on one by one, with pauses"
            )
    found += [
        f"{row.chain}: {row.purpose} of {row.subject} failed {MAX_FAILURES} times and is let be; "
        f"once its cause is mended: isthmus relay reset-failures {row.chain} {row.subject}"
        for row in _given_up(conn, MAX_FAILURES)
    ]
    found += [
        f"{row.chain}: deposits wait for {row.operator}, which no relay has ever signed for"
        for row in _unserved_operators(conn)
    ]
    return found


def _waiting_longest(conn: Connection, seconds: float) -> list[Row[Any]]:
    """Slots that were opened so many seconds ago and are open; `open_for` is how many."""
    open_for = seconds_since(slots.c.opened_at)
    query = select(*slots.c, open_for.label("open_for")).where(
        slots.c.outcome.is_(None), open_for > seconds
    )
    return list(conn.execute(query.order_by(slots.c.opened_at)))


def _given_up(conn: Connection, failures: int) -> list[Row[Any]]:
    """What failed so often and transfers wait for still; `chain`, `purpose`, `subject`."""
    columns, stages = slots.c, transfer_states.c
    over = [stage for stage in state_machine.STAGES if state_machine.is_terminal(stage)]
    query = (
        select(columns.chain, columns.purpose, columns.subject)
        .join_from(slots, transfer_states, stages.transfer == columns.subject)
        .where(
            store.has_failed(),
            ~store.is_reset(),
            stages.stage.not_in(over) | (stages.goes_back != []),
        )
        .group_by(columns.chain, columns.purpose, columns.key, columns.subject)
        .having(func.count() >= failures)
        .order_by(columns.chain, columns.subject, columns.purpose)
    )
    return list(conn.execute(query))


def _unserved_operators(conn: Connection) -> list[Row[Any]]:
    """Accounts that deposits wait for and that have never been here; `chain`, `operator`."""
    stages = transfer_states.c
    is_served = (
        select(health.c.account)
        .where(health.c.chain == stages.source_chain, health.c.account == _operator)
        .exists()
    )
    query = (
        select(stages.source_chain.label("chain"), _operator.label("operator"))
        .join_from(transfer_states, transfers, transfers.c.id == stages.transfer)
        .where(
            (stages.stage == "FUNDED") | (stages.goes_back != []),
            _operator.is_not(None),
            ~is_served,
        )
        .distinct()
        .order_by("chain", "operator")
    )
    return list(conn.execute(query))


_operator = transfers.c.deposit_operator
