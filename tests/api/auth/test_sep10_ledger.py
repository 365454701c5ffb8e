"""SEP-10 sign-in against the RPC of the development network."""

from collections.abc import Iterator

import pytest
from flask.testing import FlaskClient
from stellar_sdk import Keypair
from stellar_sdk import Signer as LedgerSigner
from stellar_sdk.operation import SetOptions

from api.auth.accounts import LimitedAccounts
from devnet.stellar.client import DevnetClient
from indexer.chains.stellar.accounts import AccountReader
from indexer.config.networks import load_network
from tests.factories.sep10 import key, make_sep10, make_sign_in_app, sign
from tests.factories.stellar_process import StellarProcess

NETWORK = load_network("devnet")
PASSPHRASE = NETWORK.stellar.passphrase
DEVICE, GUARD, STRANGER = key("device"), key("guard"), key("stranger")


@pytest.fixture(scope="module")
def process() -> Iterator[StellarProcess]:
    with StellarProcess.start(interval=0, clock="fixed") as process:
        yield process


@pytest.fixture(scope="module")
def ledger(process) -> Iterator[DevnetClient]:
    with DevnetClient(process.url) as client:
        yield client


@pytest.fixture
def client(process, ledger, rows, reader) -> Iterator[FlaskClient]:
    accounts = AccountReader(NETWORK.stellar, [process.url], timeout=60.0)
    sep10 = make_sep10(passphrase=PASSPHRASE)
    app = make_sign_in_app(reader, LimitedAccounts(accounts), network=NETWORK, sep10=sep10)
    yield app.test_client()
    accounts.close()


def log_in(client: FlaskClient, account: Keypair, *signers: Keypair) -> int:
    given = client.get("/auth", query_string={"account": account.public_key}).json["transaction"]
    signed = sign(given, *signers, passphrase=PASSPHRASE)
    return client.post("/auth", json={"transaction": signed}).status_code


def test_unfunded_account_signs_in_with_its_key(client) -> None:
    assert log_in(client, STRANGER, STRANGER) == 200
    assert log_in(client, STRANGER, DEVICE) == 400


def test_signers_follow_the_ledger(client, ledger) -> None:
    account = ledger.open_account("sep-10 multisig")
    assert log_in(client, account, account) == 200
    assert log_in(client, account, DEVICE) == 400
    device, guard = (
        LedgerSigner.ed25519_public_key(each.public_key, 1) for each in (DEVICE, GUARD)
    )
    guard.weight = 2
    ledger.submit(account, [SetOptions(med_threshold=2, signer=device), SetOptions(signer=guard)])
    assert log_in(client, account, account) == 400
    assert log_in(client, account, account, DEVICE) == 200
    assert log_in(client, account, GUARD) == 200
    ledger.submit(account, [SetOptions(master_weight=0)])
    assert log_in(client, account, account) == 400
    assert log_in(client, account, account, DEVICE) == 400
    assert log_in(client, account, GUARD) == 200


def test_sign_in_without_node_returns_503(reader) -> None:
    accounts = AccountReader(NETWORK.stellar, ["http://127.0.0.1:1"])
    app = make_sign_in_app(
        reader, LimitedAccounts(accounts), network=NETWORK, sep10=make_sep10(passphrase=PASSPHRASE)
    )
    assert log_in(app.test_client(), STRANGER, STRANGER) == 503
    accounts.close()
