"""Leases: a process holds one while it renews it; another process takes it when it does not.

A lease is a row. Its `term` is the fencing token, one more each time that a process takes it. All
times are of the database's clock.

| statement | row lock |
|---|---|
| SELECT where the term is its own: first in each transaction of the holder | FOR KEY SHARE |
| UPDATE of `expires_at`: the holder's renewal | FOR NO KEY UPDATE: beside that SELECT |
| UPDATE of `term`, of a unique key: another process takes it | FOR UPDATE: waits for that SELECT |

So no process takes a lease while a transaction of the last holder is open, and none of the last
holder's begins afterwards: it does not find its term. Postgres decides this by row locks; no clock
takes part, and no process has to notice that it lost the lease.

Each of these locks needs UPDATE on the table. The api's role does not have it, so it can neither
take a lease nor keep another process from it.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from psycopg.errors import LockNotAvailable
from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Table,
    delete,
    func,
    literal,
    select,
    text,
    tuple_,
    update,
)
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import OperationalError

from warehouse_schema import lock_tables, locks, relay

RENEW_SECONDS = 0.4
"""Between two renewals, which take turns on two connections (`indexer/facts/renewal.py`). At 50 ms
to the server a packet that is lost twice in a row arrives 1 s late, and the next renewal before
it."""
EXPIRE_SECONDS = 1.5
"""After the last renewal. With `POLL_SECONDS` and the end of a blocking session another process
writes within 2 s of the holder's last sign of life."""
POLL_SECONDS = 0.2
"""Between two attempts of a standby."""
HEARTBEAT_SECONDS = 1.0
"""Of a standby, for people."""
_LOST_FOR = timedelta(days=1)
"""So long an expired lease is shown, for people."""
_GONE_SECONDS = 5.0
"""A standby without a heartbeat for so long is not there."""
_BLOCKED_MILLISECONDS = 50
"""Wait for a transaction of the holder that did not renew; then its session is ended."""

KINDS = {
    locks.FOLLOWER: "follower",
    locks.BACKFILL: "backfill",
    locks.POLLER: "attester",
    locks.DAYS: "days",
    locks.RELAY: "relay",
    locks.WEBHOOKS: "webhooks",
}
"""Names of kinds, for people and metrics."""


@dataclass(frozen=True, slots=True)
class LeaseTables:
    """Leases of one role, and who waits for them."""

    leases: Table
    standbys: Table


INDEXER_LEASES = LeaseTables(lock_tables.leases, lock_tables.standbys)
RELAY_LEASES = LeaseTables(relay.leases, relay.standbys)


class LeaseName(NamedTuple):
    """What may be done, and to what: a number of `warehouse_schema.locks`, and a name."""

    kind: int
    name: str

    def __str__(self) -> str:
        return f"{KINDS[self.kind]} {self.name}".strip()


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease that was taken. Others may have taken it since: `lock_term` tells."""

    tables: LeaseTables
    name: LeaseName
    term: int


@dataclass(frozen=True, slots=True)
class LeaseProcess:
    """A process that has a lease, or waits for one."""

    host: str
    pid: int
    since: datetime

    def __str__(self) -> str:
        return f"{self.host}:{self.pid} since {self.since:%Y-%m-%d %H:%M:%S %Z}"


class _Session(NamedTuple):
    """A session of Postgres, unmistakably: another one may get its process id later."""

    pid: int
    started_at: datetime | None


# Fencing.


def lock_term(lease: Lease) -> Select[int]:
    """One row while the lease is the process's own, and then nobody takes it before the commit."""
    columns = lease.tables.leases.c
    own = (*_row(lease.tables.leases, lease.name), columns.term == lease.term)
    return select(literal(1)).where(*own).with_for_update(read=True, key_share=True)


# Renewing and releasing.


