"""Leases and row locks, held by database sessions."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, Engine, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import OperationalError, ProgrammingError

from warehouse_schema import locks
from warehouse_schema.engine import make_engine
from warehouse_schema.leases import end_lease, take_lease
from warehouse_schema.lock_tables import leases
from warehouse_schema.row_locks import BUCKETS, lock_names

CHAIN = "eip155:1"
HELD = """
    SELECT classid::bigint, objid::bigint, pid FROM pg_locks
     WHERE locktype = 'advisory' AND objsubid = 2
       AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


def take(conn: Connection) -> int | None:
    with conn.begin():
        return take_lease(conn, leases, locks.FOLLOWER, CHAIN)


def test_lease_is_held_by_one_session_until_released(indexer_engine: Engine) -> None:
    with indexer_engine.connect() as first, indexer_engine.connect() as second:
        key = take(first)
        assert key is not None
        assert take(second) is None
        with first.begin():
            end_lease(first, locks.FOLLOWER, key)
        assert take(second) is not None
        assert take(first) is None


def test_lease_ends_with_its_session(indexer_engine: Engine) -> None:
    with indexer_engine.connect() as first, indexer_engine.connect() as second:
        assert take(first) is not None
        first.invalidate()
        # Postgres takes a moment to notice.
        assert any(take(second) is not None for _ in range(1_000))


@pytest.fixture
def intruder(engine: Engine, database: URL) -> Iterator[Connection]:
    """A session of the api's own database user, as in production."""
    with engine.begin() as conn:
        conn.execute(text("DROP ROLE IF EXISTS intruder"))
        conn.execute(text("CREATE ROLE intruder LOGIN PASSWORD 'x' IN ROLE isthmus_api"))
    other = make_engine(database.set(username="intruder", password="x"), role="api")
    with other.connect() as conn:
        yield conn
    other.dispose()
    with engine.begin() as conn:
        conn.execute(text("DROP ROLE intruder"))


def test_api_role_cannot_hold_a_lease(indexer_engine: Engine, intruder: Connection) -> None:
    """The role can take any advisory lock, which does not block a lease."""
    with indexer_engine.connect() as follower:
        assert take(follower) is not None
        [(kind, key, _)] = intruder.execute(text(HELD)).all()
        follower.invalidate()
    intruder.execute(text("SELECT pg_advisory_lock(:kind, :key)"), {"kind": kind, "key": key})
    intruder.execute(
        text("SELECT pg_advisory_lock(kind, 0) FROM generate_series(7030, 7060) AS kind")
    )
    with indexer_engine.connect() as follower:
        assert take(follower) not in (None, key)


@pytest.mark.parametrize("table", ["locks.leases", "locks.rows", "relay.leases"])
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM {} FOR UPDATE",
        "SELECT * FROM {} FOR KEY SHARE",
        "UPDATE {} SET kind = 1",
        "INSERT INTO {} DEFAULT VALUES",
        "LOCK TABLE {} IN ACCESS SHARE MODE",
    ],
)
def test_api_role_cannot_lock_rows(intruder: Connection, table: str, statement: str) -> None:
    with pytest.raises(ProgrammingError, match="permission denied"):
        intruder.execute(text(statement.format(table)))


def test_rows_are_locked_until_commit(indexer_engine: Engine) -> None:
    with indexer_engine.connect() as first, indexer_engine.connect() as second:
        lock_names(first, locks.MOVEMENT, ["a", "b"])
        second.exec_driver_sql("SET lock_timeout = '100ms'")
        lock_names(second, locks.MOVEMENT, ["c"])
        lock_names(second, locks.STAGE, ["a"])
        with pytest.raises(OperationalError, match="lock timeout"):
            lock_names(second, locks.MOVEMENT, ["b"])
        second.rollback()
        first.commit()
        lock_names(second, locks.MOVEMENT, map(str, range(20 * BUCKETS)))


@pytest.mark.parametrize("kind", [locks.MOVEMENT, locks.STAGE, locks.TRANSFER_EVENTS, locks.STREAM])
def test_migration_makes_all_rows_of_a_kind(indexer_engine: Engine, kind: int) -> None:
    """Sessions that made rows while they held others could wait for each other."""
    query = text("SELECT count(*), min(number), max(number) FROM locks.rows WHERE kind = :kind")
    with indexer_engine.connect() as conn:
        assert tuple(conn.execute(query, {"kind": kind}).one()) == (BUCKETS, 0, BUCKETS - 1)


def test_kind_without_rows_is_an_error(indexer_engine: Engine) -> None:
    with (
        indexer_engine.connect() as conn,
        pytest.raises(RuntimeError, match="lacks rows of kind 7040"),
    ):
        lock_names(conn, locks.FOLLOWER, [""])
