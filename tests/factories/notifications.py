"""Queued notifications: those that no publisher has sent yet, and a publisher in a thread."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, select

from indexer.publisher import publish_notifications
from warehouse_schema.notifications import queued

TIMEOUT = 20.0


def queued_notifications(conn: Connection, channel: str) -> list[str]:
    """Payloads of a channel, sorted. `conn` is of the owner or the indexer."""
    query = select(queued.c.payload).where(queued.c.channel == channel)
    return sorted(conn.scalars(query))


@contextmanager
def publishing(engine: Engine) -> Iterator[None]:
    stop = threading.Event()
    publisher = threading.Thread(
        target=publish_notifications, args=(engine,), kwargs={"should_stop": stop.is_set}
    )
    publisher.start()
    try:
        yield
    finally:
        stop.set()
        publisher.join(TIMEOUT)
        assert not publisher.is_alive()
