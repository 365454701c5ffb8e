"""Dagster's Postgres storage with one connection pool for each process (`storage` in dagster.yaml).

Dagster's own storage opens a connection for every statement, and checks its tables whenever an
instance is made, which every sensor tick does. The logins are expensive: idle, that made some 18
connections a second, 0.39 of a core in Postgres and 0.29 in the daemon.

It also gives up on a server after six seconds. A run or a worker would fail for the restart or the
failover of a database, so a new connection waits longer here.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from dagster import EventLogEntry
from dagster._serdes import ConfigurableClassData
from dagster_postgres import (
    DagsterPostgresStorage,
    PostgresEventLogStorage,
    PostgresScheduleStorage,
)
from dagster_postgres.utils import create_pg_engine, pg_url_from_config
from sqlalchemy import Connection, Engine, event
from sqlalchemy.engine import Dialect
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import OperationalError

from warehouse_schema.engine import client_options, make_engine, ping_idle, warehouse_url
from warehouse_schema.migrate import one_at_a_time

logger = logging.getLogger(__name__)

_POOL_SIZE = 4
_OVERFLOW = 20
"""The daemon uses up to some twenty threads."""
_RECYCLE_SECONDS = 3_600
_CONNECT_SECONDS = 120.0
"""Restart of a server, or failover to another."""
_CONNECT_PAUSE = 1.0


class PooledEventLogStorage(PostgresEventLogStorage):
    """Event log that stores an event again whose connection was lost under it."""

    def store_event(self, event: EventLogEntry) -> None:
        """Store an event; twice, if the connection was lost after the commit."""
        try:
            super().store_event(event)
        except OperationalError as error:
            if not error.connection_invalidated:
                raise
            super().store_event(event)


class PooledScheduleStorage(PostgresScheduleStorage):
    """Schedule storage that looks for its tables until they are there, not before each tick."""

    _has_instigators = False

    def __init__(self, postgres_url: str) -> None:
        super().__init__(postgres_url, should_autocreate_tables=False)
        self._built: set[str] = set()

    def has_built_index(self, migration_name: str) -> bool:
        """Whether a migration of Dagster's is complete."""
        if migration_name not in self._built and super().has_built_index(migration_name):
            self._built.add(migration_name)
        return migration_name in self._built

    def _has_instigators_table(self, conn: Connection) -> bool:
        self._has_instigators = self._has_instigators or super()._has_instigators_table(conn)
        return self._has_instigators


class PooledPostgresStorage(DagsterPostgresStorage):
    """Run, event and schedule storage on the process's own engine for that URL."""

    def __init__(self, postgres_url: str, inst_data: ConfigurableClassData | None = None) -> None:
        engine = process_engine(postgres_url)
        super().__init__(postgres_url, should_autocreate_tables=False, inst_data=inst_data)
        self._event_log_storage = PooledEventLogStorage(postgres_url, False)
        self._schedule_storage = PooledScheduleStorage(postgres_url)
        for storage in (self._run_storage, self._event_log_storage, self._schedule_storage):
            storage._engine = engine

    @classmethod
    def from_config_value(
        cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]
    ) -> "PooledPostgresStorage":
        """Called by Dagster with the configuration of dagster.yaml."""
        return cls(pg_url_from_config(config_value), inst_data)


@cache
def process_engine(postgres_url: str) -> Engine:
    """The process's engine; the first call creates missing tables."""
    creating = make_engine(warehouse_url(postgres_url))
    event.listen(creating, "do_connect", connect_with_retries)
    try:
        # Code servers, daemon and page start together; Dagster's own check for tables races.
        with one_at_a_time(creating, "dagster"):
            DagsterPostgresStorage(postgres_url, should_autocreate_tables=True)
    finally:
        creating.dispose()
    engine = create_pg_engine(
        postgres_url,
        isolation_level="AUTOCOMMIT",
        pool_size=_POOL_SIZE,
        max_overflow=_OVERFLOW,
        pool_recycle=_RECYCLE_SECONDS,
        connect_args=client_options(warehouse_url(postgres_url)),
    )
    event.listen(engine, "do_connect", connect_with_retries)
    return ping_idle(engine)


def connect_with_retries(
    dialect: Dialect, _: object, arguments: Sequence[Any], options: Mapping[str, Any]
) -> DBAPIConnection:
    """A new connection, after attempts for two minutes. Raises the driver's `OperationalError`."""
    deadline = time.monotonic() + _CONNECT_SECONDS
    while True:
        try:
            return dialect.connect(*arguments, **options)
        except dialect.loaded_dbapi.OperationalError as error:
            if time.monotonic() >= deadline:
                raise
            logger.warning("Dagster's database: %s", str(error).strip())
        time.sleep(_CONNECT_PAUSE)
