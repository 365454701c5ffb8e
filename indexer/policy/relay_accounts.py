"""How the relay's accounts are, as they say themselves: for those who must not see their keys."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from sqlalchemy import Connection, Float, cast, extract, func, select

from warehouse_schema.identifiers import ChainId
from warehouse_schema.relay import health

Duty: TypeAlias = Literal["deliver", "sponsor"]
"""What an account is there for: what transfers need on its chain, or trustlines of owners."""

SILENT_SECONDS = 120.0
"""A relay writes each turn, which takes seconds, or a minute when no node is fit."""


@dataclass(frozen=True, slots=True)
class RelayAccountStatus:
    """An account of the relay."""

    chain: ChainId
    account: str
    duty: Duty
    reason: str | None
    """Why it cannot send, as it said last; None when it could."""
    seen_ago: float
    """Seconds since it said so, by the database's clock."""

    @property
    def is_silent(self) -> bool:
        """Whether its relay has not written of it for long."""
        return self.seen_ago > SILENT_SECONDS

    @property
    def is_healthy(self) -> bool:
        """Whether it can send what comes next."""
        return self.reason is None and not self.is_silent


def account_statuses(conn: Connection) -> list[RelayAccountStatus]:
    """Every account that ever sent."""
    ago = cast(extract("epoch", func.clock_timestamp() - health.c.seen_at), Float)
    columns = (health.c.chain, health.c.account, health.c.duty, health.c.reason)
    query = select(*columns, ago.label("seen_ago")).order_by(health.c.chain, health.c.account)
    return [RelayAccountStatus(**row._mapping) for row in conn.execute(query)]
