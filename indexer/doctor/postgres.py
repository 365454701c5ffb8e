"""Checks of the warehouse's Postgres. They read catalogues and settings, and change nothing."""

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TypeAlias

from sqlalchemy import Connection, NullPool, create_engine, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import OperationalError, ProgrammingError

from indexer.config.warehouse import database_url
from indexer.doctor import postgres_storage as storage
from indexer.doctor import postgres_tables as tables
from indexer.doctor.checks import Check, CheckGroup, CheckResult, DoctorContext
from indexer.doctor.connections import pooled_connections
from warehouse_schema.configuration import load_configuration
from warehouse_schema.engine import hosts_of, make_engine
from warehouse_schema.migrate import OLDEST_SERVER

TESTED_SERVER = 18
"""Major version that the test suite runs on."""
MAX_CLOCK_SECONDS = 1.0
"""Lateness of chains and the expiry of quotes and tokens compare both clocks."""
_INSUFFICIENT_PRIVILEGE = "42501"

REACHABLE = Check(
    "postgres.reachable",
    "The server of DATABASE_URL accepts its user, and answers in time.",
    "Start the server, or correct DATABASE_URL: host, port, user, password, database.",
)
VERSION = Check(
    "postgres.version",
    f"The server is Postgres {OLDEST_SERVER} or newer. This build is tested with {TESTED_SERVER}.",
    f"Upgrade it to {OLDEST_SERVER} or newer.",
)
ENCODING = Check(
    "postgres.encoding",
    "The database is encoded in UTF-8: chains and clients send any character.",
    "Create another with `CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0`, restore into it, "
    "and name it in DATABASE_URL.",
)
TIME_ZONE = Check(
    "postgres.time_zone",
    "Sessions that ask for no time zone are in UTC. Ours ask; Dagster's do not, and store their "
    "local time as UTC.",
    "`ALTER SYSTEM SET timezone = 'UTC'` and reload; `ALTER DATABASE … RESET timezone` or "
    "`ALTER ROLE … RESET timezone` where one of them has its own.",
)
DURABILITY = Check(
    "postgres.durability",
    "`fsync`, `full_page_writes` and `synchronous_commit` are on: else a signed transaction may be "
    "forgotten in a crash, and its number signed again.",
    "`ALTER SYSTEM SET … = 'on'`, then reload.",
)
CLOCK = Check(
    "postgres.clock",
    "The server's clock is at most a second from this machine's.",
    "Synchronise both machines' clocks (chrony or systemd-timesyncd).",
)
CONNECTIONS = Check(
    "postgres.connections",
    "`max_connections`, without the reserved ones, suffices for the pools of all configured "
    "processes.",
    "Raise max_connections and restart the server, or start fewer `--workers` of `isthmus api`.",
)
SESSION = Check(
    "postgres.session",
    "A session as our processes open it gets its options: time zone, timeouts and role.",
    "Name the server in DATABASE_URL, not a pooler: roles and NOTIFY need a session of their own.",
)

PostgresCheck: TypeAlias = Callable[[Connection, str], CheckResult | None]
"""None: what it would read is not there, which another check says."""


def check_postgres(context: DoctorContext) -> Iterator[CheckResult]:
    """All checks of the server and database of `DATABASE_URL`."""
    url, settings = database_url(context.settings), context.settings
    configuration = load_configuration()
    has_dagster = any(f"ISTHMUS_DAGSTER_URL{end}" in configuration for end in ("", "_FILE"))
    pools = pooled_connections(settings, has_dagster=has_dagster)
    subject = f"{','.join(hosts_of(url)) or 'local socket'}/{url.database}"
    checks: Mapping[Check, PostgresCheck] = {
        VERSION: check_version,
        ENCODING: check_encoding,
        TIME_ZONE: check_time_zone,
        DURABILITY: check_durability,
        CLOCK: check_clock,
        tables.ROLES_CHECK: tables.check_roles,
        tables.MIGRATIONS: tables.check_migrations,
        tables.GRANTS: tables.check_grants,
        CONNECTIONS: partial(check_connections, pools),
        storage.DISK: partial(storage.check_disk, url),
        storage.REPLICATION: storage.check_replication,
        storage.SYNCHRONOUS: partial(storage.check_synchronous, url),
        storage.ARCHIVE: partial(
            storage.check_archive, is_needed=settings.network.name != "devnet"
        ),
    }
    # Without the options of our processes, it sees what every other session gets. Without the
    # encoding, the driver returns bytes from a database in SQL_ASCII.
    plain = {"connect_timeout": 10, "client_encoding": "utf8"}
    engine = create_engine(url, poolclass=NullPool, connect_args=plain)
    context.begin(REACHABLE.id, subject)
    try:
        with engine.connect().execution_options(postgresql_readonly=True) as conn:
            conn.execute(text("SET statement_timeout = '10s'"))
            for check, run in checks.items():
                context.begin(check.id, subject)
                result = _permitted(check, run, conn, subject)
                if result is not None:
                    yield result
        yield check_session(url, subject)
    except OperationalError as error:
        yield REACHABLE.failed(subject, _first_line(error))
    else:
        yield REACHABLE.ok(subject)


