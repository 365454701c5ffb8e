"""An app under the api's role, on one database that every test leaves empty.

A test whose rows another process writes takes `engine` and `api_engine`, a database of its own.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.engine import URL

from tests.factories.app import make_app
from tests.factories.emptying import delete_all_rows
from tests.factories.machines import pgbouncer, pooled_login
from tests.factories.projections import insert_book
from warehouse_schema.engine import make_engine, make_pooled_engine


@pytest.fixture(scope="session")
def api_database(clone: Callable[[], URL]) -> URL:
    """The database that these tests share."""
    return clone()


@pytest.fixture(scope="session")
def owner(api_database: URL) -> Iterator[Engine]:
    """Its owner's engine."""
    engine = make_engine(api_database)
    yield engine
    engine.dispose()


@pytest.fixture(scope="session")
def reader(api_database: URL, request: pytest.FixtureRequest) -> Iterator[Engine]:
    """Its engine under the api's role; with `--pgbouncer` through one."""
    with ExitStack() as stack:
        if request.config.getoption("--pgbouncer"):
            pooler = stack.enter_context(pgbouncer(pooled_login(api_database)))
            engine = make_pooled_engine(pooler, "api", pool_size=5)
        else:
            engine = make_engine(api_database, role="api")
        stack.callback(engine.dispose)
        yield engine


@pytest.fixture
def rows(owner: Engine) -> Iterator[Connection]:
    """Where a test puts rows; each is committed as it is written, all are deleted afterwards."""
    with owner.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        yield connection
        delete_all_rows(connection)


@pytest.fixture
def book(rows: Connection) -> Connection:
    """`rows` of a warehouse whose order book has been folded up to `LEDGER`, and is empty."""
    insert_book(rows)
    return rows


@pytest.fixture
def client(reader: Engine) -> FlaskClient:
    """Calls the app."""
    return make_app(reader).test_client()


@pytest.fixture
def cut_off() -> Iterator[FlaskClient]:
    """Calls an app whose database is not there: what needs none is answered all the same."""
    engine = create_engine("postgresql+psycopg://nobody@127.0.0.1:1/none?connect_timeout=1")
    yield make_app(engine).test_client()
    engine.dispose()
