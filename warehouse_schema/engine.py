"""Engines on the warehouse: psycopg 3, UTC, one Postgres role per process."""

import re
import time
from typing import Any, Literal

from sqlalchemy import Connection, Engine, create_engine, event, func, make_url, select
from sqlalchemy.engine import URL
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, InvalidatePoolError
from sqlalchemy.pool import ConnectionPoolEntry, PoolProxiedConnection

Role = Literal["indexer", "api", "relay", "analyst"]

ROLES: dict[Role, str] = {
    "indexer": "isthmus_indexer",
    "api": "isthmus_api",
    "relay": "isthmus_relay",
    "analyst": "isthmus_analyst",
}
"""Process → its role; `grants.sql` gives each schema one writer."""

IDLE_SECONDS = 1.0
"""After which a pooled connection may have been closed by a server that restarted."""

_STATEMENT_TIMEOUTS: dict[Role, str] = {"api": "5s", "analyst": "5min"}
"""A slower API request holds a connection for a client that has given up; a slower analyst's query
keeps vacuum from removing rows that followers replaced. Folds and exports have no limit."""

# A host may vanish without closing. Both ends probe after 10 s of silence and give up 15 s later,
# so that what its session held (a chain's lock, above all) is free within a minute.
_CLIENT_KEEPALIVES = {
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
}
_CONNECT_SECONDS = 10
_CONNECT_SECONDS_PER_HOST = 3
"""With several hosts: a machine that is off costs every new session this much, if named first."""
_SERVER_KEEPALIVES = (
    "-c tcp_keepalives_idle=10",
    "-c tcp_keepalives_interval=5",
    "-c tcp_keepalives_count=3",
    "-c tcp_user_timeout=20000",
)


_HOST_LIST = re.compile(
    r"(?P<before>[^:/?#]+://(?:[^/?#]*@)?)(?P<hosts>[^@/?#]*,[^@/?#]*)(?P<rest>.*)"
)
_HOST_PORT = re.compile(r"(?P<host>[^:]+)(?::(?P<port>\d+))?")
_WRITABLE = ("read-write", "primary")
"""Values of `target_session_attrs` that no standby satisfies."""


def warehouse_url(text: str, source: str = "DATABASE_URL") -> URL:
    """Read a Postgres URL and name the driver.

    A primary and its standby are named as libpq does, `HOST:PORT,HOST:PORT`, with
    `target_session_attrs=read-write`. SQLAlchemy 2.1 and Dagster disagree on what a bare
    `postgresql://` means, so nothing here leaves it bare. Raises `ValueError` on another database
    and on what is no URL; the message names the `source` and does not repeat the text, which may
    hold a password.
    """
    try:
        url = _parse(text)
    except (ArgumentError, ValueError):
        # Not as the cause: it may quote the part that it could not read.
        raise ValueError(
            f"{source} is no URL; it must be postgresql://USER:PASSWORD@HOST:PORT/DATABASE, "
            "with special characters of the password percent-encoded"
        ) from None
    if url.get_backend_name() not in ("postgresql", "postgres"):
        raise ValueError(f"{source} must be a postgresql:// URL, not {url.drivername}://")
    wanted = url.query.get("target_session_attrs")
    if len(hosts_of(url)) > 1 and wanted not in _WRITABLE:
        raise ValueError(
            f"{source} names several hosts: add ?target_session_attrs=read-write, or a session may "
            "be one of the standby, which takes no writes"
        )
    return url.set(drivername="postgresql+psycopg")


def hosts_of(url: URL) -> list[str]:
    """Hosts of a URL, without ports; empty for a local socket."""
    if url.host:
        return [url.host]
    named = url.query.get("host", ())
    tokens = named.split(",") if isinstance(named, str) else named
    return [token.partition(":")[0] for token in tokens]


def _parse(text: str) -> URL:
    """SQLAlchemy's URL. It reads one host; a list of libpq's becomes its query, `host=A,B`."""
    found = _HOST_LIST.fullmatch(text)
    if found is None:
        return make_url(text)
    each = [_HOST_PORT.fullmatch(token) for token in found["hosts"].split(",")]
    if not all(each):
        raise ValueError("a host list of another form")
    hosts = ",".join(match["host"] for match in each if match)
    ports = ",".join(match["port"] or "5432" for match in each if match)
    url = make_url(found["before"] + found["rest"])
    return url.update_query_dict({"host": hosts, "port": ports})


