"""`notifications`: what commits announce, until the publisher sends it by NOTIFY.

A transaction that calls `pg_notify` takes a lock over the whole server for its commit: such commits
wait for each other's write to disk, and wake every listener (docs/decisions/notifications.md).
"""

from collections.abc import Collection

from sqlalchemy import Connection, Table, insert

from warehouse_schema.columns import text
from warehouse_schema.metadata import NOTIFICATIONS, metadata

queued = Table(
    "queued",
    metadata,
    text("channel", "Name of a channel"),
    text("payload", "Text in the channel's format"),
    schema=NOTIFICATIONS,
    # A crash empties it, and ends the sessions of all listeners: they read everything anew.
    prefixes=["UNLOGGED"],
    comment="Notifications of committed transactions that the publisher has not sent yet",
)


_QUEUE = insert(queued)


def queue_notifications(conn: Connection, channel: str, payloads: Collection[str]) -> None:
    """Announce on a channel of `warehouse_schema.channels`, once the transaction is committed."""
    rows = [{"channel": channel, "payload": payload} for payload in payloads]
    if rows:
        conn.execute(_QUEUE, rows)
