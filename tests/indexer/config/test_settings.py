"""Settings of the indexer: values from the environment, errors with the variable's name."""

from pathlib import Path

import pytest

from indexer.config.settings import load_settings, read_both, rpc_variable
from indexer.errors import ConfigurationError
from warehouse_schema.identifiers import ChainId
from warehouse_schema.location import NEEDS_DATABASE

MAINNET = {"ISTHMUS_NETWORK": "mainnet", "DATABASE_URL": "postgresql://db.example/isthmus"}


def test_empty_environment_is_devnet_with_embedded_db() -> None:
    settings = load_settings({})
    assert settings.network.name == "devnet"
    assert settings.database_url is None
    assert settings.home.name == ".isthmus"


def test_chain_without_node_is_not_followed() -> None:
    settings = load_settings(
        {**MAINNET, "ISTHMUS_RPC_EIP155_1": "https://a.example, wss://a.example"}
    )
    assert [chain.id for chain in settings.followed] == ["eip155:1"]
    assert settings.nodes[ChainId("eip155:1")] == ("https://a.example", "wss://a.example")


def test_production_networks_name_no_node() -> None:
    for network in ("mainnet", "testnet"):
        assert load_settings({**MAINNET, "ISTHMUS_NETWORK": network}).followed == ()


def test_variable_of_a_chain_is_its_id_in_capitals() -> None:
    assert rpc_variable(ChainId("stellar:pubnet")) == "ISTHMUS_RPC_STELLAR_PUBNET"


def test_refused_url_is_not_repeated() -> None:
    with pytest.raises(ConfigurationError) as refused:
        load_settings({"ISTHMUS_RPC_EIP155_31337": "htps://node.example/v2/SECRETKEY"})
    assert "SECRETKEY" not in str(refused.value)


def test_start_height_comes_from_environment() -> None:
    settings = load_settings(
        {
            **MAINNET,
            "ISTHMUS_NETWORK": "testnet",
            "ISTHMUS_RPC_STELLAR_TESTNET": "https://a.example",
            "ISTHMUS_START_STELLAR_TESTNET": "1234567",
        }
    )
    assert settings.network.stellar.first_height == 1_234_567


def test_only_stellar_has_a_lake() -> None:
    environment = {**MAINNET, "ISTHMUS_LAKE_STELLAR_PUBNET": "s3://lake/ledgers"}
    assert load_settings(environment).lakes == {"stellar:pubnet": "s3://lake/ledgers"}
    assert load_settings(MAINNET).lakes == {}


def test_relative_lake_is_in_the_working_directory() -> None:
    environment = {**MAINNET, "ISTHMUS_LAKE_STELLAR_PUBNET": "lake"}
    assert load_settings(environment).lakes == {"stellar:pubnet": str(Path("lake").absolute())}


def test_log_proof_of_the_network_file_can_be_replaced() -> None:
    assert [each.log_proof for each in load_settings({}).network.evm] == ["receipts"]
    [chain] = load_settings({"ISTHMUS_LOG_PROOF_EIP155_31337": "operators"}).network.evm
    assert chain.log_proof == "operators"


def test_confirmations_of_the_network_file_can_be_raised() -> None:
    assert [each.confirmations for each in load_settings({}).network.evm] == [64]
    for given in (64, 200):
        environment = {"ISTHMUS_CONFIRMATIONS_EIP155_31337": str(given)}
        assert [each.confirmations for each in load_settings(environment).network.evm] == [given]


