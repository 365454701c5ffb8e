"""Ids of revoked tokens in a process's memory: as fresh as promised, none left out."""

import threading
import time
from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, Engine, create_engine, delete, event, text
from sqlalchemy.exc import OperationalError

from api.auth.revocation import _FORGET_SECONDS, FRESH_SECONDS, Revocations
from api.errors import Unavailable
from tests.factories.identity import Timer
from warehouse_schema.access import revoked_tokens
from warehouse_schema.identifiers import UnixSeconds


@pytest.fixture
def timer() -> Timer:
    return Timer()


@pytest.fixture
def near(rows: Connection, reader: Engine, timer: Timer) -> Revocations:
    """One process."""
    return Revocations(reader, timer)


@pytest.fixture
def far(rows: Connection, reader: Engine, timer: Timer) -> Revocations:
    """Another."""
    return Revocations(reader, timer)


@pytest.fixture
def reads(reader: Engine) -> Iterator[list[str]]:
    """Statements that are executed."""
    executed: list[str] = []

    def note(conn, cursor, statement, *rest) -> None:
        executed.append(statement)

    event.listen(reader, "before_cursor_execute", note)
    yield executed
    event.remove(reader, "before_cursor_execute", note)


def revoke(process: Revocations, jti: str) -> None:
    now = int(time.time())
    process.add(jti, UnixSeconds(now + 3_600), UnixSeconds(now))


def test_logout_holds_at_once_here_and_soon_everywhere(near, far, timer):
    assert not near.contains("a")
    assert not far.contains("a")
    revoke(near, "a")
    assert near.contains("a")
    timer.now += FRESH_SECONDS * 0.9
    assert not far.contains("a")
    timer.now += FRESH_SECONDS * 0.1
    assert far.contains("a")
    assert not far.contains("b")


def test_memory_is_read_once_in_its_time(near, timer, reads):
    for _ in range(3):
        for number in range(20):
            near.contains(str(number))
        timer.now += FRESH_SECONDS
    assert len(reads) == 3


def test_row_of_a_transaction_that_ends_late_is_found(near, timer, owner, rows):
    """Others with later transactions were read before it."""
    insert = text(
        "INSERT INTO access.revoked_tokens (jti, expires_at) VALUES (:jti, now() + interval '1 h')"
    )
    with owner.connect() as late, late.begin() as transaction:
        late.execute(insert, {"jti": "late"})
        for number in range(5):
            rows.execute(insert, {"jti": f"{number}"})
            timer.now += FRESH_SECONDS
            assert near.contains(f"{number}")
            assert not near.contains("late")
        transaction.commit()
    timer.now += FRESH_SECONDS
    assert near.contains("late")


def test_read_fetches_only_what_was_added(near, timer, reader):
    for number in range(50):
        revoke(near, f"{number}")
    near.contains("x")
    # Of a test server nothing else is under way: the oldest transaction is the next one.
    revoke(near, "new")
    fetched: list[list[str]] = []

    def note(conn, cursor, statement, parameters, *rest) -> None:
        fetched.append(parameters)

    event.listen(reader, "before_cursor_execute", note)
    try:
        assert near.contains("new")
    finally:
        event.remove(reader, "before_cursor_execute", note)
    [since] = [each["since"] for each in fetched]
    with reader.connect() as conn:
        query = "SELECT jti FROM access.revoked_tokens WHERE revoked_by >= :since"
        assert set(conn.scalars(text(query), {"since": since})) == {"new"}
    assert near.contains("0")


def test_deleted_rows_are_forgotten(near, timer, rows):
    revoke(near, "old")
    assert near.contains("old")
    rows.execute(delete(revoked_tokens))
    timer.now += FRESH_SECONDS
    assert near.contains("old")
    timer.now += _FORGET_SECONDS
    assert not near.contains("old")


def test_tokens_are_refused_without_a_read(near, timer, monkeypatch):
    revoke(near, "a")
    assert near.contains("a")
    nowhere = create_engine("postgresql+psycopg://nobody@127.0.0.1:1/none?connect_timeout=1")
    working, near._engine = near._engine, nowhere
    assert near.contains("a")
    timer.now += FRESH_SECONDS
    for _ in range(2):
        with pytest.raises(OperationalError):
            near.contains("b")
    near._engine = working
    # All of them: this may be another server.
    assert near.contains("a")
    assert not near.contains("b")


def test_slow_read_of_another_thread_is_not_waited_for_without_end(near, monkeypatch):
    monkeypatch.setattr("api.auth.revocation._READ_TIMEOUT_SECONDS", 0.05)
    with near._lock, pytest.raises(Unavailable) as refused:
        near.contains("a")
    assert refused.value.error_code == "DATABASE_UNAVAILABLE"


def test_threads_share_one_read(near, reads):
    meeting = threading.Barrier(8)

    def ask() -> None:
        meeting.wait()
        near.contains("a")

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(reads) == 1
