"""Leases by rows that expire, their fence, and row locks."""

import threading
from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, Engine, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, OperationalError, ProgrammingError

from indexer.facts.row_locks import BUCKETS, lock_names
from tests.factories.leases import wait_for_blocked
from warehouse_schema import leases as module
from warehouse_schema import locks
from warehouse_schema.engine import make_engine
from warehouse_schema.leases import (
    INDEXER_LEASES,
    RELAY_LEASES,
    Lease,
    LeaseName,
    add_lease,
    lease_holder,
    lease_states,
    lock_term,
    record_standby,
    release_lease,
    remove_standby,
    renew_leases,
    take_lease,
)

pytestmark = pytest.mark.usefixtures("long_leases")

NAME = LeaseName(locks.FOLLOWER, "eip155:1")
OTHER = LeaseName(locks.FOLLOWER, "eip155:8453")


def take(conn: Connection, name: LeaseName = NAME, pid: int = 1) -> Lease | None:
    with conn.begin():
        add_lease(conn, INDEXER_LEASES, name)
    return take_lease(conn, INDEXER_LEASES, name, "host", pid)


def expire(conn: Connection, name: LeaseName = NAME) -> None:
    """As if the holder had not renewed for long."""
    statement = "UPDATE locks.leases SET expires_at = now() - interval '1 s' WHERE name = :name"
    with conn.begin():
        conn.execute(text(statement), {"name": name.name})


def is_current(conn: Connection, lease: Lease) -> bool:
    with conn.begin():
        return conn.scalar(lock_term(lease)) is not None


@pytest.fixture
def first(indexer_engine: Engine) -> Iterator[Connection]:
    with indexer_engine.connect() as conn:
        yield conn


@pytest.fixture
def second(indexer_engine: Engine) -> Iterator[Connection]:
    with indexer_engine.connect() as conn:
        yield conn


def test_lease_is_held_until_released(first: Connection, second: Connection) -> None:
    lease = take(first)
    assert lease is not None
    assert take(second, pid=2) is None
    with second.begin():
        holder = lease_holder(second, INDEXER_LEASES, NAME)
    assert holder is not None
    assert (holder.host, holder.pid) == ("host", 1)
    with first.begin():
        release_lease(first, lease)
    taken = take(second, pid=2)
    assert taken is not None
    assert taken.term == lease.term + 1
    assert not is_current(first, lease)


def test_expired_lease_is_taken_and_fenced(first: Connection, second: Connection) -> None:
    lease = take(first)
    assert lease is not None
    expire(second)
    assert is_current(first, lease), "nobody else took it"
    assert take(second) is not None
    assert not is_current(first, lease)
    with first.begin():
        assert renew_leases(first, [lease]) == set()
        release_lease(first, lease)
        assert lease_holder(first, INDEXER_LEASES, NAME) is not None


def test_renewal_keeps_an_expired_lease(first: Connection, second: Connection) -> None:
    lease = take(first)
    assert lease is not None
    expire(second)
    with first.begin():
        assert renew_leases(first, [lease]) == {lease}
    assert take(second) is None


def test_released_lease_is_not_renewed(first: Connection, second: Connection) -> None:
    """A renewal that was on its way when the lease was released."""
    lease = take(first)
    assert lease is not None
    with first.begin():
        release_lease(first, lease)
        assert renew_leases(first, [lease]) == set()
    assert take(second) is not None


def test_renewal_does_not_wait_for_fenced_transaction(
    first: Connection, second: Connection
) -> None:
    lease = take(first)
    assert lease is not None
    second.exec_driver_sql("SET lock_timeout = '100ms'")
    second.commit()
    with first.begin():
        assert first.scalar(lock_term(lease)) is not None
        with second.begin():
            assert renew_leases(second, [lease]) == {lease}


def test_renewal_passes_over_a_lease_that_is_being_taken(
    first: Connection, second: Connection
) -> None:
    leases = [take(first), take(first, OTHER)]
    assert all(leases)
    with second.begin():
        second.execute(text("UPDATE locks.leases SET term = 9 WHERE name = 'eip155:1'"))
        with first.begin():
            renewed = renew_leases(first, [each for each in leases if each])
    assert {each.name for each in renewed} == {OTHER}


