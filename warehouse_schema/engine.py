"""Engines on the warehouse: psycopg 3, UTC, one Postgres role a room."""

from typing import Literal

from sqlalchemy import Engine, create_engine, make_url
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError

Room = Literal["indexer", "api", "relay", "analyst"]

ROLES: dict[Room, str] = {
    "indexer": "isthmus_indexer",
    "api": "isthmus_api",
    "relay": "isthmus_relay",
    "analyst": "isthmus_analyst",
}
"""Each room works as its own role; `grants.sql` gives each schema one writer."""

_STATEMENT_TIMEOUTS: dict[Room, str] = {"api": "5s", "analyst": "5min"}
"""A request that takes longer helps nobody and holds a connection, and an analyst's question that
does keeps Postgres from clearing up behind the followers; folds and exports may take as long as
they need."""

# A host that vanishes says no goodbye. Both ends ask after 10 s of silence and give up 15 s later,
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


def make_engine(url: URL, *, room: Room | None = None, pool_size: int = 5) -> Engine:
    """An engine whose sessions run as the room's role, in UTC, with time-outs.

    Without a room it runs as the URL's own user: for migrations alone.
    """
    options = [
        "-c timezone=UTC",
        "-c lock_timeout=10s",
        "-c idle_in_transaction_session_timeout=5min",
        *_SERVER_KEEPALIVES,
    ]
    if room is not None:
        options.append(f"-c role={ROLES[room]}")
        if limit := _STATEMENT_TIMEOUTS.get(room):
            options.append(f"-c statement_timeout={limit}")
    return create_engine(
        url,
        pool_size=pool_size,
        pool_pre_ping=True,
        connect_args={
            "options": " ".join(options),
            "application_name": f"isthmus-{room or 'admin'}",
            "connect_timeout": 10,
            **_CLIENT_KEEPALIVES,
        },
    )
