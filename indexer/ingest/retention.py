"""Rows that nobody asks for any more: what owners were told long ago, quotes that nobody used.

Of a transfer's events the last stays for ever. So an owner's numbers go on where they were, and
whoever asks for what came after any number is still told each transfer that changed since.
"""

from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import Connection, delete, exists, func, not_, select

from warehouse_schema.intake import quotes, transfers
from warehouse_schema.projections import transfer_events

RETENTION_DAYS = 30.0


@dataclass(frozen=True, slots=True)
class DeletedRows:
    """Rows that were deleted."""

    events: int
    quotes: int


def delete_old_rows(conn: Connection, days: float = RETENTION_DAYS) -> DeletedRows:
    """Delete events that were followed by another of their transfer, and quotes that expired
    without a transfer, both so many days ago by the database's clock."""
    age = timedelta(days=days)
    return DeletedRows(_forget_events(conn, age), _forget_quotes(conn, age))


def _forget_events(conn: Connection, age: timedelta) -> int:
    events = transfer_events.c
    last = (
        select(events.owner, events.transfer, func.max(events.number).label("number"))
        .group_by(events.owner, events.transfer)
        .subquery("last")
    )
    followed = delete(transfer_events).where(
        events.owner == last.c.owner,
        events.transfer == last.c.transfer,
        events.number < last.c.number,
        events.told_at < func.now() - age,
    )
    return conn.execute(followed).rowcount


def _forget_quotes(conn: Connection, age: timedelta) -> int:
    used = exists().where(transfers.c.quote == quotes.c.id)
    unused = delete(quotes).where(quotes.c.expires_at < func.now() - age, not_(used))
    return conn.execute(unused).rowcount