def client_options(url: URL) -> dict[str, int]:
    """libpq's timeouts, which notice a host that is gone."""
    seconds = _CONNECT_SECONDS_PER_HOST if len(hosts_of(url)) > 1 else _CONNECT_SECONDS
    return {**_timeouts(seconds), **_CLIENT_KEEPALIVES}


def _timeouts(connect_seconds: int) -> dict[str, int]:
    return {"connect_timeout": connect_seconds, "tcp_user_timeout": 2_000 * connect_seconds}


def session_settings(role: Role | None) -> dict[str, str]:
    """Postgres settings of a role's sessions, as SHOW prints them."""
    settings = {
        "timezone": "UTC",
        "lock_timeout": "10s",
        "idle_in_transaction_session_timeout": "5min",
        # Where `synchronous_standby_names` is set, a commit returns once the standby has it on
        # disk, whatever the server's default is (docs/decisions/postgres-failover.md).
        "synchronous_commit": "on",
    }
    if role is not None:
        settings["role"] = ROLES[role]
        if limit := _STATEMENT_TIMEOUTS.get(role):
            settings["statement_timeout"] = limit
    return settings


def make_engine(url: URL, *, role: Role | None = None, pool_size: int = 5) -> Engine:
    """An engine whose sessions run as a role, in UTC, with timeouts.

    Without a role it runs as the URL's own user: for migrations alone.
    """
    settings = [f"-c {name}={value}" for name, value in session_settings(role).items()]
    engine = create_engine(
        url,
        pool_size=pool_size,
        connect_args={
            **_connect_args(url, role),
            "options": " ".join([*settings, *_SERVER_KEEPALIVES]),
        },
    )
    return ping_idle(engine)


def make_pooled_engine(
    url: URL, role: Role, *, pool_size: int, connect_seconds: int | None = None
) -> Engine:
    """An engine that may connect to a pooler in transaction mode, which passes no `options` on.

    The login has the role and the settings instead (`deploy/pooled-login.sql`). Nothing belongs to
    a session: no prepared statements, no LISTEN, no advisory locks beyond a transaction.
    """
    engine = create_engine(
        url,
        pool_size=pool_size,
        connect_args={
            **_connect_args(url, role),
            **({} if connect_seconds is None else _timeouts(connect_seconds)),
            "prepare_threshold": None,
        },
    )
    return ping_idle(engine)


def ping_idle(engine: Engine) -> Engine:
    """Have the engine ask a server for a sign of life before a connection is used again that was
    idle for `IDLE_SECONDS`, and connect anew without one.

    SQLAlchemy's `pool_pre_ping` asks each time, which is a third of what Dagster's daemon does.
    """

    def note(_: DBAPIConnection, record: ConnectionPoolEntry) -> None:
        record.info["idle_since"] = time.monotonic()

    def ping(
        connection: DBAPIConnection, record: ConnectionPoolEntry, _: PoolProxiedConnection
    ) -> None:
        now = time.monotonic()
        if now - record.info.get("idle_since", now) < IDLE_SECONDS:
            return
        try:
            engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as error:
            raise InvalidatePoolError("the server has closed it") from error

    event.listen(engine, "checkin", note)
    event.listen(engine, "checkout", ping)
    return engine


def _connect_args(url: URL, role: Role | None) -> dict[str, Any]:
    return {
        "application_name": f"isthmus-{role or 'admin'}",
        # From a database in SQL_ASCII the driver would return bytes.
        "client_encoding": "utf8",
        **client_options(url),
    }


def confirm_on_standby(conn: Connection) -> None:
    """Make the commit wait for the standby, although the transaction writes no row.

    For an answer that acknowledges what an earlier transaction stored: a crash makes commits
    visible that the standby did not have yet.
    """
    conn.execute(select(func.pg_logical_emit_message(True, "isthmus", "")))
