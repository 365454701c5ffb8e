"""Sessions whose every transaction is fenced by a lease (`warehouse_schema.leases`)."""

import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from psycopg.errors import LockNotAvailable
from sqlalchemy import Connection, Engine, event, text
from sqlalchemy.exc import OperationalError

from indexer.errors import FollowerConflict, LeaseLost
from indexer.facts.renewal import renewer_of
from indexer.metrics.catalogue import LEASES
from indexer.metrics.collectors import set_gauge, waiting
from warehouse_schema.leases import (
    HEARTBEAT_SECONDS,
    INDEXER_LEASES,
    KINDS,
    POLL_SECONDS,
    Lease,
    LeaseName,
    LeaseProcess,
    LeaseTables,
    add_lease,
    lease_holder,
    lock_term,
    record_standby,
    release_lease,
    remove_standby,
    share_lease,
    take_lease,
)

logger = logging.getLogger(__name__)

COMMAND_SECONDS = 2.0
"""Wait of a command for a lease: that of a process that crashed has expired by then."""

_LEASES = "isthmus_leases"
_FENCES_ITSELF = "isthmus_fences_itself"
"""Execution options of connections."""


@contextmanager
def lease_session(
    engine: Engine,
    kind: int,
    name: str,
    busy: str,
    *,
    tables: LeaseTables = INDEXER_LEASES,
    timeout: float = COMMAND_SECONDS,
) -> Iterator[Connection]:
    """A connection whose transactions hold the lease `kind` (`warehouse_schema.locks`), `name`.

    Each of its transactions raises `LeaseLost` at its begin once another process has taken the
    lease, and the connection is closed. Raises `FollowerConflict` with the message `busy`, and who
    has it, when another process still has it after `timeout` seconds.
    """
    with engine.connect() as conn, hold_lease(conn, kind, name, busy, timeout, tables):
        yield conn


@contextmanager
def hold_lease(
    conn: Connection,
    kind: int,
    name: str,
    busy: str,
    timeout: float = COMMAND_SECONDS,
    tables: LeaseTables = INDEXER_LEASES,
) -> Iterator[None]:
    """Hold a lease on an open connection, which is rolled back at the end. As `lease_session`."""
    with renewer_of(conn.engine).started():
        which, deadline = LeaseName(kind, name), time.monotonic() + timeout
        _add(conn, tables, which)
        while not isinstance(found := _take(conn, tables, which), Lease):
            if time.monotonic() >= deadline:
                raise FollowerConflict(busy if found is None else f"{busy}: {found}")
            _pause(found)
        with _held(conn, found):
            yield


@contextmanager
def standby_session(
    engine: Engine,
    kind: int,
    name: str,
    should_stop: Callable[[], bool],
    *,
    tables: LeaseTables = INDEXER_LEASES,
) -> Iterator[Connection | None]:
    """As `lease_session`, but waits as a standby for as long as another process has the lease.

    None when `should_stop` came first.
    """
    with renewer_of(engine).started(), engine.connect() as conn:
        try:
            lease = _wait_as_standby(conn, tables, LeaseName(kind, name), should_stop)
            if lease is None:
                yield None
                return
            with _held(conn, lease):
                yield conn
        finally:
            # Not back into the pool: it may LISTEN.
            if not conn.closed:
                conn.invalidate()


@contextmanager
def fences_itself(conn: Connection) -> Iterator[None]:
    """A transaction that does not begin with the fence: it only reads, or has it in a statement.

    For what must not wait for a round trip more (`leases_of`, `check_lease`).
    """
    conn.execution_options(**{_FENCES_ITSELF: True})
    try:
        with conn.begin():
            yield
    finally:
        if not conn.closed:
            conn.execution_options(**{_FENCES_ITSELF: False})


def read_one_snapshot(conn: Connection) -> None:
    """Make a transaction REPEATABLE READ, as its first statement.

    Not the session: where the release of a lease met a renewal, Postgres would refuse it.
    """
    conn.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))


@contextmanager
def reading(conn: Connection) -> Iterator[None]:
    """Statements that only read, each a transaction of its own: no BEGIN, no COMMIT, no fence.

    For what must not wait for round trips more. Outside of a transaction alone; no server-side
    cursors.
    """
    driver: Any = conn.connection.driver_connection
    with fences_itself(conn):
        # A lost connection cannot be set; the statement raises the error that loops outlast.
        if not driver.closed:
            driver.autocommit = True
        try:
            yield
        finally:
            if not driver.closed:
                driver.autocommit = False


def leases_of(conn: Connection) -> tuple[Lease, ...]:
    """The leases that a connection was given."""
    leases: tuple[Lease, ...] = conn.get_execution_options().get(_LEASES, ())
    return leases