def renew_leases(conn: Connection, leases: Collection[Lease]) -> set[Lease]:
    """Renew leases of one role; returns those that are still the process's own.

    A row that a process is taking at this moment is passed over: no renewal waits for another
    lease's row.
    """
    tables = {lease.tables for lease in leases}
    renewed: set[Lease] = set()
    for each in tables:
        columns = each.leases.c
        terms = [(*lease.name, lease.term) for lease in leases if lease.tables == each]
        key = tuple_(columns.kind, columns.name, columns.term)
        free = (
            select(columns.kind, columns.name, columns.term)
            .where(key.in_(terms), columns.expires_at.is_not(None))
            .with_for_update(key_share=True, skip_locked=True)
        )
        statement = (
            update(each.leases)
            .where(key.in_(free))
            .values(expires_at=_expiry())
            .returning(columns.kind, columns.name, columns.term)
        )
        for kind, name, term in conn.execute(statement):
            renewed.add(Lease(each, LeaseName(kind, name), term))
    return renewed


def release_lease(conn: Connection, lease: Lease) -> None:
    """Let others take the lease at once. No effect when it is another process's."""
    table = lease.tables.leases
    own = (*_row(table, lease.name), table.c.term == lease.term)
    conn.execute(update(table).where(*own).values(expires_at=None))


# Taking.


def lease_holder(conn: Connection, tables: LeaseTables, name: LeaseName) -> LeaseProcess | None:
    """The process that has a lease now; None when it is free or expired."""
    columns = tables.leases.c
    query = select(columns.host, columns.pid, columns.since).where(*_row(tables.leases, name))
    row = conn.execute(query.where(columns.expires_at > func.clock_timestamp())).one_or_none()
    return None if row is None else LeaseProcess(*row)


def add_lease(conn: Connection, tables: LeaseTables, name: LeaseName) -> None:
    """Make the lease's row if there is none."""
    row = insert(tables.leases).values(name._asdict())
    conn.execute(row.on_conflict_do_nothing())


def take_lease(
    conn: Connection, tables: LeaseTables, name: LeaseName, host: str, pid: int
) -> Lease | None:
    """Take a lease that is free or expired, for this session; None when it is neither.

    Its row exists (`add_lease`). Commits. A transaction of the last holder that is still open ends
    with its session: the holder is frozen, cut off or dead, and would keep others out for minutes.
    None also then: try again at once.
    """
    table = tables.leases
    session = _own_session(conn)
    is_free = table.c.expires_at.is_(None) | (table.c.expires_at <= func.clock_timestamp())
    statement = (
        update(table)
        .where(*_row(table, name), is_free)
        .values(
            term=table.c.term + 1,
            host=host,
            pid=pid,
            since=func.clock_timestamp(),
            expires_at=_expiry(),
            session_pid=session.pid,
            session_started_at=session.started_at,
        )
        .returning(table.c.term)
    )
    try:
        with _autocommit(conn):
            conn.execute(text(f"SET lock_timeout = {_BLOCKED_MILLISECONDS}"))
            term = conn.scalar(statement)
    except OperationalError as error:
        if not isinstance(error.orig, LockNotAvailable):
            raise
        _end_session_of(conn, tables, name)
        return None
    return None if term is None else Lease(tables, name, term)


def share_lease(conn: Connection, tables: LeaseTables, name: LeaseName) -> bool:
    """Keep all processes from taking a free lease until the caller's transaction ends.

    Its row exists (`add_lease`). Any number of transactions may share it. False when a process has
    it, or had it and did not release it: a transaction of that process may be open.
    """
    columns = tables.leases.c
    free = select(literal(1)).where(*_row(tables.leases, name), columns.expires_at.is_(None))
    return conn.scalar(free.with_for_update(read=True, key_share=True)) is not None


@contextmanager
def _autocommit(conn: Connection) -> Iterator[None]:
    """Statements that are transactions each: whoever stops between two of them holds no lock."""
    conn.execution_options(isolation_level="AUTOCOMMIT")
    try:
        yield
    finally:
        if not conn.invalidated:
            conn.execute(text("RESET lock_timeout"))
            conn.rollback()
            conn.execution_options(isolation_level=conn.default_isolation_level)


def _own_session(conn: Connection) -> _Session:
    with _as_login(conn):
        row = conn.execute(
            text("SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()")
        ).one()
    return _Session(*row)


