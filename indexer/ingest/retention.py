"""Deletion of old rows: superseded transfer events, and unused quotes.

The last event of each transfer stays for ever, so an owner's event numbers continue, and a client
that asks for events after any number still gets each transfer that changed since.
"""

from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import Connection, delete, exists, func, not_, select

from warehouse_schema.intake import quotes, transfers
from warehouse_schema.projections import transfer_events

RETENTION_DAYS = 30.0


@dataclass(frozen=True, slots=True)
class DeletedRows:
    """Numbers of deleted rows."""

    events: int
    quotes: int


def delete_old_rows(conn: Connection, days: float = RETENTION_DAYS) -> DeletedRows:
    """Delete events with a later one of their transfer, and quotes that expired without a transfer,
    both so many days ago by the database's clock."""
    oldest = func.now() - timedelta(days=days)
    events = transfer_events.c
    last = (
        select(events.owner, events.transfer, func.max(events.number).label("number"))
        .group_by(events.owner, events.transfer)
        .subquery("last")
    )
    superseded = delete(transfer_events).where(
        events.owner == last.c.owner,
        events.transfer == last.c.transfer,
        events.number < last.c.number,
        events.told_at < oldest,
    )
    used = exists().where(transfers.c.quote == quotes.c.id)
    unused = delete(quotes).where(quotes.c.expires_at < oldest, not_(used))
    return DeletedRows(conn.execute(superseded).rowcount, conn.execute(unused).rowcount)
