"""The NOTIFY listener: notifications, resyncs and reconnects."""

import os
import queue
import threading
from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import Connection, Engine, column, create_engine, func, select, text
from sqlalchemy.engine import URL

from api.notifications import Committed, Notification, NotificationListener, TransfersChanged
from tests.api.notification_log import GAINED, LOST, TIMEOUT, NotificationLog
from warehouse_schema import channels
from warehouse_schema.engine import make_engine

OUR_SESSIONS = "application_name = 'isthmus-api-changes' AND datname = current_database()"


@pytest.fixture
def make_changes(
    api_database: URL,
) -> Iterator[Callable[..., tuple[NotificationListener, NotificationLog]]]:
    """Call it for a started listener, and who hears it; all are stopped."""
    engines, started = [], []

    def make(database: URL = api_database) -> tuple[NotificationListener, NotificationLog]:
        engines.append(make_engine(database, role="api", pool_size=1))
        changes, log = NotificationListener(engines[-1]), NotificationLog()
        changes.subscribe(log.append)
        changes.start()
        started.append(changes)
        assert log.next() == GAINED
        return changes, log

    yield make
    for changes in started:
        changes.stop()
    for engine in engines:
        engine.dispose()


def notify(connection: Connection, payload: str) -> None:
    connection.execute(select(func.pg_notify(channels.INGESTED, payload)))


def commit(engine: Engine, *payloads: str) -> None:
    with engine.begin() as connection:
        for payload in payloads:
            notify(connection, payload)


def test_commit_notifies_chain_and_height(make_changes, owner):
    _, log = make_changes()
    commit(owner, "stellar:testnet:1234", "eip155:1:5")
    assert log.next() == Committed("stellar:testnet", 1234)
    assert log.next() == Committed("eip155:1", 5)


def test_transfer_event_notifies_its_owner(make_changes, owner):
    _, log = make_changes()
    with owner.begin() as connection:
        connection.execute(select(func.pg_notify(channels.TRANSFERS, "GABC")))
    assert log.next() == TransfersChanged("GABC")


def test_every_subscriber_and_process_is_notified(make_changes, owner):
    changes, first = make_changes()
    _, elsewhere = make_changes()
    second = NotificationLog()
    changes.subscribe(second.append)
    commit(owner, "stellar:testnet:1")
    assert {each.next() for each in (first, second, elsewhere)} == {Committed("stellar:testnet", 1)}


def test_rollback_notifies_nothing(make_changes, owner):
    _, log = make_changes()
    with owner.connect() as connection:
        notify(connection, "stellar:testnet:1")
        connection.rollback()
    commit(owner, "stellar:testnet:2")
    assert log.next() == Committed("stellar:testnet", 2)


def test_unsubscribed_is_not_called(make_changes, owner):
    changes, log = make_changes()
    left = NotificationLog()
    leave = changes.subscribe(left.append)
    commit(owner, "stellar:testnet:1")
    assert left.next() == log.next()
    leave()
    commit(owner, "stellar:testnet:2")
    assert log.next() == Committed("stellar:testnet", 2)
    assert left.is_empty()


@pytest.mark.parametrize("payload", ["", "stellar:testnet", "7", ":7", "stellar:testnet:-1", "x:²"])
def test_unknown_payload_is_a_resync(make_changes, owner, payload):
    _, log = make_changes()
    commit(owner, payload)
    assert log.next() == GAINED


def test_killed_session_resyncs_and_reconnects(make_changes, owner):
    changes, log = make_changes()
    with owner.begin() as connection:
        query = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {OUR_SESSIONS}"
        # A session of an earlier test may still be ending.
        assert True in connection.scalars(text(query)).all()
    assert log.next() == LOST
    assert log.next() == GAINED
    assert changes.connected
    commit(owner, "stellar:testnet:9")
    assert log.next() == Committed("stellar:testnet", 9)


def test_refused_connection_is_retried(make_changes, engine, server_engine, database):
    changes, log = make_changes(database)
    with server_engine.connect() as server:
        server.execute(text(f"ALTER DATABASE {database.database} ALLOW_CONNECTIONS false"))
        server.execute(
            select(func.pg_terminate_backend(column("pid")))
            .select_from(text("pg_stat_activity"))
            .where(column("datname") == database.database)
        )
        assert log.next() == LOST
        assert not changes.connected
        server.execute(text(f"ALTER DATABASE {database.database} ALLOW_CONNECTIONS true"))
    assert log.next() == GAINED
    commit(engine, "stellar:testnet:9")
    assert log.next() == Committed("stellar:testnet", 9)


def test_listener_is_not_connected_before_start(reader):
    assert not NotificationListener(reader).connected
    assert reader.pool.checkedout() == 0


def test_stop_resyncs_and_closes_the_session(make_changes, owner):
    changes, log = make_changes()
    changes.stop()
    assert not changes.connected
    assert log.next() == LOST
    with owner.connect() as connection:
        query = text(f"SELECT count(*) FROM pg_stat_activity WHERE {OUR_SESSIONS}")
        # Postgres ends a session a moment after its client is gone.
        for _ in iter(lambda: connection.scalar(query), 0):
            connection.rollback()


def test_stop_without_a_database(caplog):
    engine = create_engine("postgresql+psycopg://nobody@127.0.0.1:1/none?connect_timeout=1")
    changes = NotificationListener(engine)
    changes.start()
    changes.stop()
    assert not changes.connected


def test_listener_has_the_api_role(make_changes, owner):
    query = text(f"SELECT pid, query FROM pg_stat_activity WHERE {OUR_SESSIONS}")
    with owner.connect() as connection:
        before = {row.pid for row in connection.execute(query)}
        # A transaction sees the sessions of its first look.
        connection.rollback()
        make_changes()
        started = [row.query for row in connection.execute(query) if row.pid not in before]
    assert started == [f'LISTEN "{channels.INGESTED}"']


# Python 3.12 and later warn of what is tried here.
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_forked_process_is_not_connected(make_changes):
    changes, _ = make_changes()
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        os.write(writing, b"yes" if changes.connected else b"no")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 3) == b"no"
    assert changes.connected
    os.close(reading)
    os.close(writing)


def test_raising_subscriber_disconnects_the_listener(make_changes, owner, monkeypatch):
    seen: queue.Queue[BaseException] = queue.Queue()
    monkeypatch.setattr(threading, "excepthook", lambda args: seen.put(args.exc_value))
    changes, log = make_changes()

    def fail(told: Notification) -> None:
        if isinstance(told, Committed):
            raise ZeroDivisionError

    changes.subscribe(fail)
    commit(owner, "stellar:testnet:1")
    assert isinstance(seen.get(timeout=TIMEOUT), ZeroDivisionError)
    log.until(LOST)
    assert not changes.connected
