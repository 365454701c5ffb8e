"""Health of the relay's accounts: rows that they write each turn, and problems for an operator."""

from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, Row, func, select
from sqlalchemy.dialects.postgresql import insert as upsert

from indexer.policy.relay_accounts import SILENT_SECONDS, AccountProblem, Duty
from indexer.transfers import state_machine
from relay.failures import FAILED, IS_RESET, MAX_FAILURES, failed_run
from relay.nonces import AccountId
from relay.slots import of_account
from warehouse_schema.identifiers import ChainId, NativeAmount, is_evm
from warehouse_schema.intake import transfers
from warehouse_schema.projections import transfer_states
from warehouse_schema.queries import seconds_since
from warehouse_schema.relay import health, slots, sponsors

STUCK_SECONDS = 3600.0
"""Longer than any of the chains takes to finality, with time for one or two replacements."""


DRAINING = "draining: it takes no new work"
"""Reason of an account that is being replaced: no problem, but routes need another account."""


@dataclass(frozen=True, slots=True)
class AccountHealth:
    """Health of an account: columns of `relay.health`."""

    duty: Duty
    reason: str | None
    """Why it cannot send; None when healthy."""
    balance: NativeAmount | None
    spent_today: NativeAmount
    open: int
    budget: NativeAmount
    floor: NativeAmount
    problem: AccountProblem | None = None
    """Kind of the reason, for alerts."""


def set_health(conn: Connection, account: AccountId, state: AccountHealth) -> None:
    """Write the health of an account."""
    values = asdict(state) | {"well": state.reason is None, "seen_at": func.clock_timestamp()}
    key = {"chain": account.chain, "account": account.address}
    row = upsert(health).values(key | values)
    conn.execute(row.on_conflict_do_update(index_elements=[*key], set_=values))


def set_sponsor(conn: Connection, account: AccountId, **terms: int) -> None:
    """Write the terms of a sponsor's next onboarding; `terms` are columns of `relay.sponsors`."""
    key = {"chain": account.chain, "account": account.address}
    values = terms | {"written_at": func.clock_timestamp()}
    row = upsert(sponsors).values(key | values)
    conn.execute(row.on_conflict_do_update(index_elements=[*key], set_=values))


def all_health(conn: Connection) -> list[Row[Any]]:
    """Last health row of every account; `seen_ago` is its age in seconds."""
    columns = (*health.c, seconds_since(health.c.seen_at).label("seen_ago"))
    return list(conn.execute(select(*columns).order_by(health.c.chain, health.c.account)))


def health_of(conn: Connection, account: AccountId) -> Row[Any] | None:
    """Last health row of one account; None before its first."""
    return conn.execute(select(health).where(*of_account(health, account))).one_or_none()


def describe(row: Row[Any]) -> str:
    """A row of `all_health` for people: amounts in ether or XLM.

    On Stellar the reserve of the account, which an explorer's balance contains, cannot be spent.
    """
    balance = "unknown" if row.balance is None else _coins(row.chain, row.balance)
    return (
        f"{row.chain} {row.account} ({row.duty}): spendable {balance}; "
        f"spent today {_coins(row.chain, row.spent_today)} of {_coins(row.chain, row.budget)}; "
        f"{row.open} open; {row.seen_ago:.0f} s ago"
    )


def _coins(chain: ChainId, amount: NativeAmount) -> str:
    decimals, coin = (18, "ether") if is_evm(chain) else (7, "XLM")
    whole, part = divmod(amount, 10**decimals)
    fraction = f"{part:0{decimals}d}".rstrip("0")
    return f"{whole}.{fraction} {coin}" if fraction else f"{whole} {coin}"


_open_for = seconds_since(slots.c.opened_at)
_STUCK = (
    select(*slots.c, _open_for.label("open_for"))
    .where(slots.c.outcome.is_(None), _open_for > STUCK_SECONDS)
    .order_by(slots.c.opened_at)
)
"""Slots that are open for too long."""

_TERMINAL = [stage for stage in state_machine.STAGES if state_machine.is_terminal(stage)]
_GIVEN_UP = (
    select(slots.c.chain, slots.c.purpose, slots.c.subject)
    .join_from(slots, transfer_states, transfer_states.c.transfer == slots.c.subject)
    .where(
        FAILED,
        ~IS_RESET,
        transfer_states.c.stage.not_in(_TERMINAL) | (transfer_states.c.goes_back != []),
    )
    .group_by(slots.c.chain, slots.c.purpose, slots.c.key, slots.c.subject)
    .having(func.count() >= MAX_FAILURES)
    .order_by(slots.c.chain, slots.c.subject, slots.c.purpose)
)
"""Jobs that failed too often while their transfers still wait for them."""

_operator = transfers.c.deposit_operator
_UNSERVED = (
    select(transfer_states.c.source_chain.label("chain"), _operator.label("operator"))
    .join_from(transfer_states, transfers, transfers.c.id == transfer_states.c.transfer)
    .where(
        (transfer_states.c.stage == state_machine.NEEDS_SWEEP)
        | (transfer_states.c.goes_back != []),
        _operator.is_not(None),
        ~select(health.c.account)
        .where(health.c.chain == transfer_states.c.source_chain, health.c.account == _operator)
        .exists(),
    )
    .distinct()
    .order_by("chain", "operator")
)
"""Operators of funded deposits that never had a health row."""


def relay_problems(conn: Connection) -> list[str]:
    """Problems that an operator has to look at, one sentence each."""
    accounts = all_health(conn)
    if not accounts:
        return [
            "no relay account has ever reported: is a key configured (docs/relay.md), and does the "
            "relay run? Under Dagster the ticks of relay_sensor, also in the daemon's log, say why "
            "it does not"
        ]
    found = [
        f"{row.chain} {row.account}: {row.reason}"
        for row in accounts
        if row.reason not in (None, DRAINING)
    ]
    found += [
        f"{row.chain} {row.account}: silent for {row.seen_ago:.0f} s; is its relay running?"
        for row in accounts
        if row.seen_ago > SILENT_SECONDS
    ]
    found += [
        f"{row.chain} {row.account}: {row.purpose} of {row.subject} under number {row.number} "
        f"waits for {row.open_for:.0f} s"
        for row in conn.execute(_STUCK)
    ]
    for row in accounts:
        run = failed_run(conn, AccountId(row.chain, row.account))
        if run.jobs >= MAX_FAILURES:
            found.append(
                f"{row.chain} {row.account}: the last {run.jobs} jobs were included without "
                "effect; it continues one by one, with pauses"
            )
    found += [
        f"{row.chain}: {row.purpose} of {row.subject} failed {MAX_FAILURES} times and is not "
        f"retried; after fixing the cause: isthmus relay reset-failures {row.chain} {row.subject}"
        for row in conn.execute(_GIVEN_UP)
    ]
    found += [
        f"{row.chain}: deposits wait for {row.operator}, which no relay has ever signed for"
        for row in conn.execute(_UNSERVED)
    ]
    return found