def check_lease(conn: Connection) -> None:
    """Keep others from taking the connection's leases until this transaction ends.

    Raises `LeaseLost` when another process has taken one.
    """
    for lease in leases_of(conn):
        if conn.scalar(lock_term(lease)) is None:
            raise LeaseLost(f"another process took the lease of {lease.name}")


def _fence(conn: Connection) -> None:
    """Handler of SQLAlchemy's `begin` of a connection."""
    if conn.get_execution_options().get(_FENCES_ITSELF):
        return
    is_own = False
    try:
        check_lease(conn)
        is_own = True
    finally:
        if not is_own:
            # SQLAlchemy would go on without a transaction of its own after an error in here.
            conn.invalidate()
            conn.close()


def _add(conn: Connection, tables: LeaseTables, name: LeaseName) -> None:
    with conn.begin():
        add_lease(conn, tables, name)


def _take(conn: Connection, tables: LeaseTables, name: LeaseName) -> Lease | LeaseProcess | None:
    """The lease, or the process that has it; None when it is to be tried again at once."""
    with conn.begin():
        holder = lease_holder(conn, tables, name)
    return holder or take_lease(conn, tables, name, socket.gethostname(), os.getpid())


def _pause(holder: LeaseProcess | None) -> None:
    if holder is not None:
        with waiting("lock"):
            time.sleep(POLL_SECONDS)


def _wait_as_standby(
    conn: Connection, tables: LeaseTables, name: LeaseName, should_stop: Callable[[], bool]
) -> Lease | None:
    process = (socket.gethostname(), os.getpid())
    is_standby, seen_at = False, float("-inf")
    _add(conn, tables, name)
    try:
        while not should_stop():
            found = _take(conn, tables, name)
            if isinstance(found, Lease):
                return found
            if found is not None and not is_standby:
                logger.info("standby %s, active is %s", name, found)
                _report(name, "standby", 1)
                is_standby = True
            if is_standby and time.monotonic() >= seen_at + HEARTBEAT_SECONDS:
                with conn.begin():
                    record_standby(conn, tables, name, *process)
                seen_at = time.monotonic()
            _pause(found)
        return None
    finally:
        if is_standby:
            _report(name, "standby", 0)
            if not (conn.closed or conn.invalidated):
                with conn.begin():
                    remove_standby(conn, tables, name, *process)


@contextmanager
def _held(conn: Connection, lease: Lease) -> Iterator[None]:
    """Renew a lease, and fence the connection's transactions by it."""
    renewer, before = renewer_of(conn.engine), leases_of(conn)
    renewer.add(lease)
    _report(lease.name, "active", 1)
    conn.execution_options(**{_LEASES: (*before, lease)})
    if not before:
        event.listen(conn, "begin", _fence)
    try:
        yield
    finally:
        renewer.remove(lease)
        _report(lease.name, "active", 0)
        _release(conn, lease, before)


def _release(conn: Connection, lease: Lease, before: tuple[Lease, ...]) -> None:
    if conn.closed or conn.invalidated:
        return
    try:
        conn.rollback()
        if not before:
            event.remove(conn, "begin", _fence)
        conn.execution_options(**{_LEASES: before})
        # Without the fence: this lease is released even if another one of the connection is lost.
        with fences_itself(conn):
            release_lease(conn, lease)
    except OperationalError as error:
        # It expires by itself.
        logger.warning("lease not released %s: %s", lease.name, " ".join(str(error.orig).split()))


def _report(name: LeaseName, state: str, value: int) -> None:
    set_gauge(LEASES, KINDS[name.kind], name.name, state, value=value)


@contextmanager
def shared_transaction(
    conn: Connection, kind: int, name: str, busy: str, *, timeout: float
) -> Iterator[None]:
    """A transaction beside which no process has the lease `kind`, `name`, or gets it.

    Any number of processes may have one at a time; so may a connection that has the lease. Raises
    `FollowerConflict` as `lease_session`.
    """
    tables, which = INDEXER_LEASES, LeaseName(kind, name)
    if which in (lease.name for lease in leases_of(conn)):
        with conn.begin():
            yield
        return
    deadline = time.monotonic() + timeout
    _add(conn, tables, which)
    while True:
        with conn.begin() as transaction:
            if share_lease(conn, tables, which):
                yield
                return
            transaction.rollback()
        found = _take(conn, tables, which)
        if isinstance(found, Lease):
            # It had expired. Taking it fenced off its last holder.
            with conn.begin():
                release_lease(conn, found)
        elif time.monotonic() >= deadline:
            raise FollowerConflict(busy if found is None else f"{busy}: {found}")
        else:
            _pause(found)


@contextmanager
def lock_timeout_as_conflict(message: str) -> Iterator[None]:
    """Re-raise a lock timeout as `FollowerConflict` with this message."""
    try:
        yield
    except OperationalError as error:
        if not isinstance(error.orig, LockNotAvailable):
            raise
        raise FollowerConflict(message) from error
