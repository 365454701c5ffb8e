"""Engines on the warehouse: psycopg 3, UTC, one Postgres role per process."""

from typing import Literal

from sqlalchemy import Engine, create_engine, make_url
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError

Role = Literal["indexer", "api", "relay", "analyst"]

ROLES: dict[Role, str] = {
    "indexer": "isthmus_indexer",
    "api": "isthmus_api",
    "relay": "isthmus_relay",
    "analyst": "isthmus_analyst",
}
"""Process → its role; `grants.sql` gives each schema one writer."""

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
    "tcp_user_timeout": 20_000,
}
_SERVER_KEEPALIVES = (
    "-c tcp_keepalives_idle=10",
    "-c tcp_keepalives_interval=5",
    "-c tcp_keepalives_count=3",
    "-c tcp_user_timeout=20000",
)


def warehouse_url(text: str, source: str = "DATABASE_URL") -> URL:
    """Read a Postgres URL and name the driver.

    SQLAlchemy 2.1 and Dagster disagree on what a bare `postgresql://` means, so nothing here
    leaves it bare. Raises `ValueError` on another database and on what is no URL; the message names
    the `source` and does not repeat the text, which may hold a password.
    """
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        # Not as the cause: it may quote the part that it could not read.
        raise ValueError(
            f"{source} is no URL; it must be postgresql://USER:PASSWORD@HOST:PORT/DATABASE, "
            "with special characters of the password percent-encoded"
        ) from None
    if url.get_backend_name() not in ("postgresql", "postgres"):
        raise ValueError(f"{source} must be a postgresql:// URL, not {url.drivername}://")
    return url.set(drivername="postgresql+psycopg")


def make_engine(url: URL, *, role: Role | None = None, pool_size: int = 5) -> Engine:
    """An engine whose sessions run as a role, in UTC, with timeouts.

    Without a role it runs as the URL's own user: for migrations alone.
    """
    options = [
        "-c timezone=UTC",
        "-c lock_timeout=10s",
        "-c idle_in_transaction_session_timeout=5min",
        *_SERVER_KEEPALIVES,
    ]
    if role is not None:
        options.append(f"-c role={ROLES[role]}")
        if limit := _STATEMENT_TIMEOUTS.get(role):
            options.append(f"-c statement_timeout={limit}")
    return create_engine(
        url,
        pool_size=pool_size,
        pool_pre_ping=True,
        connect_args={
            "options": " ".join(options),
            "application_name": f"isthmus-{role or 'admin'}",
            "connect_timeout": 10,
            # From a database in SQL_ASCII the driver would return bytes.
            "client_encoding": "utf8",
            **_CLIENT_KEEPALIVES,
        },
    )