def _end_session_of(conn: Connection, tables: LeaseTables, name: LeaseName) -> None:
    """End the session of a lease's last holder, if its lease has expired.

    The process id alone could be another session's by now; with its start it is that session. One
    of another database user is not ended: the right for that belongs to a superuser.
    """
    columns = tables.leases.c
    query = select(columns.session_pid, columns.session_started_at).where(
        *_row(tables.leases, name), columns.expires_at <= func.clock_timestamp()
    )
    end = text(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE pid = :pid AND backend_start = :started_at AND usename = session_user"
    )
    with conn.begin():
        row = conn.execute(query).one_or_none()
    if row is not None:
        with _as_login(conn):
            conn.execute(end, _Session(*row)._asdict())


@contextmanager
def _as_login(conn: Connection) -> Iterator[None]:
    """A transaction as the user of the URL: start and end of a session are that user's to see."""
    with conn.begin():
        conn.execute(text("SET LOCAL ROLE NONE"))
        yield


def _row(table: Table, name: LeaseName) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return table.c.kind == name.kind, table.c.name == name.name


def _expiry() -> ColumnElement[datetime]:
    return func.clock_timestamp() + timedelta(seconds=EXPIRE_SECONDS)


# Standbys.


def record_standby(
    conn: Connection, tables: LeaseTables, name: LeaseName, host: str, pid: int
) -> None:
    """Heartbeat of a process that waits for a lease."""
    now = func.clock_timestamp()
    key = name._asdict() | {"host": host, "pid": pid}
    row = insert(tables.standbys).values(key | {"since": now, "seen_at": now})
    conn.execute(row.on_conflict_do_update(index_elements=[*key], set_={"seen_at": now}))


def remove_standby(
    conn: Connection, tables: LeaseTables, name: LeaseName, host: str, pid: int
) -> None:
    """Remove a process that waits no more, and those that went without a word."""
    table = tables.standbys
    own = (table.c.host == host) & (table.c.pid == pid)
    conn.execute(delete(table).where(*_row(table, name), own | ~_is_seen(table)))


@dataclass(frozen=True, slots=True)
class LeaseState:
    """Who has a lease, and who waits for it."""

    name: LeaseName
    active: LeaseProcess | None
    standbys: tuple[LeaseProcess, ...] = ()
    lost: LeaseProcess | None = None
    """Had the lease until it expired, less than a day ago: it was killed, hangs, or is cut off."""

    def __str__(self) -> str:
        active = "no process" if self.active is None else str(self.active)
        lost = [] if self.lost is None else [f"gone or hung {self.lost}"]
        standbys = [f"standby {each}" for each in self.standbys]
        return ", ".join([f"{self.name}: {active}", *lost, *standbys])


def lease_states(
    conn: Connection, tables: LeaseTables, *kinds: int, name: str | None = None
) -> list[LeaseState]:
    """Leases of these kinds that a process has, lost lately or waits for, by name."""
    found: dict[LeaseName, LeaseState] = {}
    held, standbys = tables.leases.c, tables.standbys
    age = func.clock_timestamp() - held.expires_at
    for table, is_there, is_lost in (
        (tables.leases, age < _LOST_FOR, age > timedelta()),
        (standbys, _is_seen(standbys), literal(False)),
    ):
        columns = table.c
        query = select(
            *(columns.kind, columns.name, columns.host, columns.pid, columns.since),
            is_lost.label("is_lost"),
        )
        query = query.where(columns.kind.in_(kinds), is_there).order_by(columns.since)
        if name is not None:
            query = query.where(columns.name == name)
        for row in conn.execute(query):
            key, process = LeaseName(row.kind, row.name), LeaseProcess(row.host, row.pid, row.since)
            before = found.get(key, LeaseState(key, None))
            if table is standbys:
                found[key] = replace(before, standbys=(*before.standbys, process))
            elif row.is_lost:
                found[key] = replace(before, lost=process)
            else:
                found[key] = replace(before, active=process)
    return [found[key] for key in sorted(found)]


def _is_seen(standbys: Table) -> ColumnElement[bool]:
    age = func.clock_timestamp() - standbys.c.seen_at
    return age < timedelta(seconds=_GONE_SECONDS)
