"""Replacing an account of the relay: what it still has to do, and its removal from the reports.

docs/operations/key-rotation.md has the steps. Everything here reads the warehouse, no chain.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, delete, func, select, text, update

from indexer.bridges.deposit_address.factory import RELEASE_AFTER
from indexer.errors import ConfigurationError
from indexer.policy.relay_accounts import SILENT_SECONDS, Duty
from indexer.transfers.state_machine import NEEDS_SWEEP
from relay.nonces import AccountId
from relay.slots import of_account
from relay.status import DRAINING, all_health
from warehouse_schema.relay import halts, health, slots, sponsors, webhook_senders

# A deposit that is not released may be paid yet, and its operator alone may refund it then.
_BOUND_DEPOSITS = text("""
    SELECT count(*) AS number,
           extract(epoch FROM max(t.expires_at) - clock_timestamp()) + :release AS seconds
    FROM intake.transfers t
    LEFT JOIN projections.transfer_states s ON s.transfer = t.id
    WHERE t.deposit_operator = :account
      AND (t.expires_at > clock_timestamp() - make_interval(secs => :release)
           OR s.stage = :needs_sweep OR s.goes_back <> '{}')
""")


@dataclass(frozen=True, slots=True)
class AccountUse:
    """What an account does, and what keeps it from being removed."""

    account: AccountId
    duty: Duty
    reason: str | None
    """Its last report."""
    seen_ago: float
    """Seconds since then."""
    open_slots: int
    bound_deposits: int
    """Deposits that only this account may sweep or refund yet."""
    released_in: float
    """Seconds until the last of them is released, at least 0."""

    @property
    def obstacles(self) -> list[str]:
        """Why the account cannot be removed, a sentence each."""
        found = []
        if self.seen_ago <= SILENT_SECONDS:
            found.append("a relay signs for it: remove its key, and wait two minutes")
        if self.open_slots:
            found.append(f"transactions that are not final: {self.open_slots}")
        if self.bound_deposits:
            found.append(
                f"deposits that name it as operator: {self.bound_deposits}, the last for "
                f"{self.released_in / 3600:.1f} h"
            )
        return found

    @property
    def next_step(self) -> str:
        """What an operator does next about it."""
        if self.seen_ago > SILENT_SECONDS:
            waits = "; ".join(self.obstacles)
            command = f"isthmus keys retire {self.account.chain} {self.account.address}"
            return f"off, but {waits}: run it again" if waits else f"off: {command}"
        if self.reason != DRAINING:
            return "in use" if self.reason is None else self.reason
        # Its key is there, which `obstacles` begins with.
        waits = "; ".join(self.obstacles[1:])
        return f"draining: {waits}" if waits else "drained: remove its key and its DRAIN entry"


def account_uses(conn: Connection) -> list[AccountUse]:
    """Every account that ever reported and was not retired."""
    return [_use(conn, row) for row in all_health(conn)]


def retire_account(conn: Connection, account: AccountId) -> AccountUse:
    """Forget an account whose key is gone, so that it is no longer reported as silent.

    Its slots and attempts stay. Raises `ConfigurationError` with what keeps it.
    """
    use = next((each for each in account_uses(conn) if each.account == account), None)
    if use is None:
        raise ConfigurationError(f"no account {account.address} has reported on {account.chain}")
    if use.obstacles:
        raise ConfigurationError(
            f"{account.chain} {account.address} is needed: {'; '.join(use.obstacles)}"
        )
    for table in (health, sponsors):
        conn.execute(delete(table).where(*of_account(table, account)))
    standing = (*of_account(halts, account), halts.c.resumed_at.is_(None))
    conn.execute(update(halts).where(*standing).values(resumed_at=func.clock_timestamp()))
    return use


def webhook_keys(conn: Connection) -> list[str]:
    """Public keys of the newest sender of webhooks, `whpk_…`."""
    newest = select(func.max(webhook_senders.c.seen_at)).scalar_subquery()
    query = select(webhook_senders.c.public_key).where(webhook_senders.c.seen_at == newest)
    return sorted(conn.scalars(query))


def _use(conn: Connection, row: Row[Any]) -> AccountUse:
    account = AccountId(row.chain, row.account)
    is_open = (*of_account(slots, account), slots.c.outcome.is_(None))
    bounds = {"account": account.address, "release": RELEASE_AFTER, "needs_sweep": NEEDS_SWEEP}
    deposits = conn.execute(_BOUND_DEPOSITS, bounds).one()
    return AccountUse(
        account,
        row.duty,
        row.reason,
        row.seen_ago,
        conn.scalar(select(func.count()).select_from(slots).where(*is_open)) or 0,
        deposits.number,
        max(0.0, float(deposits.seconds or 0)),
    )
