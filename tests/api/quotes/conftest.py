"""An owner who asks for quotes, on a database whose quotes are deleted afterwards."""

from collections.abc import Iterator

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Connection, Engine, delete

from tests.factories.projections import STELLAR, insert_cursor
from tests.factories.quotes import SEPOLIA, FixedFees, make_quote_app
from warehouse_schema.intake import quotes


@pytest.fixture
def kept(rows: Connection) -> Iterator[Connection]:
    """Where quotes are, with both chains well."""
    for chain in (STELLAR, SEPOLIA):
        insert_cursor(rows, chain)
    yield rows
    rows.execute(delete(quotes))


@pytest.fixture
def fees() -> FixedFees:
    return FixedFees()


@pytest.fixture
def asker(kept: Connection, reader: Engine, fees: FixedFees) -> FlaskClient:
    """Calls an app on testnet."""
    return make_quote_app(reader, fees).test_client()