def test_lease_is_not_taken_during_a_fenced_transaction(
    first: Connection, second: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It commits, and only then the lease is taken."""
    monkeypatch.setattr(module, "_BLOCKED_MILLISECONDS", 30_000)
    lease, taken = take(first), list[Lease | None]()
    assert lease is not None
    expire(second)
    taker = threading.Thread(target=lambda: taken.append(take(second)))
    with first.begin():
        assert first.scalar(lock_term(lease)) is not None
        taker.start()
        wait_for_blocked(first)
        assert not taken
    taker.join(30)
    assert taken[0] is not None
    assert not is_current(first, lease)


def test_renewal_beats_a_taker_that_waits(
    first: Connection, second: Connection, indexer_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A holder that comes back in mid-transaction keeps its lease."""
    monkeypatch.setattr(module, "_BLOCKED_MILLISECONDS", 30_000)
    lease, taken = take(first), list[Lease | None]()
    assert lease is not None
    expire(second)
    taker = threading.Thread(target=lambda: taken.append(take(second)))
    with first.begin():
        assert first.scalar(lock_term(lease)) is not None
        taker.start()
        wait_for_blocked(first)
        with indexer_engine.begin() as renewing:
            assert renew_leases(renewing, [lease]) == {lease}
    taker.join(30)
    assert taken == [None]
    assert is_current(first, lease)


def test_open_transaction_of_a_silent_holder_is_ended(
    first: Connection, second: Connection, indexer_engine: Engine
) -> None:
    lease = take(first)
    assert lease is not None
    expire(second)
    with indexer_engine.connect() as bystander, bystander.begin():
        bystander.execute(text("SELECT 1"))
        transaction = first.begin()
        assert first.scalar(lock_term(lease)) is not None
        assert any(take(second) is not None for _ in range(100))
        bystander.execute(text("SELECT 1"))
    with pytest.raises(DBAPIError) as ended:
        first.execute(text("SELECT 1"))
    assert ended.value.connection_invalidated
    transaction.close()


@pytest.mark.parametrize("column", ["session_pid", "session_started_at"])
def test_session_of_another_holder_is_not_ended(
    first: Connection, second: Connection, column: str
) -> None:
    """Process ids of Postgres come again: the session's start must be the recorded one."""
    lease = take(first)
    assert lease is not None
    expire(second)
    changed = {
        "session_pid": "pg_backend_pid()",
        "session_started_at": "session_started_at - interval '1 microsecond'",
    }
    with second.begin():
        second.execute(text(f"UPDATE locks.leases SET {column} = {changed[column]}"))
    with first.begin():
        assert first.scalar(lock_term(lease)) is not None
        assert all(take(second) is None for _ in range(3))
        first.execute(text("SELECT 1"))


def test_standbys_are_shown_until_they_go(first: Connection) -> None:
    lease = take(first)
    assert lease is not None
    with first.begin():
        record_standby(first, INDEXER_LEASES, NAME, "b", 2)
        record_standby(first, INDEXER_LEASES, NAME, "a", 3)
        record_standby(first, INDEXER_LEASES, OTHER, "a", 3)
        [state, other] = lease_states(first, INDEXER_LEASES, locks.FOLLOWER)
    assert (state.name, other.name) == (NAME, OTHER)
    assert state.active is not None
    assert state.active.pid == 1
    assert [(each.host, each.pid) for each in state.standbys] == [("b", 2), ("a", 3)]
    assert other.active is None
    with first.begin():
        first.execute(
            text("UPDATE locks.standbys SET seen_at = now() - interval '1 hour' WHERE host = 'b'")
        )
        [state] = lease_states(first, INDEXER_LEASES, locks.FOLLOWER, name=NAME.name)
        assert [each.host for each in state.standbys] == ["a"]
        remove_standby(first, INDEXER_LEASES, NAME, "a", 3)
        assert first.scalar(text("SELECT count(*) FROM locks.standbys")) == 1


def test_holder_that_lost_its_lease_is_shown_for_a_day(first: Connection) -> None:
    assert take(first) is not None
    expire(first)
    with first.begin():
        [state] = lease_states(first, INDEXER_LEASES, locks.FOLLOWER)
        assert state.active is None
        assert state.lost is not None
        assert f"{NAME}: no process, gone or hung {state.lost.host}:1 since" in str(state)
        first.execute(text("UPDATE locks.leases SET expires_at = now() - interval '25 h'"))
        assert lease_states(first, INDEXER_LEASES, locks.FOLLOWER) == []


@pytest.fixture
def login(engine: Engine, database: URL) -> Iterator[URL]:
    """URL of a database user without a role; tests add it to the one that they need."""
    with engine.begin() as conn:
        conn.execute(text("DROP ROLE IF EXISTS tester"))
        conn.execute(text("CREATE ROLE tester LOGIN PASSWORD 'x'"))
    yield database.set(username="tester", password="x")
    with engine.begin() as conn:
        conn.execute(text("DROP ROLE tester"))


@pytest.fixture
def intruder(engine: Engine, login: URL) -> Iterator[Connection]:
    """A session of the api's own database user, as in production."""
    with engine.begin() as conn:
        conn.execute(text("GRANT isthmus_api TO tester"))
    other = make_engine(login, role="api")
    with other.connect() as conn:
        yield conn
    other.dispose()


def test_database_user_of_one_role_needs_no_more_rights(engine: Engine, login: URL) -> None:
    """It sees the start of its own sessions, and may end them."""
    with engine.begin() as conn:
        conn.execute(text("GRANT isthmus_relay TO tester"))
    name = LeaseName(locks.RELAY, "eip155:1 0xabc")
    own = make_engine(login, role="relay")
    with own.connect() as first, own.connect() as second:
        with first.begin():
            add_lease(first, RELAY_LEASES, name)
        lease = take_lease(first, RELAY_LEASES, name, "a", 1)
        assert lease is not None
        with second.begin():
            second.execute(text("UPDATE relay.leases SET expires_at = now() - interval '1 s'"))
        transaction = first.begin()
        assert first.scalar(lock_term(lease)) is not None
        takes = (take_lease(second, RELAY_LEASES, name, "b", 2) for _ in range(100))
        assert any(each is not None for each in takes)
        with pytest.raises(DBAPIError):
            first.execute(text("SELECT 1"))
        transaction.close()
    own.dispose()


def test_api_role_cannot_end_a_holders_session(first: Connection, intruder: Connection) -> None:
    assert take(first) is not None
    pid = first.scalar(text("SELECT pg_backend_pid()"))
    with pytest.raises(ProgrammingError, match="permission denied"):
        intruder.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})
    first.execute(text("SELECT 1"))