def test_deposit_operator_enables_deposit_addresses() -> None:
    account = "0x90F79bf6EB2c4f870365E785982E1f101E93b906"
    [chain] = load_settings({"ISTHMUS_DEPOSIT_OPERATOR_EIP155_31337": account}).network.evm
    assert chain.deposit_operator == account.lower()
    assert chain.has_deposit_addresses
    [chain] = load_settings({}).network.evm
    assert not chain.has_deposit_addresses


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"ISTHMUS_NETWORK": "moonnet"}, "ISTHMUS_NETWORK is 'moonnet'"),
        ({"ISTHMUS_RPC_EIP155_31337": "localhost:8545"}, "RPC_EIP155_31337 must hold URLs"),
        ({"ISTHMUS_RPC_EIP155_31337": "http://:8545"}, "RPC_EIP155_31337 has a URL without a host"),
        ({"ISTHMUS_RPC_EIP155_31337": "http://a:0"}, "RPC_EIP155_31337 has a URL without a host"),
        ({"ISTHMUS_RPC_EIP155_31337": "ws://a:99999"}, "RPC_EIP155_31337 has a URL without a host"),
        ({"ISTHMUS_RPC_EIP155_31337": "http://[a"}, "RPC_EIP155_31337 has a URL without a host"),
        ({"ISTHMUS_RPC_EIP155_1": "https://a.example"}, "ISTHMUS_RPC_EIP155_1: network devnet has"),
        ({"ISTHMUS_START_EIP155_31337": "soon"}, "ISTHMUS_START_EIP155_31337 is 'soon'"),
        (
            {"ISTHMUS_LOG_PROOF_EIP155_31337": "hope"},
            "LOG_PROOF_EIP155_31337 is 'hope'; it must be one of receipts, header",
        ),
        ({"ISTHMUS_LOG_PROOF_STELLAR_DEVNET": "none"}, "LOG_PROOF_STELLAR_DEVNET"),
        (
            {"ISTHMUS_CONFIRMATIONS_EIP155_31337": "63"},
            "EIP155_31337 is 63; it must be at least 64",
        ),
        ({"ISTHMUS_CONFIRMATIONS_EIP155_31337": "many"}, "CONFIRMATIONS_EIP155_31337 is 'many'"),
        ({"ISTHMUS_CONFIRMATIONS_STELLAR_DEVNET": "9"}, "CONFIRMATIONS_STELLAR_DEVNET"),
        (
            {"ISTHMUS_DEPOSIT_OPERATOR_EIP155_31337": "me"},
            "OPERATOR_EIP155_31337 is 'me'; it must be",
        ),
        ({"ISTHMUS_DEPOSIT_OPERATOR_STELLAR_DEVNET": "me"}, "OPERATOR_STELLAR_DEVNET"),
        (
            {
                **MAINNET,
                "ISTHMUS_DEPOSIT_OPERATOR_EIP155_1": "0x" + "0e" * 20,
            },
            "OPERATOR_EIP155_1: eip155:1 has no deposit_factory",
        ),
        (
            {
                **MAINNET,
                "ISTHMUS_NETWORK": "testnet",
                "ISTHMUS_RPC_STELLAR_TESTNET": "https://a.example",
            },
            "stellar:testnet has a node and no start: set ISTHMUS_START_STELLAR_TESTNET",
        ),
    ],
)
def test_invalid_setting_is_refused_by_name(environment: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        load_settings(environment)


def test_iris_override_is_refused_off_devnet() -> None:
    chosen = {"ISTHMUS_IRIS_URL": "http://127.0.0.1:8200"}
    assert load_settings(chosen).network.iris == "http://127.0.0.1:8200"
    assert load_settings({}).network.iris is None
    for network in ("mainnet", "testnet"):
        with pytest.raises(ConfigurationError, match="ISTHMUS_IRIS_URL is for the local chains"):
            load_settings({**MAINNET, **chosen, "ISTHMUS_NETWORK": network})
    for url in ("https://iris-api.circle.com", "http://10.0.0.1:80", "http://127.0.0.1:1/x"):
        with pytest.raises(ConfigurationError, match="it must be like http:"):
            load_settings({"ISTHMUS_IRIS_URL": url})


@pytest.mark.parametrize("name", ["ISTHMUS_CODE_SERVER_PORT", "ISTHMUS_RELAY_SERVER_PORT"])
def test_port_of_a_code_server_is_a_number(name: str) -> None:
    assert load_settings({name: "4000"}) == load_settings({})
    for text in ("0", "65536", "http"):
        with pytest.raises(ConfigurationError, match=f"{name} is '{text}'; it must be"):
            load_settings({name: text})


def test_all_problems_are_named_at_once() -> None:
    with pytest.raises(ConfigurationError) as refused:
        load_settings(
            {
                "ISTHMUS_NETWORK": "testnet",
                "ISTHMUS_IRIS_URL": "http://127.0.0.1:8200",
                "ISTHMUS_START_STELLAR_TESTNET": "soon",
                "ISTHMUS_TOKEN_KY": "hunter2",
            }
        )
    assert str(refused.value).splitlines() == [
        "4 settings are wrong:",
        f"  {NEEDS_DATABASE}",
        "  ISTHMUS_IRIS_URL is for the local chains: leave it out",
        "  ISTHMUS_START_STELLAR_TESTNET is 'soon'; it must be a whole number",
        "  ISTHMUS_TOKEN_KY is no setting; the nearest one is ISTHMUS_TOKEN_KEY_FILE "
        "(docs/settings.md)",
    ]


def test_problems_that_need_the_network_come_together() -> None:
    environment = {
        **MAINNET,
        "ISTHMUS_RPC_EIP155_5": "https://a.example",
        "ISTHMUS_LAKE_EIP155_1": "s3://lake",
        "ISTHMUS_RPC_STELLAR_PUBNET": "https://a.example",
        "ISTHMUS_DEPOSIT_OPERATOR_EIP155_1": "0x" + "0e" * 20,
    }
    with pytest.raises(ConfigurationError) as refused:
        load_settings(environment)
    assert [line.split(":")[0].strip() for line in str(refused.value).splitlines()] == [
        "3 settings are wrong",
        "ISTHMUS_DEPOSIT_OPERATOR_EIP155_1",
        "ISTHMUS_LAKE_EIP155_1",
        "ISTHMUS_RPC_EIP155_5",
    ]


def test_needs_of_chains_are_named_beside_wrong_values() -> None:
    environment = {
        **MAINNET,
        "ISTHMUS_NETWORK": "testnet",
        "ISTHMUS_RPC_EIP155_84532": "https://a.example",
        "ISTHMUS_RPC_STELLAR_TESTNET": "https://a.example",
        "ISTHMUS_START_STELLAR_TESTNET": "soon",
        "ISTHMUS_START_EIP155_5": "1",
    }
    with pytest.raises(ConfigurationError) as refused:
        load_settings(environment)
    assert [line.partition(" is ")[0][:48] for line in str(refused.value).splitlines()[1:]] == [
        "  ISTHMUS_START_EIP155_5: network testnet has no",
        "  ISTHMUS_START_STELLAR_TESTNET",
        "  eip155:84532 has a node and no start: set ISTH",
    ]


def test_settings_errors_are_reported_together() -> None:
    with pytest.raises(ConfigurationError, match="2 settings are wrong") as refused:
        read_both(
            lambda: load_settings({"ISTHMUS_NETWORK": "moonnet"}),
            lambda: load_settings({"ISTHMUS_EXPRT": "x"}),
        )
    assert "ISTHMUS_EXPORT" in str(refused.value)


def test_devnet_signs_for_the_test_network_if_configured() -> None:
    own = load_settings({}).network.stellar
    chosen = load_settings({"ISTHMUS_DEVNET_PASSPHRASE": "testnet"}).network.stellar
    assert chosen.passphrase == "Test SDF Network ; September 2015"
    # The ledger's own contract of an asset follows from the passphrase.
    assert chosen.usdc_contract != own.usdc_contract
    assert chosen.escrow == own.escrow


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        pytest.param(
            {"ISTHMUS_DEVNET_PASSPHRASE": "public"}, "must be standalone or testnet", id="unknown"
        ),
        pytest.param(
            {**MAINNET, "ISTHMUS_DEVNET_PASSPHRASE": "testnet"},
            "ISTHMUS_DEVNET_PASSPHRASE is for the local chains",
            id="mainnet",
        ),
    ],
)
def test_wrong_devnet_passphrase_is_refused(environment, message) -> None:
    with pytest.raises(ConfigurationError, match=message):
        load_settings(environment)
