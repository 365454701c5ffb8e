"""The doctor's checks of keys: both chains as they must be, and one fault after the other."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import insert
from stellar_sdk import Keypair

from devnet.evm import dev_account
from devnet.keys import SPONSOR
from devnet.stellar.accounts import RELAYER as STELLAR_RELAYER
from devnet.stellar.accounts import XLM, keypair
from indexer.config.settings import load_settings
from indexer.doctor.checks import CheckResult, DoctorContext
from indexer.errors import NodeUnavailable
from relay.doctor import EVM_DIGEST, GROUP, check_keys
from relay.keys import LocalEvmKey, LocalStellarKey, evm_signature
from relay.webhooks.signing import encode_public_key
from tests.devnet.stellar.chain import Chain
from tests.relay.conftest import EVM, RELAYER, STRANGER, Stand
from tests.relay.ledger import STELLAR
from warehouse_schema.identifiers import ChainId
from warehouse_schema.relay import slots

KEY = "ISTHMUS_RELAY_KEY_EIP155_31337"
KMS = "ISTHMUS_RELAY_KMS_EIP155_31337"
STELLAR_KEY = "ISTHMUS_RELAY_KEY_STELLAR_DEVNET"
SPONSOR_KEY = "ISTHMUS_RELAY_SPONSOR_STELLAR_DEVNET"
WEBHOOKS = Keypair.from_raw_ed25519_seed(bytes(range(32)))
ADDRESS = RELAYER.address.lower()
STELLAR_ADDRESS = keypair(STELLAR_RELAYER).public_key


@dataclass
class Patient:
    """A configuration whose keys are examined, on two running chains."""

    stand: Stand
    ledgers: Chain
    set: Callable[[str, str], None]
    unset: Callable[[str], None]
    folder: Path

    def write(self, variable: str, secret: str) -> Path:
        """Configure a secret in a file."""
        path = self.folder / variable.lower()
        path.touch(mode=0o600)
        path.write_text(f"{secret}\n")
        self.set(f"{variable}_FILE", str(path))
        return path

    def examine(self) -> list[CheckResult]:
        found = list(check_keys(DoctorContext(load_settings())))
        secrets = [path.read_text().strip() for path in self.folder.iterdir()]
        assert not any(part in repr(found) for each in secrets for part in each.split(","))
        return found

    def faults(self) -> Mapping[str, str]:
        return {each.check: each.problem for each in self.examine() if each.is_finding}

    def reserve(self, chain: str, account: str, number: int) -> None:
        """A slot that the relay has signed for."""
        job = {"purpose": "deliver", "key": f"0x{number:x}", "subject": "0f" * 16}
        with self.stand.engine.begin() as conn:
            place = {"chain": chain, "account": account, "number": number}
            conn.execute(insert(slots).values(place | job))


@pytest.fixture
def patient(
    stand: Stand, served: tuple[Chain, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Patient:
    ledgers, url = served
    if ledgers.account(keypair(SPONSOR).public_key) is None:
        ledgers.open(SPONSOR)
    made = Patient(
        stand,
        ledgers,
        monkeypatch.setenv,
        lambda name: monkeypatch.delenv(name),
        tmp_path,
    )
    made.set("ISTHMUS_NETWORK", "devnet")
    made.set("DATABASE_URL", stand.engine.url.render_as_string(hide_password=False))
    made.set("ISTHMUS_RPC_EIP155_31337", stand.url)
    made.set("ISTHMUS_RPC_STELLAR_DEVNET", url)
    made.set("ISTHMUS_DEPOSIT_OPERATOR_EIP155_31337", ADDRESS)
    made.set("ISTHMUS_WEBHOOK_PUBLIC_KEY", encode_public_key(LocalStellarKey(WEBHOOKS)))
    made.write(KEY, RELAYER.key.hex())
    made.write(STELLAR_KEY, keypair(STELLAR_RELAYER).secret)
    made.write(SPONSOR_KEY, keypair(SPONSOR).secret)
    made.write("ISTHMUS_WEBHOOK_KEY", WEBHOOKS.secret)
    return made


def test_keys_as_they_must_be_give_no_finding(patient: Patient) -> None:
    found = patient.examine()
    assert not [each for each in found if each.is_finding]
    # Of what may be wrong before a key can be asked there is no result.
    asked = {check.id for check in GROUP.checks} - {"keys.readable", "keys.settings"}
    assert {each.check for each in found} == asked
    subjects = {each.subject for each in found if each.check == "keys.balance"}
    assert subjects == {
        f"{EVM.id} {ADDRESS}",
        f"{STELLAR.id} {STELLAR_ADDRESS}",
        f"{STELLAR.id} {keypair(SPONSOR).public_key}",
    }


def test_configuration_without_keys_says_so(patient: Patient) -> None:
    for name in (KEY, STELLAR_KEY, SPONSOR_KEY, "ISTHMUS_WEBHOOK_KEY"):
        patient.unset(f"{name}_FILE")
    [found] = patient.examine()
    assert (found.is_finding, found.seen) == (False, "no key is configured here")


def test_missing_file_is_found_and_other_keys_are_checked(patient: Patient) -> None:
    patient.unset("ISTHMUS_DEPOSIT_OPERATOR_EIP155_31337")
    path = patient.write(KEY, "")
    path.unlink()
    found = patient.examine()
    [fault] = [each for each in found if each.is_finding]
    assert (fault.check, fault.subject) == ("keys.readable", f"{KEY}_FILE")
    assert fault.problem == f"{path}: No such file or directory"
    assert [each.check for each in found].count("keys.signs") == 3


def test_text_that_is_no_key_is_found(patient: Patient) -> None:
    patient.write(KEY, "5f" * 31)
    assert list(patient.faults()) == ["keys.settings"]


def test_key_that_sends_and_sponsors_is_found(patient: Patient) -> None:
    patient.write(SPONSOR_KEY, keypair(STELLAR_RELAYER).secret)
    found = patient.faults()
    assert list(found) == ["keys.settings"]
    assert f"{STELLAR_ADDRESS} is to send and to sponsor" in found["keys.settings"]


def test_balance_under_the_budget_is_found(patient: Patient) -> None:
    patient.set("ISTHMUS_RELAY_BUDGET_EIP155_31337", str(10**30))
    found = patient.faults()
    assert list(found) == ["keys.balance"]
    assert f"its day's budget is {10**30}" in found["keys.balance"]


def test_empty_account_is_found(patient: Patient) -> None:
    patient.stand.devnet.rpc("anvil_setBalance", ADDRESS, "0x1")
    assert patient.faults() == {"keys.balance": f"1 wei on the account, its floor is {5 * 10**15}"}


def test_channel_without_an_account_is_found(patient: Patient) -> None:
    channel = Keypair.random()
    patient.write(STELLAR_KEY, f"{keypair(STELLAR_RELAYER).secret},{channel.secret}")
    [fault] = [each for each in patient.examine() if each.is_finding]
    assert (fault.check, fault.subject) == ("keys.account", f"{STELLAR.id} {channel.public_key}")


@pytest.mark.parametrize("is_mined", [True, False], ids=["in-a-block", "pending"])
def test_transaction_of_a_stranger_is_found(patient: Patient, is_mined: bool) -> None:
    devnet = patient.stand.devnet
    patient.reserve(EVM.id, ADDRESS, patient.stand.nonce())
    assert patient.faults() == {}
    devnet.rpc("evm_setAutomine", is_mined)
    for _ in range(2):
        devnet.rpc("eth_sendTransaction", {"from": ADDRESS, "to": ADDRESS, "gas": "0x5208"})
    if is_mined:
        assert patient.stand.mines_all(within=30.0)
    problem = "1 transactions from number 1 on are not this warehouse's"
    assert patient.faults() == {"keys.nonce": problem}


def test_sequence_number_of_a_stranger_is_found(patient: Patient) -> None:
    account = patient.ledgers.account(STELLAR_ADDRESS)
    assert account is not None
    patient.reserve(STELLAR.id, STELLAR_ADDRESS, account.sequence)
    assert patient.faults() == {}
    sender = keypair(STELLAR_RELAYER)
    patient.ledgers.pay(sender, sender.public_key, 1, XLM)
    assert list(patient.faults()) == ["keys.nonce"]


def test_operator_that_no_key_signs_for_is_found(patient: Patient) -> None:
    patient.set("ISTHMUS_DEPOSIT_OPERATOR_EIP155_31337", STRANGER.address)
    problem = f"deposits wait for {STRANGER.address.lower()}, the relay signs as {ADDRESS}"
    assert patient.faults() == {"keys.deposit_operator": problem}


def test_keys_that_are_being_replaced_give_no_finding(patient: Patient) -> None:
    new = STRANGER.address.lower()
    patient.write(KEY, f"{RELAYER.key.hex()},{STRANGER.key.hex()}")
    patient.set("ISTHMUS_RELAY_DRAIN_EIP155_31337", ADDRESS)
    patient.write("ISTHMUS_WEBHOOK_KEY", f"{Keypair.random().secret},{WEBHOOKS.secret}")
    problem = f"deposits wait for {ADDRESS}, the relay signs as {new}"
    assert patient.faults() == {"keys.deposit_operator": problem}
    patient.set("ISTHMUS_DEPOSIT_OPERATOR_EIP155_31337", new)
    assert patient.faults() == {}


def test_published_key_of_webhooks_that_differs_is_found(patient: Patient) -> None:
    other = encode_public_key(LocalStellarKey(Keypair.random()))
    patient.set("ISTHMUS_WEBHOOK_PUBLIC_KEY", other)
    found = patient.faults()
    assert list(found) == ["keys.webhook"]
    assert f"the API publishes {other}" in found["keys.webhook"]


def test_database_before_the_first_migration_gives_no_finding(patient: Patient) -> None:
    empty = patient.stand.engine.url.set(database="postgres")
    patient.set("DATABASE_URL", empty.render_as_string(hide_password=False))
    assert patient.faults() == {}


def test_role_that_the_user_may_not_take_is_said(patient: Patient) -> None:
    url = patient.stand.engine.url
    with patient.stand.engine.begin() as conn:
        conn.exec_driver_sql("CREATE ROLE doctors_guest LOGIN PASSWORD 'guest'")
    guest = url.set(username="doctors_guest", password="guest")
    patient.set("DATABASE_URL", guest.render_as_string(hide_password=False))
    found = patient.faults()
    with patient.stand.engine.begin() as conn:
        conn.exec_driver_sql("DROP ROLE doctors_guest")
    assert list(found) == ["keys.nonce"]
    assert "permission denied to set role" in found["keys.nonce"]


class OtherKey:
    """A key service that signs with another key than it says."""

    public_key = LocalEvmKey.from_text(RELAYER.key.hex(), "KEY").public_key

    def sign(self, digest: bytes) -> tuple[int, int]:
        return LocalEvmKey.from_text(dev_account(9).key.hex(), "KEY").sign(digest)


class SilentKey(OtherKey):
    """A key service that answers no request to sign."""

    def sign(self, digest: bytes) -> tuple[int, int]:
        raise NodeUnavailable("kms.example.com: ConnectTimeout")


def other_key(_: ChainId) -> OtherKey:
    return OtherKey()


def silent_key(_: ChainId) -> OtherKey:
    return SilentKey()


@pytest.mark.parametrize(
    ("service", "words"),
    [("other_key", "a signature that is not its own"), ("silent_key", "kms.example.com")],
)
def test_key_service_that_does_not_sign_is_found(
    patient: Patient, service: str, words: str
) -> None:
    patient.unset(f"{KEY}_FILE")
    patient.set(KMS, f"{__name__}:{service}")
    (patient.folder / KEY.lower()).unlink()
    found = patient.faults()
    assert list(found) == ["keys.signs"]
    assert words in found["keys.signs"]


def test_signed_text_is_no_transaction() -> None:
    # EIP-191 as eth_account has it: wallets show it as a message.
    from eth_account import Account
    from eth_account.messages import encode_defunct

    _, r, s = evm_signature(LocalEvmKey.from_text(RELAYER.key.hex(), "KEY"), EVM_DIGEST)
    message = encode_defunct(b"isthmus doctor: this key signs.")
    signed = Account.sign_message(message, RELAYER.key)
    assert (signed.r, signed.s) == (r, s)