@pytest.mark.parametrize(
    "table", ["locks.leases", "locks.standbys", "locks.rows", "relay.leases", "relay.standbys"]
)
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM {} FOR UPDATE",
        "SELECT * FROM {} FOR KEY SHARE",
        "UPDATE {} SET kind = 1",
        "INSERT INTO {} DEFAULT VALUES",
        "DELETE FROM {}",
        "LOCK TABLE {} IN ACCESS SHARE MODE",
    ],
)
def test_api_role_cannot_hold_or_block_a_lease(
    intruder: Connection, table: str, statement: str
) -> None:
    with pytest.raises(ProgrammingError, match="permission denied"):
        intruder.execute(text(statement.format(table)))


def test_reading_a_lease_is_no_right_to_block_it(engine: Engine, intruder: Connection) -> None:
    """FOR KEY SHARE needs UPDATE, so not even SELECT on the table would be a way in."""
    with engine.begin() as conn:
        conn.execute(text("GRANT SELECT ON relay.leases TO isthmus_api"))
    intruder.execute(text("SELECT * FROM relay.leases"))
    with pytest.raises(ProgrammingError, match="permission denied"):
        intruder.execute(text("SELECT * FROM relay.leases FOR KEY SHARE"))


def test_rows_are_locked_until_commit(first: Connection, second: Connection) -> None:
    with first.begin():
        lock_names(first, locks.MOVEMENT, ["a", "b"])
        with second.begin() as waiting:
            second.exec_driver_sql("SET lock_timeout = '100ms'")
            lock_names(second, locks.MOVEMENT, ["c"])
            lock_names(second, locks.STAGE, ["a"])
            with pytest.raises(OperationalError, match="lock timeout"):
                lock_names(second, locks.MOVEMENT, ["b"])
            waiting.rollback()
    with second.begin():
        lock_names(second, locks.MOVEMENT, list(map(str, range(2 * BUCKETS))))
    with second.begin():
        lock_names(second, locks.MOVEMENT, list(map(str, range(20 * BUCKETS))))
        with first.begin() as waiting:
            first.exec_driver_sql("SET LOCAL lock_timeout = '100ms'")
            with pytest.raises(OperationalError, match="lock timeout"):
                lock_names(first, locks.MOVEMENT, ["any name"])
            waiting.rollback()


@pytest.mark.parametrize("kind", [locks.MOVEMENT, locks.STAGE, locks.TRANSFER_EVENTS, locks.STREAM])
def test_migration_makes_all_rows_of_a_kind(indexer_engine: Engine, kind: int) -> None:
    """Sessions that made rows while they held others could wait for each other."""
    query = text("SELECT count(*), min(number), max(number) FROM locks.rows WHERE kind = :kind")
    with indexer_engine.connect() as conn:
        assert tuple(conn.execute(query, {"kind": kind}).one()) == (BUCKETS, 0, BUCKETS - 1)


def test_kind_without_rows_is_an_error(indexer_engine: Engine) -> None:
    with (
        indexer_engine.begin() as conn,
        pytest.raises(RuntimeError, match="lacks rows of kind 7040"),
    ):
        lock_names(conn, locks.FOLLOWER, [""])