def _permitted(
    check: Check, run: PostgresCheck, conn: Connection, subject: str
) -> CheckResult | None:
    try:
        return run(conn, subject)
    except ProgrammingError as error:
        if getattr(error.orig, "sqlstate", None) != _INSUFFICIENT_PRIVILEGE:
            raise
        conn.rollback()
        return check.failed(subject, _first_line(error), storage.MAY_READ)


def _first_line(error: OperationalError | ProgrammingError) -> str:
    return str(error.orig).strip().partition("\n")[0]


def check_version(conn: Connection, subject: str) -> CheckResult:
    """Major version."""
    shown = f"Postgres {conn.scalar(text('SHOW server_version'))}"
    major = int(conn.scalar(text("SHOW server_version_num"))) // 10_000
    is_old = major < OLDEST_SERVER
    return VERSION.failed(subject, shown) if is_old else VERSION.ok(subject, shown)


def check_encoding(conn: Connection, subject: str) -> CheckResult:
    """Encoding of the database."""
    encoding = conn.scalar(text("SHOW server_encoding"))
    if encoding != "UTF8":
        return ENCODING.failed(subject, f"the database is encoded in {encoding}")
    return ENCODING.ok(subject, encoding)


def check_time_zone(conn: Connection, subject: str) -> CheckResult:
    """Time zone of sessions that ask for none."""
    zone = conn.scalar(text("SHOW timezone"))
    if zone not in ("UTC", "Etc/UTC", "GMT"):
        return TIME_ZONE.failed(subject, f"sessions are in {zone}")
    return TIME_ZONE.ok(subject, zone)


def check_durability(conn: Connection, subject: str) -> CheckResult:
    """Settings without which a crash loses or damages what was committed."""
    names = ("fsync", "full_page_writes", "synchronous_commit")
    off = [name for name in names if conn.scalar(text(f"SHOW {name}")) == "off"]
    if off:
        return DURABILITY.failed(subject, f"off: {', '.join(off)}")
    return DURABILITY.ok(subject, f"on: {', '.join(names)}")


def check_clock(
    conn: Connection, subject: str, now: Callable[[], float] = time.time
) -> CheckResult:
    """Clock of the server against this machine's, by the shortest of three round trips."""
    query = text("SELECT extract(epoch FROM clock_timestamp())::float8")
    trips = []
    for _ in range(3):
        before, server, after = now(), float(conn.scalar(query)), now()
        trips.append((after - before, server - (before + after) / 2))
    round_trip, ahead = min(trips)
    if abs(ahead) - round_trip / 2 > MAX_CLOCK_SECONDS:
        side = "ahead of" if ahead > 0 else "behind"
        problem = f"the server's clock is {abs(ahead):.1f} s {side} this machine's"
        return CLOCK.failed(subject, problem)
    return CLOCK.ok(subject, f"{ahead:+.3f} s")


def check_connections(pools: Mapping[str, int], conn: Connection, subject: str) -> CheckResult:
    """Connections that the processes' pools may hold, against what the server accepts."""
    reserved = ("superuser_reserved_connections", "reserved_connections")
    query = text("SELECT name, setting::int FROM pg_settings WHERE name = ANY(:names)")
    rows = conn.execute(query, {"names": ["max_connections", *reserved]})
    found = {row.name: row.setting for row in rows}
    room = found["max_connections"] - sum(found.get(name, 0) for name in reserved)
    needed = sum(pools.values())
    shares = ", ".join(f"{name} {number}" for name, number in pools.items())
    if needed > room:
        problem = f"the pools may hold {needed} connections ({shares}), the server accepts {room}"
        return CONNECTIONS.failed(subject, problem)
    return CONNECTIONS.ok(subject, f"{needed} of {room} ({shares})")


def check_session(url: URL, subject: str) -> CheckResult:
    """A session as the processes open it: a pooler in front may drop its options."""
    engine = make_engine(url, pool_size=1)
    expected = {"timezone": "UTC", "lock_timeout": "10s"}
    try:
        with engine.connect() as conn:
            found = {name: conn.scalar(text(f"SHOW {name}")) for name in expected}
    finally:
        engine.dispose()
    wrong = [f"{name} is {found[name]}" for name in expected if found[name] != expected[name]]
    if wrong:
        return SESSION.failed(subject, f"options do not arrive: {', '.join(wrong)}")
    return SESSION.ok(subject)


GROUP = CheckGroup(
    (
        *(REACHABLE, VERSION, ENCODING, TIME_ZONE, DURABILITY, CLOCK),
        *(tables.ROLES_CHECK, tables.MIGRATIONS, tables.GRANTS, CONNECTIONS, SESSION),
        *(storage.DISK, storage.REPLICATION, storage.SYNCHRONOUS, storage.ARCHIVE),
    ),
    check_postgres,
)
