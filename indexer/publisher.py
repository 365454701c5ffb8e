"""The publisher: sends by NOTIFY what commits have queued (`warehouse_schema.notifications`).

Any number may run. A notification is sent once, to the sessions that listen then; a listener that
must not be late by a lost one polls too.
"""

from collections.abc import Callable
from typing import Any

from sqlalchemy import Engine, text

from indexer.loops import pause, pause_on_outage
from indexer.metrics.collectors import loop_time, waiting

_POLL_SECONDS = 0.005
"""Delay of a notification at most. 200 polls a second take a thirtieth of a core."""
_RECONNECT_SECONDS = 2.0

_SEND = """
    WITH sent AS (DELETE FROM notifications.queued RETURNING channel, payload)
    SELECT count(pg_notify(channel, payload)) FROM sent
"""
"""One statement, so that a process that freezes leaves no transaction open. Postgres sends equal
notifications of one transaction once."""


def publish_notifications(engine: Engine, *, should_stop: Callable[[], bool]) -> None:
    """Send until `should_stop`; reconnects after a database outage."""
    while not should_stop():
        with (
            loop_time("publisher"),
            pause_on_outage("publisher", lambda: pause(_RECONNECT_SECONDS, should_stop)),
            engine.connect() as conn,
        ):
            conn.execution_options(isolation_level="AUTOCOMMIT")
            # The commit holds the lock of NOTIFY; what it sends is lost in a crash anyhow.
            conn.execute(text("SET synchronous_commit = off"))
            try:
                # By the driver itself: SQLAlchemy's share of a poll is two thirds.
                driver: Any = conn.connection.driver_connection
                while not should_stop():
                    driver.execute(_SEND, prepare=True)
                    with waiting("idle"):
                        pause(_POLL_SECONDS, should_stop)
            finally:
                # The setting belongs to the session.
                conn.invalidate()
