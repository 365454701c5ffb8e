"""Connection to the warehouse: the Postgres of `DATABASE_URL`, or the embedded one."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from sqlalchemy import Engine
from sqlalchemy.engine import URL
from sqlalchemy.exc import OperationalError

from indexer.config.settings import Settings, load_settings
from indexer.errors import ConfigurationError
from indexer.metrics.collectors import time_sessions
from warehouse_schema.engine import Role, make_engine, warehouse_url
from warehouse_schema.location import NEEDS_DATABASE

if TYPE_CHECKING:
    from warehouse_schema.embedded import EmbeddedPostgres

DAGSTER_DATABASE = "isthmus_dagster"


def embedded_postgres(settings: Settings) -> "EmbeddedPostgres":
    """Postgres that the tools start and stop on the devnet when `DATABASE_URL` is unset."""
    # Imported here: it costs each start 20 ms, and is used on the devnet alone.
    from warehouse_schema.embedded import EmbeddedPostgres

    return EmbeddedPostgres(settings.home / "postgres")


def database_url(settings: Settings) -> URL:
    """URL of the warehouse, as its owner.

    Raises `ConfigurationError` without `DATABASE_URL`, or on the devnet without a running embedded
    Postgres.
    """
    if settings.database_url is not None:
        try:
            return warehouse_url(settings.database_url)
        except ValueError as error:
            raise ConfigurationError(str(error)) from error
    if settings.network.name != "devnet":
        raise ConfigurationError(NEEDS_DATABASE)
    from warehouse_schema.embedded import EmbeddedPostgresError

    try:
        return warehouse_url(embedded_postgres(settings).url())
    except EmbeddedPostgresError as error:
        raise ConfigurationError(
            f"DATABASE_URL is unset and the embedded Postgres under {settings.home} does not run: "
            f"{error}. Start it with `isthmus database start`"
        ) from error


def open_engine(settings: Settings, role: Role, *, pool_size: int = 5) -> Engine:
    """An engine on the warehouse under the role's role."""
    engine = make_engine(database_url(settings), role=role, pool_size=pool_size)
    time_sessions(engine)
    return engine


@contextmanager
def open_warehouse(
    role: Role = "indexer", *, pool_size: int = 5
) -> Iterator[tuple[Settings, Engine]]:
    """The settings, and an engine under the role's role while the block runs."""
    settings = load_settings()
    engine = open_engine(settings, role, pool_size=pool_size)
    try:
        yield settings, engine
    finally:
        engine.dispose()


@contextmanager
def kept_engine(role: Role) -> Iterator[Engine]:
    """The process's engine under a role, which stays open after the block."""
    engine = _kept_engine(role)
    try:
        yield engine
    except OperationalError:
        # The embedded Postgres may have started again at another port.
        _kept_engine.cache_clear()
        engine.dispose()
        raise


@cache
def _kept_engine(role: Role) -> Engine:
    return open_engine(load_settings(), role)


def dagster_storage_url(settings: Settings) -> str:
    """URL of Dagster's own database in the same server.

    The driver is psycopg2, whose parameter style Dagster's event log uses; with psycopg 3, the
    default of SQLAlchemy 2.1, every insert of an event fails.
    """
    url = database_url(settings).set(drivername="postgresql+psycopg2", database=DAGSTER_DATABASE)
    return url.render_as_string(hide_password=False)
