"""The relay's settings: keys by chain, and errors that name the variable."""

from ipaddress import ip_address
from pathlib import Path

import pytest
from eth_account import Account
from stellar_sdk import Keypair

from devnet.keys import in_files
from indexer.cli.main import main
from indexer.config.settings import load_settings
from indexer.errors import ConfigurationError
from relay import settings
from relay.keys import LocalEvmKey, LocalStellarKey
from relay.limits import SpendLimits
from relay.settings import (
    EVM_LIMITS,
    STELLAR_LIMITS,
    SponsorAccount,
    StellarAccount,
    address_of,
    check_relay_variables,
    load_relay,
)
from warehouse_schema.identifiers import ChainId

SECRET = "5f" * 32
KEY = "ISTHMUS_RELAY_KEY_EIP155_31337"
STELLAR_KEY = "ISTHMUS_RELAY_KEY_STELLAR_DEVNET"
SPONSOR = "ISTHMUS_RELAY_SPONSOR_STELLAR_DEVNET"
DEVNET = load_settings({}).network


def made_by_a_service(chain: ChainId) -> LocalEvmKey:
    assert chain == "eip155:31337"
    return LocalEvmKey.from_text("6e" * 32, "the service")


NO_MAKER = 7


@pytest.fixture
def load_accounts(tmp_path: Path):
    """Accounts of variables whose secrets are in files."""
    return lambda network, variables: settings.load_accounts(network, in_files(tmp_path, variables))


@pytest.fixture
def load_webhook_poster(tmp_path: Path):
    """The same of the sender of webhooks."""
    return lambda network, variables: settings.load_webhook_poster(
        network, in_files(tmp_path, variables)
    )


def test_chain_with_key_is_relayed_to(load_accounts):
    assert load_accounts(DEVNET, {"ISTHMUS_RELAY_SERVER_PORT": "4100"}) == ()
    [found] = load_accounts(DEVNET, {KEY: SECRET})
    assert found.chain.id == "eip155:31337"
    assert found.limits == EVM_LIMITS
    assert SECRET not in repr(found)


def test_key_is_read_from_file(load_accounts, tmp_path: Path):
    (tmp_path / "key").write_text(f"0x{SECRET}\n")
    [found] = load_accounts(DEVNET, {f"{KEY}_FILE": str(tmp_path / "key")})
    assert address_of(found) == Account.from_key(SECRET).address.lower()


def test_key_is_made_by_key_service(load_accounts, monkeypatch: pytest.MonkeyPatch):
    service = {"ISTHMUS_RELAY_KMS_EIP155_31337": f"{__name__}:made_by_a_service"}
    [found] = load_accounts(DEVNET, service)
    assert address_of(found) == Account.from_key("6e" * 32).address.lower()
    # While a service replaces a key in a file, both are accounts.
    both = load_accounts(DEVNET, service | {KEY: SECRET})
    assert [address_of(each) for each in both] == [
        Account.from_key(secret).address.lower() for secret in (SECRET, "6e" * 32)
    ]
    # Only a run calls the service: the check of variables passes without it.
    monkeypatch.setenv("ISTHMUS_RELAY_KMS_EIP155_31337", "no.such.module:x")
    check_relay_variables()
    with pytest.raises(ConfigurationError, match="or module:name"):
        load_relay()


def test_each_stellar_seed_is_a_channel(load_accounts):
    channels = [Keypair.random() for _ in range(3)]
    seeds = ", ".join(each.secret for each in channels)
    found = load_accounts(DEVNET, {STELLAR_KEY: seeds})
    assert [address_of(each) for each in found] == [each.public_key for each in channels]
    assert {each.limits for each in found} == {STELLAR_LIMITS}
    assert not any(each.secret in repr(found) for each in channels)
    with pytest.raises(ConfigurationError, match="name one key twice"):
        load_accounts(DEVNET, {STELLAR_KEY: f"{channels[0].secret},{channels[0].secret}"})


def test_sponsor_has_own_key_and_limits(load_accounts):
    seed, sender = Keypair.random(), Keypair.random()
    own = {SPONSOR: seed.secret, "ISTHMUS_RELAY_SPONSOR_BUDGET_STELLAR_DEVNET": "7"}
    first, second = load_accounts(DEVNET, {STELLAR_KEY: sender.secret} | own)
    assert (type(first), type(second)) == (StellarAccount, SponsorAccount)
    assert (address_of(second), second.limits.budget) == (seed.public_key, 7)
    assert first.limits == STELLAR_LIMITS
    assert seed.secret not in repr(second)
    with pytest.raises(ConfigurationError, match="use a key for each"):
        load_accounts(DEVNET, {STELLAR_KEY: seed.secret} | own)


