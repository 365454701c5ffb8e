"""Sessions that hold a lease while they write."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from psycopg.errors import LockNotAvailable
from sqlalchemy import Connection, Engine, Table
from sqlalchemy.exc import OperationalError

from indexer.errors import FollowerConflict
from indexer.metrics.collectors import waiting
from warehouse_schema.leases import end_lease, take_lease
from warehouse_schema.lock_tables import leases

_POLL_SECONDS = 0.1


@contextmanager
def lease_session(
    engine: Engine, kind: int, name: str, busy: str, *, timeout: float = 0.0
) -> Iterator[Connection]:
    """A connection whose session alone holds the lease `kind` (`warehouse_schema.locks`), `name`.

    A lost session loses the lease with it, so an orphaned process cannot write. Raises
    `FollowerConflict` with the message `busy` when another session still holds it after `timeout`
    seconds.
    """
    with engine.connect() as conn, hold_lease(conn, kind, name, busy, timeout):
        yield conn


@contextmanager
def hold_lease(conn: Connection, kind: int, name: str, busy: str, timeout: float) -> Iterator[None]:
    """Hold a lease on an open connection, which is rolled back at the end. As `lease_session`."""
    key = wait_for_lease(conn, leases, kind, name, busy, timeout)
    try:
        yield
    finally:
        if not conn.invalidated:
            conn.rollback()
            end_lease(conn, kind, key)
            conn.commit()


def wait_for_lease(
    conn: Connection, table: Table, kind: int, name: str, busy: str, timeout: float
) -> int:
    """Wait for a lease, take it for this session and return its key.

    Raises `FollowerConflict` as `lease_session`.
    """
    deadline = time.monotonic() + timeout
    while True:
        with conn.begin():
            key = take_lease(conn, table, kind, name)
        if key is not None:
            return key
        if time.monotonic() >= deadline:
            raise FollowerConflict(busy)
        with waiting("lock"):
            time.sleep(_POLL_SECONDS)


@contextmanager
def lock_timeout_as_conflict(message: str) -> Iterator[None]:
    """Re-raise a lock timeout as `FollowerConflict` with this message."""
    try:
        yield
    except OperationalError as error:
        if not isinstance(error.orig, LockNotAvailable):
            raise
        raise FollowerConflict(message) from error
