"""Databases of the demo: made empty at start; only databases of a demo are dropped."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.engine import URL

from devnet.databases import COMMENT, NotOurs, fresh_databases
from indexer.config.networks import load_network
from indexer.config.settings import Settings
from indexer.config.warehouse import DAGSTER_DATABASE
from warehouse_schema.embedded import Server
from warehouse_schema.engine import make_engine, warehouse_url
from warehouse_schema.migrate import current_revision

DEMO = "isthmus_demo_test"


def make_settings(server: Server, database: str = DEMO) -> Settings:
    return Settings(load_network("devnet"), Path("unused"), server.url(database), {})


@pytest.fixture
def dropping(server_engine: Engine) -> Iterator[None]:
    yield
    with server_engine.connect() as connection:
        for name in (DEMO, DAGSTER_DATABASE):
            connection.execute(text(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)"))


def url_of(server: Server, database: str) -> URL:
    return warehouse_url(server.url(database))


def run_in(url: URL, statement: str) -> None:
    engine = make_engine(url)
    with engine.begin() as connection:
        connection.execute(text(statement))
    engine.dispose()


@pytest.mark.usefixtures("dropping")
def test_demo_starts_with_migrated_and_empty_dagster_database(
    postgres: Server,
) -> None:
    assert fresh_databases(make_settings(postgres)) == ()
    engine = make_engine(url_of(postgres, DEMO))
    with engine.connect() as connection:
        assert current_revision(connection) is not None
    engine.dispose()


@pytest.mark.usefixtures("dropping")
def test_next_demo_drops_databases_of_the_last(postgres: Server) -> None:
    fresh_databases(make_settings(postgres))
    run_in(url_of(postgres, DEMO), "CREATE TABLE left_behind ()")
    assert fresh_databases(make_settings(postgres)) == (DEMO, DAGSTER_DATABASE)
    run_in(url_of(postgres, DEMO), "CREATE TABLE left_behind ()")


@pytest.mark.usefixtures("dropping")
def test_warehouse_of_no_demo_is_kept(
    postgres: Server, clone: Callable[[], URL], server_engine: Engine
) -> None:
    theirs = clone()
    name = str(theirs.database)
    with pytest.raises(NotOurs, match=f"the database {name} at 127.0.0.1 holds tables"):
        fresh_databases(make_settings(postgres, name))
    run_in(theirs, "SELECT * FROM facts.blocks")
    with server_engine.connect() as connection:
        known = text("SELECT count(*) FROM pg_database WHERE datname = :name")
        assert connection.scalar(known, {"name": DAGSTER_DATABASE}) == 0
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))


@pytest.mark.usefixtures("dropping")
def test_foreign_dagster_database_keeps_the_warehouse(
    postgres: Server, server_engine: Engine
) -> None:
    fresh_databases(make_settings(postgres))
    run_in(url_of(postgres, DEMO), "CREATE TABLE left_behind ()")
    with server_engine.connect() as connection:
        connection.execute(text(f"COMMENT ON DATABASE {DAGSTER_DATABASE} IS NULL"))
    run_in(url_of(postgres, DAGSTER_DATABASE), "CREATE TABLE runs ()")
    with pytest.raises(NotOurs, match=DAGSTER_DATABASE):
        fresh_databases(make_settings(postgres))
    run_in(url_of(postgres, DEMO), "SELECT * FROM left_behind")


@pytest.mark.usefixtures("dropping")
def test_empty_database_for_the_demo_is_used(postgres: Server, server_engine: Engine) -> None:
    with server_engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {DEMO}"))
    assert fresh_databases(make_settings(postgres)) == (DEMO,)
    with server_engine.connect() as connection:
        query = text(
            "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = :name"
        )
        assert connection.scalar(query, {"name": DEMO}) == COMMENT
