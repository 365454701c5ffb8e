"""Engines on the warehouse: psycopg 3, UTC, one Postgres role a room."""

from typing import Literal

from sqlalchemy import Engine, create_engine, make_url
from sqlalchemy.engine import URL

Room = Literal["indexer", "api", "relay", "analyst"]

ROLES: dict[Room, str] = {
    "indexer": "isthmus_indexer",
    "api": "isthmus_api",
    "relay": "isthmus_relay",
    "analyst": "isthmus_analyst",
}
"""Each room works as its own role; `grants.sql` gives each schema one writer."""


def warehouse_url(text: str) -> URL:
    """Read a Postgres URL and name the driver.

    SQLAlchemy 2.1 and Dagster disagree on what a bare `postgresql://` means, so nothing here
    leaves it bare. Raises `ValueError` on another database.
    """
    url = make_url(text)
    if url.get_backend_name() not in ("postgresql", "postgres"):
        raise ValueError(f"DATABASE_URL must be a postgresql:// URL, not {url.drivername}://")
    return url.set(drivername="postgresql+psycopg")


def make_engine(url: URL, *, room: Room | None = None, pool_size: int = 5) -> Engine:
    """An engine whose sessions run as the room's role, in UTC, with time-outs.

    Without a room it runs as the URL's own user: for migrations alone.
    """
    options = [
        "-c timezone=UTC",
        "-c lock_timeout=10s",
        "-c idle_in_transaction_session_timeout=5min",
    ]
    if room is not None:
        options.append(f"-c role={ROLES[room]}")
    return create_engine(
        url,
        pool_size=pool_size,
        pool_pre_ping=True,
        connect_args={
            "options": " ".join(options),
            "application_name": f"isthmus-{room or 'admin'}",
            "connect_timeout": 10,
        },
    )