def test_limits_are_read_from_environment(load_accounts):
    limits = {"ISTHMUS_RELAY_BUDGET_EIP155_31337": "7", "ISTHMUS_RELAY_FLOOR_EIP155_31337": "3"}
    [found] = load_accounts(DEVNET, {KEY: SECRET} | limits)
    assert found.limits == SpendLimits(budget=7, floor=3)


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({KEY: "5f"}, f"{KEY}_FILE is no EVM key"),
        ({STELLAR_KEY: SECRET}, f"{STELLAR_KEY}_FILE is no Stellar seed"),
        ({"ISTHMUS_RELAY_KMS_EIP155_31337": "nothing"}, "or module:name"),
        ({"ISTHMUS_RELAY_KMS_EIP155_31337": "no.such.module:x"}, "or module:name"),
        ({"ISTHMUS_RELAY_KMS_EIP155_31337": f"{__name__}:NO_MAKER"}, "cannot be called"),
        (
            {"ISTHMUS_RELAY_BUDGET_EIP155_31337": "1e18", KEY: SECRET},
            "is '1e18'; it must be a whole number",
        ),
        ({SPONSOR: SECRET}, f"{SPONSOR}_FILE is no Stellar seed"),
        ({"ISTHMUS_RELAY_SPONSOR_EIP155_31337": SECRET}, "network devnet has no such chain"),
        ({"ISTHMUS_RELAY_KEY_EIP155_1": SECRET}, "network devnet has no such chain"),
    ],
)
def test_invalid_setting_error_names_variable(load_accounts, environment, message):
    with pytest.raises(ConfigurationError, match=message) as refused:
        load_accounts(DEVNET, environment)
    assert SECRET not in str(refused.value)


def test_key_without_node_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "key").write_text(SECRET)
    monkeypatch.setenv(f"{KEY}_FILE", str(tmp_path / "key"))
    monkeypatch.setenv("ISTHMUS_RPC_EIP155_31337", "")
    for load in (load_relay, check_relay_variables):
        with pytest.raises(ConfigurationError, match="set ISTHMUS_RPC_EIP155_31337"):
            load()


SEED = Keypair.random().secret


def test_webhook_key_must_not_sign_transactions(load_webhook_poster):
    assert load_webhook_poster(DEVNET, {}) is None
    sender = load_webhook_poster(DEVNET, {"ISTHMUS_WEBHOOK_KEY": SEED})
    assert sender is not None
    assert sender.key.public_key == Keypair.from_secret(SEED).raw_public_key()
    assert SEED not in repr(sender)
    with pytest.raises(ConfigurationError, match="make one of its own"):
        load_webhook_poster(DEVNET, {"ISTHMUS_WEBHOOK_KEY": SEED, STELLAR_KEY: SEED})


def test_webhook_process_reads_no_evm_key(load_accounts, load_webhook_poster):
    unreadable = {f"{KEY}_FILE": "/no/such/file"}
    assert load_webhook_poster(DEVNET, {"ISTHMUS_WEBHOOK_KEY": SEED, **unreadable}) is not None
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_accounts(DEVNET, unreadable)


def webhook_key_of_a_service() -> LocalStellarKey:
    return LocalStellarKey.from_text(SEED, "a service")


def test_webhook_key_is_made_by_key_service(load_webhook_poster):
    service = {"ISTHMUS_WEBHOOK_KMS": f"{__name__}:webhook_key_of_a_service"}
    poster = load_webhook_poster(DEVNET, service)
    assert poster is not None
    assert poster.key.public_key == Keypair.from_secret(SEED).raw_public_key()
    with pytest.raises(ConfigurationError, match="name one key twice"):
        load_webhook_poster(DEVNET, service | {"ISTHMUS_WEBHOOK_KEY": SEED})
    with pytest.raises(ConfigurationError, match="make one of its own"):
        load_webhook_poster(DEVNET, service | {STELLAR_KEY: SEED})


@pytest.mark.parametrize(
    ("network", "may"), [("devnet", True), ("testnet", False), ("mainnet", False)]
)
def test_only_devnet_webhooks_reach_localhost(load_webhook_poster, network: str, may: bool):
    sender = load_webhook_poster(
        load_settings({"ISTHMUS_NETWORK": network}, needs_database=False).network,
        {"ISTHMUS_WEBHOOK_KEY": SEED},
    )
    assert sender is not None
    assert sender.admits(ip_address("127.0.0.1")) is may
    assert not sender.admits(ip_address("10.0.0.1"))
    assert sender.admits(ip_address("1.1.1.1"))
    assert sender.context.verify_mode.name == "CERT_REQUIRED"
    assert sender.context.check_hostname


@pytest.mark.parametrize("command", ["resume", "reset-failures"])
def test_resume_of_unknown_chain_names_known_ones(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ISTHMUS_NETWORK", "mainnet")
    monkeypatch.setenv("DATABASE_URL", "postgresql:///unused")
    assert main(["relay", command, "stellar"]) == 2
    error_output = capsys.readouterr().err
    assert "no chain stellar; it has stellar:pubnet, eip155:1" in error_output


def test_relay_names_shared_and_own_problems_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ISTHMUS_NETWORK", "mainnet")
    monkeypatch.delenv("DATABASE_URL", raising=False)
    keys = {"ISTHMUS_RELAY_KEY_EIP155_1": "5f", "ISTHMUS_RELAY_SPONSOR_STELLAR_PUBNET": "hunter2"}
    for name, file in in_files(tmp_path, keys).items():
        monkeypatch.setenv(name, file)
    assert main(["relay", "run"]) == 2
    printed = capsys.readouterr().err
    assert "3 settings are wrong" in printed
    for name in ("DATABASE_URL", "ISTHMUS_RELAY_KEY_EIP155_1", "SPONSOR_STELLAR_PUBNET"):
        assert name in printed
    assert "hunter2" not in printed
