"""The demo's two databases: created for each demo, and used by nothing else.

The chains of a demo begin from nothing, so its warehouse must too. On a server that the operator
named by DATABASE_URL other databases may hold real records: only what carries our own comment, or
is empty, is ever dropped.
"""

from __future__ import annotations

from sqlalchemy import Connection, Engine, text
from sqlalchemy.engine import URL

from devnet.evm_node import DevnetError
from indexer.config.settings import Settings
from indexer.config.warehouse import DAGSTER_DATABASE, database_url
from warehouse_schema.engine import make_engine
from warehouse_schema.migrate import migrate

COMMENT = "a demo of isthmus; dropped when the next one starts"


class NotOurs(DevnetError):
    """A database of that name holds something that no demo made."""


def fresh_databases(settings: Settings) -> tuple[str, ...]:
    """Drop and create the warehouse and Dagster's database, and migrate the warehouse.

    Returns the names of those that were dropped. Raises `NotOurs` before anything is touched.
    """
    warehouse = database_url(settings)
    names = (str(warehouse.database), DAGSTER_DATABASE)
    for name in names:
        _refuse_strangers(warehouse, name)
    server = make_engine(warehouse.set(database="postgres"))
    try:
        dropped = tuple(name for name in names if _recreate(server, name))
    finally:
        server.dispose()
    migrate(warehouse)
    return dropped


def _refuse_strangers(server: URL, name: str) -> None:
    maintenance = make_engine(server.set(database="postgres"))
    try:
        with maintenance.connect() as connection:
            known, comment = _look_up(connection, name)
    finally:
        maintenance.dispose()
    if known and comment != COMMENT and not _is_empty(server.set(database=name)):
        raise NotOurs(
            f"the database {name} at {server.host} holds tables that no demo made, and a demo would"
            " drop it. Point DATABASE_URL at another server, or at another database name, or unset"
            " it to use the embedded Postgres."
        )


def _look_up(connection: Connection, name: str) -> tuple[bool, str | None]:
    row = connection.execute(
        text(
            "SELECT shobj_description(oid, 'pg_database') AS comment"
            " FROM pg_database WHERE datname = :name"
        ),
        {"name": name},
    ).one_or_none()
    return (False, None) if row is None else (True, row.comment)


def _is_empty(url: URL) -> bool:
    engine = make_engine(url)
    try:
        with engine.connect() as connection:
            tables = connection.scalar(
                text(
                    "SELECT count(*) FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace"
                    " WHERE relkind IN ('r', 'p', 'v', 'm', 'S')"
                    " AND nspname NOT LIKE 'pg\\_%' AND nspname <> 'information_schema'"
                )
            )
            return bool(tables == 0)
    finally:
        engine.dispose()


def _recreate(server: Engine, name: str) -> bool:
    """Returns whether one was dropped."""
    quoted = server.dialect.identifier_preparer.quote_identifier(name)
    with server.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        known, _ = _look_up(connection, name)
        # WITH (FORCE) ends the sessions of processes that a killed demo left.
        connection.exec_driver_sql(f"DROP DATABASE IF EXISTS {quoted} WITH (FORCE)")
        connection.exec_driver_sql(f"CREATE DATABASE {quoted}")
        connection.exec_driver_sql(f"COMMENT ON DATABASE {quoted} IS '{COMMENT}'")
    return known
