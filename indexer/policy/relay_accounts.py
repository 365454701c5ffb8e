"""Status of the relay's accounts as the relay reports it, for processes without its keys."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from sqlalchemy import Connection, select

from warehouse_schema.identifiers import ChainId
from warehouse_schema.queries import seconds_since
from warehouse_schema.relay import health

Duty: TypeAlias = Literal["deliver", "sponsor", "submit"]
"""Purpose: transfers on the account's chain, trustlines of owners, or what owners signed.

Submissions have one row a chain, with a budget of their own, whichever account pays for them.
"""

AccountProblem: TypeAlias = Literal["halted", "unrecorded", "balance", "budget", "node", "draining"]
"""Kind of reason why an account cannot send."""

SILENT_SECONDS = 120.0
"""The relay reports each turn: every few seconds, or each minute when no node is healthy."""


@dataclass(frozen=True, slots=True)
class RelayAccountStatus:
    """An account of the relay."""

    chain: ChainId
    account: str
    duty: Duty
    reason: str | None
    """Why it cannot send, by its last report; None if it can."""
    seen_ago: float
    """Seconds since the last report, by the database's clock."""

    @property
    def is_silent(self) -> bool:
        """Whether its last report is too old."""
        return self.seen_ago > SILENT_SECONDS

    @property
    def is_healthy(self) -> bool:
        """Whether it can send."""
        return self.reason is None and not self.is_silent


_STATUSES = select(
    *(health.c[name] for name in ("chain", "account", "duty", "reason")),
    seconds_since(health.c.seen_at).label("seen_ago"),
).order_by(health.c.chain, health.c.account)


def account_statuses(conn: Connection) -> list[RelayAccountStatus]:
    """Status of every account that ever reported."""
    return [RelayAccountStatus(**row._mapping) for row in conn.execute(_STATUSES)]
