"""Keys of a real PKCS#11 token sign deliveries on both kinds of chain."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from stellar_sdk import Keypair
from stellar_sdk.operation import CreateAccount

from devnet.stellar.accounts import ROOT, keypair
from indexer.config.settings import load_settings
from indexer.errors import ConfigurationError, RetryableChainError
from relay.account import TurnReport
from relay.keys import evm_signature, stellar_address, stellar_signature
from relay.settings import EvmAccount, StellarAccount, load_accounts, load_webhook_poster
from relay.signing import pkcs11_token
from tests.relay.conftest import AMOUNT, Stand
from tests.relay.hsm.conftest import PIN, TOKEN, Hsm
from tests.relay.ledger import LedgerStand

DEVNET = load_settings({}).network
EVM_KMS, STELLAR_KMS = "ISTHMUS_RELAY_KMS_EIP155_31337", "ISTHMUS_RELAY_KMS_STELLAR_DEVNET"


def evm_account(hsm: Hsm, label: str = "evm") -> EvmAccount:
    [found] = load_accounts(DEVNET, hsm.variables(**{EVM_KMS: f"pkcs11:{TOKEN}/{label}"}))
    assert isinstance(found, EvmAccount)
    return found


def stellar_account(hsm: Hsm, label: str = "stellar") -> StellarAccount:
    [found] = load_accounts(DEVNET, hsm.variables(**{STELLAR_KMS: f"pkcs11:{TOKEN}/{label}"}))
    assert isinstance(found, StellarAccount)
    return found


def test_message_is_delivered_on_evm_chain(hsm: Hsm, stand: Stand) -> None:
    message, relay = stand.add_message(), stand.relay(key=evm_account(hsm).key)
    stand.devnet.rpc("anvil_setBalance", relay.account.address, hex(10**18))
    assert stand.turns(relay) == TurnReport(opened=1, sent=1)
    assert stand.received(message) == AMOUNT
    stand.ingest()
    assert stand.turns(relay) == TurnReport(confirmed=1)


def test_message_is_delivered_on_stellar(hsm: Hsm, ledger_stand: LedgerStand) -> None:
    stand, key = ledger_stand, stellar_account(hsm).key
    stand.chain.run(keypair(ROOT), CreateAccount(stellar_address(key), "100"))
    message, relay = stand.add_message(), stand.relay(key)
    assert stand.turns(relay) == TurnReport(opened=1, sent=1)
    stand.close()
    assert stand.received(message) == AMOUNT * 10
    assert stand.turns(relay) == TurnReport(confirmed=1)


def test_threads_share_a_token(hsm: Hsm) -> None:
    evm, stellar = evm_account(hsm).key, stellar_account(hsm).key
    digests = [number.to_bytes(32, "big") for number in range(64)]
    with ThreadPoolExecutor(4) as pool:
        # Both verify what they return.
        signed = pool.map(lambda each: evm_signature(evm, each), digests)
        other = pool.map(lambda each: stellar_signature(stellar, each), digests)
        assert {parity for parity, _, _ in signed} == {0, 1}
        assert len(set(other)) == 64


# The library closes its search in the lost session.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_lost_session_is_opened_again(hsm: Hsm) -> None:
    key = stellar_account(hsm).key
    token = pkcs11_token._token(Path(hsm.library), TOKEN, PIN)
    assert token._session is not None
    # What a restarted HSM does to the sessions of its clients.
    token._session.close()
    with pytest.raises(RetryableChainError):
        key.sign(b"message")
    assert len(stellar_signature(key, b"message")) == 64


def test_webhook_key_is_on_the_token(hsm: Hsm) -> None:
    variables = hsm.variables(ISTHMUS_WEBHOOK_KMS=f"pkcs11:{TOKEN}/stellar")
    poster = load_webhook_poster(DEVNET, variables)
    assert poster is not None
    body = b"{}" * 1000
    Keypair.from_raw_ed25519_public_key(poster.key.public_key).verify(body, poster.key.sign(body))


def test_wrong_names_and_settings_are_rejected(hsm: Hsm) -> None:
    evm = {EVM_KMS: f"pkcs11:{TOKEN}/evm"}
    for variables, problem in (
        (hsm.variables(**{EVM_KMS: f"pkcs11:{TOKEN}/none"}), "NoSuchKey"),
        (hsm.variables(**{EVM_KMS: "pkcs11:other/evm"}), "NoSuchToken"),
        (hsm.variables(**{EVM_KMS: f"pkcs11:{TOKEN}/p256"}), "is no secp256k1 key"),
        (hsm.variables(**{EVM_KMS: "pkcs11:evm"}), "must be pkcs11:TOKEN/LABEL"),
        (hsm.variables(**{STELLAR_KMS: f"pkcs11:{TOKEN}/evm"}), "NoSuchKey"),
        (hsm.variables(**evm) | {"ISTHMUS_PKCS11_MODULE": "/no/such.so"}, "MODULE: /no/such.so"),
        (evm, "needs ISTHMUS_PKCS11_MODULE"),
    ):
        with pytest.raises(ConfigurationError, match=problem):
            load_accounts(DEVNET, variables)
