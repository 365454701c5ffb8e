"""The replay's databases: one a network, made anew at each run, never anyone else's."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from sqlalchemy import Engine
from sqlalchemy.engine import URL

from indexer.config.settings import Settings
from tests.system.replay.ingest import OpenWarehouse
from warehouse_schema.embedded import EmbeddedPostgres
from warehouse_schema.engine import make_engine, warehouse_url
from warehouse_schema.migrate import migrate


@contextmanager
def warehouses(settings: Settings) -> Iterator[OpenWarehouse]:
    """Opens a network's warehouse, empty; all of them are closed at the end."""
    with ExitStack() as stack:
        server = _server(settings, stack)

        def open_warehouse(network: str) -> Engine:
            url = server.set(database=f"isthmus_replay_{network}")
            recreate(url)
            engine = make_engine(url, role="indexer")
            stack.callback(engine.dispose)
            return engine

        yield open_warehouse


def _server(settings: Settings, stack: ExitStack) -> URL:
    if settings.database_url is not None:
        return warehouse_url(settings.database_url)
    embedded = EmbeddedPostgres(settings.home / "replay" / "postgres")
    return warehouse_url(stack.enter_context(embedded).url())


def recreate(url: URL) -> None:
    """Drop the database if it is there, make it anew and migrate it."""
    server = make_engine(url.set(database="postgres"))
    try:
        with server.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            quoted = server.dialect.identifier_preparer.quote_identifier(str(url.database))
            connection.exec_driver_sql(f"DROP DATABASE IF EXISTS {quoted} WITH (FORCE)")
    finally:
        server.dispose()
    migrate(url)
