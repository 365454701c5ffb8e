"""Sessions that hold a lease while they write."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from psycopg.errors import LockNotAvailable
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import OperationalError

from indexer.errors import FollowerConflict
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
    with engine.connect() as conn:
        key = acquire_lease(conn, kind, name, busy, timeout)
        try:
            yield conn
        finally:
            release_leases(conn, kind, key)


def acquire_lease(conn: Connection, kind: int, name: str, busy: str, timeout: float) -> int:
    """The key of the lease, for `release_leases`. Raises as `lease_session` does."""
    deadline = time.monotonic() + timeout
    while True:
        with conn.begin():
            key = take_lease(conn, leases, kind, name)
        if key is not None:
            return key
        if time.monotonic() >= deadline:
            raise FollowerConflict(busy)
        time.sleep(_POLL_SECONDS)


def release_leases(conn: Connection, kind: int, *keys: int) -> None:
    """Roll back and release leases; nothing to do when the session is lost."""
    if not conn.invalidated:
        conn.rollback()
        for key in keys:
            end_lease(conn, kind, key)
        conn.commit()


@contextmanager
def lock_timeout_as_conflict(message: str) -> Iterator[None]:
    """Re-raise a lock timeout as `FollowerConflict` with this message."""
    try:
        yield
    except OperationalError as error:
        if not isinstance(error.orig, LockNotAvailable):
            raise
        raise FollowerConflict(message) from error
