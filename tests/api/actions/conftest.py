"""An owner who acts, on a database whose intake is deleted afterwards."""

from collections.abc import Iterator

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Connection, Engine, delete

from indexer.decode.accounts import Trustline
from tests.factories.acting import FixedEvm
from tests.factories.actions import MAINNET, OWNER
from tests.factories.projections import insert_cursor
from tests.factories.sep10 import FixedAccounts
from tests.factories.started import make_transfer_app
from warehouse_schema import intake
from warehouse_schema.identifiers import BaseUnits, StellarAddress


@pytest.fixture
def kept(rows: Connection) -> Iterator[Connection]:
    """Where transfers are, with the chains of mainnet well."""
    for chain in MAINNET.chains:
        insert_cursor(rows, chain.id)
    yield rows
    for table in (
        *(intake.submissions, intake.actions, intake.cancellations),
        *(intake.transfers, intake.quotes),
    ):
        rows.execute(delete(table))


@pytest.fixture
def evm() -> FixedEvm:
    return FixedEvm()


@pytest.fixture
def accounts() -> FixedAccounts:
    """A ledger on which the owner takes both assets."""
    held = FixedAccounts()
    for asset in (MAINNET.stellar.usdc, MAINNET.stellar.usdt0):
        assert asset is not None
        line = Trustline(StellarAddress(OWNER), asset, True, BaseUnits(2**63 - 1))
        held.lines[OWNER, asset] = line
    return held


@pytest.fixture
def actor(kept: Connection, reader: Engine, evm: FixedEvm, accounts: FixedAccounts) -> FlaskClient:
    """Calls an app on mainnet."""
    app = make_transfer_app(reader, network=MAINNET, evm=evm, accounts=accounts)
    return app.test_client()
