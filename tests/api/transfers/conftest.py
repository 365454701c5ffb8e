"""An owner who starts transfers, on a database whose intake is deleted afterwards."""

from collections.abc import Iterator

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Connection, Engine, delete

from tests.factories.projections import STELLAR, insert_cursor
from tests.factories.quotes import SEPOLIA
from tests.factories.started import make_transfer_app
from warehouse_schema import intake, relay


@pytest.fixture
def kept(rows: Connection) -> Iterator[Connection]:
    """Where transfers are, with both chains well."""
    for chain in (STELLAR, SEPOLIA):
        insert_cursor(rows, chain)
    yield rows
    for table in (
        *(relay.attempts, relay.slots),
        *(intake.submissions, intake.cancellations, intake.watched_addresses),
        *(intake.transfers, intake.quotes),
    ):
        rows.execute(delete(table))


@pytest.fixture
def starter(kept: Connection, reader: Engine) -> FlaskClient:
    """Calls an app on testnet."""
    return make_transfer_app(reader).test_client()
