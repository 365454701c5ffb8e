"""An owner who acts."""

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Connection, Engine

from indexer.chains.stellar.xdr.ledger_entries import Trustline
from tests.factories.acting import FixedEvm, FixedStellar
from tests.factories.actions import MAINNET, OWNER
from tests.factories.projections import insert_cursor
from tests.factories.sep10 import FixedAccounts
from tests.factories.started import NOBODY, make_transfer_app
from warehouse_schema.identifiers import BaseUnits, StellarAddress


@pytest.fixture
def kept(rows: Connection) -> Connection:
    """Where transfers are, with the chains of mainnet well."""
    for chain in MAINNET.chains:
        insert_cursor(rows, chain.id)
    return rows


@pytest.fixture
def evm() -> FixedEvm:
    return FixedEvm()


@pytest.fixture
def accounts() -> FixedAccounts:
    """A ledger on which the owner and whom he pays take both assets."""
    held = FixedAccounts()
    for account in (OWNER, NOBODY):
        for asset in (MAINNET.stellar.usdc, MAINNET.stellar.usdt0):
            assert asset is not None
            much = BaseUnits(2**62)
            line = Trustline(StellarAddress(account), asset, True, much, much)
            held.lines[account, asset] = line
    return held


@pytest.fixture
def stellar() -> FixedStellar:
    return FixedStellar()


@pytest.fixture
def actor(
    kept: Connection,
    reader: Engine,
    evm: FixedEvm,
    stellar: FixedStellar,
    accounts: FixedAccounts,
) -> FlaskClient:
    """Calls an app on mainnet."""
    app = make_transfer_app(reader, network=MAINNET, evm=evm, stellar=stellar, accounts=accounts)
    return app.test_client()
