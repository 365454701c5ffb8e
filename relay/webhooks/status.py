"""Health of the webhook sender, for operators."""

from sqlalchemy import Connection, exists, func, not_, select

from relay.webhooks.store import next_events
from warehouse_schema.intake import webhook_removals
from warehouse_schema.queries import seconds_since
from warehouse_schema.relay import webhook_senders, webhook_states

SILENT_SECONDS = 120.0
"""A sender writes every ten seconds that it is running."""
LATE_SECONDS = 300.0
"""The slow lane has few places: with many failing webhooks each waits for its turn."""
_MAX_NAMED = 10


def webhook_problems(conn: Connection) -> list[str]:
    """Problems that an operator has to look at, one sentence each."""
    seconds = conn.scalar(select(seconds_since(func.max(webhook_senders.c.seen_at))))
    found = []
    if seconds is None:
        found.append("no webhook sender has ever run")
    elif seconds > SILENT_SECONDS:
        found.append(f"silent for {seconds:.0f} s: is a webhook sender running?")
    ready = next_events().subquery()
    waits = seconds_since(ready.c.next_at)
    query = select(ready.c.webhook, waits.label("waits")).where(waits > LATE_SECONDS)
    late = conn.execute(query.order_by(waits.desc())).all()
    found += [
        f"webhook {row.webhook}: an event waits for {row.waits:.0f} s" for row in late[:_MAX_NAMED]
    ]
    if len(late) > _MAX_NAMED:
        found.append(f"and {len(late) - _MAX_NAMED} webhooks more")
    return found


def failing_webhooks(conn: Connection) -> tuple[int, int]:
    """Numbers of webhooks whose last attempt failed, and of stopped ones, without removed ones."""
    states = webhook_states.c
    live = not_(exists().where(webhook_removals.c.webhook == states.webhook))
    stopped = states.stopped.is_not(None)
    row = conn.execute(
        select(
            func.count().filter(states.failures > 0, not_(stopped)).label("failing"),
            func.count().filter(stopped).label("stopped"),
        ).where(live)
    ).one()
    return row.failing, row.stopped
