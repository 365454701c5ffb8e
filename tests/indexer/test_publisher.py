"""The publisher: queued notifications reach listeners, each once, after the commit."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import psycopg
from sqlalchemy import Engine

from tests.factories.notifications import TIMEOUT, publishing, queued_notifications
from warehouse_schema import channels
from warehouse_schema.notifications import queue_notifications

LAST = "last"


@contextmanager
def listening(engine: Engine, channel: str = channels.INTAKE) -> Iterator[psycopg.Connection]:
    url = engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(url, autocommit=True) as session:
        session.execute(f"LISTEN {channel}")
        yield session


def announce(engine: Engine, *payloads: str, channel: str = channels.INTAKE) -> None:
    with engine.begin() as conn:
        queue_notifications(conn, channel, payloads)


def received(session: psycopg.Connection) -> list[str]:
    """Payloads up to `LAST`, without it."""
    payloads: list[str] = []
    for each in session.notifies(timeout=TIMEOUT):
        if each.payload == LAST:
            return payloads
        payloads.append(each.payload)
    raise TimeoutError(f"{LAST!r} did not arrive after {payloads}")


def test_queued_notification_is_sent_once(indexer_engine: Engine):
    with listening(indexer_engine) as session, publishing(indexer_engine):
        announce(indexer_engine, "a")
        announce(indexer_engine, LAST)
        assert received(session) == ["a"]
    with indexer_engine.connect() as conn:
        assert queued_notifications(conn, channels.INTAKE) == []


def test_notification_of_a_rollback_is_not_sent(indexer_engine: Engine):
    with listening(indexer_engine) as session, publishing(indexer_engine):
        with indexer_engine.connect() as conn, conn.begin() as transaction:
            queue_notifications(conn, channels.INTAKE, ["rolled back"])
            transaction.rollback()
        announce(indexer_engine, LAST)
        assert received(session) == []


def test_notification_keeps_its_channel(indexer_engine: Engine):
    with (
        listening(indexer_engine) as intake,
        listening(indexer_engine, channels.TRANSFERS) as transfers,
        publishing(indexer_engine),
    ):
        announce(indexer_engine, "owner", channel=channels.TRANSFERS)
        announce(indexer_engine, LAST, channel=channels.TRANSFERS)
        announce(indexer_engine, LAST)
        assert (received(intake), received(transfers)) == ([], ["owner"])


def test_two_publishers_send_each_notification_once(indexer_engine: Engine):
    wanted = [f"transfer {number}" for number in range(200)]
    with listening(indexer_engine) as session, ExitStack() as publishers:
        for _ in range(2):
            publishers.enter_context(publishing(indexer_engine))
        for payload in wanted:
            announce(indexer_engine, payload)
        with indexer_engine.connect() as conn:
            while queued_notifications(conn, channels.INTAKE):
                conn.rollback()
        announce(indexer_engine, LAST)
        assert sorted(received(session)) == sorted(wanted)


def test_queued_before_the_publisher_is_sent_in_order(indexer_engine: Engine):
    announce(indexer_engine, "a", "a", "b", LAST)
    with listening(indexer_engine) as session, publishing(indexer_engine):
        assert received(session) == ["a", "b"]


def test_publisher_reconnects_after_lost_session(indexer_engine: Engine, engine: Engine):
    with publishing(indexer_engine):
        announce(indexer_engine, "a")
        with engine.begin() as conn:
            # Every other session of this database.
            conn.exec_driver_sql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        with listening(indexer_engine) as session:
            announce(engine, "b")
            announce(engine, LAST)
            assert "b" in received(session)
