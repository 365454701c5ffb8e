"""An owner who starts transfers."""

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Connection, Engine

from tests.factories.projections import STELLAR, insert_cursor
from tests.factories.quotes import SEPOLIA
from tests.factories.started import make_transfer_app


@pytest.fixture
def kept(rows: Connection) -> Connection:
    """Where transfers are, with both chains well."""
    for chain in (STELLAR, SEPOLIA):
        insert_cursor(rows, chain)
    return rows


@pytest.fixture
def starter(kept: Connection, reader: Engine) -> FlaskClient:
    """Calls an app on testnet."""
    return make_transfer_app(reader).test_client()
