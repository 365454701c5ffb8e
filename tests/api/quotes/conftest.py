"""An owner who asks for quotes."""

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Connection, Engine

from tests.factories.projections import STELLAR, insert_cursor
from tests.factories.quotes import SEPOLIA, FixedFees, make_quote_app


@pytest.fixture
def kept(rows: Connection) -> Connection:
    """Where quotes are, with both chains well."""
    for chain in (STELLAR, SEPOLIA):
        insert_cursor(rows, chain)
    return rows


@pytest.fixture
def fees() -> FixedFees:
    return FixedFees()


@pytest.fixture
def asker(kept: Connection, reader: Engine, fees: FixedFees) -> FlaskClient:
    """Calls an app on testnet."""
    return make_quote_app(reader, fees).test_client()
