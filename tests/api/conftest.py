"""An app under the api's role, on one database that every test leaves empty.

A test that changes more than rows of `projections`, cursors and the relay's health takes `engine`
and `api_engine`, a database of its own.
"""

from collections.abc import Callable, Iterator

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Connection, Engine, create_engine, delete
from sqlalchemy.engine import URL

from tests.factories.app import make_app
from tests.factories.projections import insert_book
from warehouse_schema import facts, relay
from warehouse_schema.engine import make_engine
from warehouse_schema.metadata import PROJECTIONS, metadata

WRITTEN = [
    facts.cursors,
    relay.health,
    *(t for t in metadata.sorted_tables if t.schema == PROJECTIONS),
]


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
def reader(api_database: URL) -> Iterator[Engine]:
    """Its engine under the api's role."""
    engine = make_engine(api_database, role="api")
    yield engine
    engine.dispose()


@pytest.fixture
def rows(owner: Engine) -> Iterator[Connection]:
    """Where a test puts rows; each is committed as it is written, all are deleted afterwards."""
    with owner.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        yield connection
        for table in WRITTEN:
            connection.execute(delete(table))


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
