"""Deposit addresses, computed from public data."""

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from eth_utils.address import to_checksum_address
from eth_utils.crypto import keccak

from devnet.evm_node import DEPOSIT_ARTIFACTS, artifact
from indexer.bridges.deposit_address.factory import (
    DETERMINISTIC_DEPLOYER,
    FACTORY,
    FORWARDER_CODE_HASH,
    burn_call,
    create2_address,
    deposit_address,
    route_hash,
    send_call,
)
from indexer.config.networks import load_network
from indexer.errors import ConfigurationError
from tests.factories.deposits import STRANGER, make_deposit, with_factories
from tests.indexer.bridges.deposit_address.conftest import TEST_ARTIFACTS
from tests.indexer.bridges.deposit_address.vectors import as_json, vectors
from warehouse_schema.identifiers import BaseUnits

DOCUMENT = Path(__file__).parents[4] / "docs" / "deposit-addresses.md"
OTHER: dict[str, Any] = {
    "chain": "eip155:42161",
    "owner": STRANGER,
    "transfer_id": UUID(int=1),
    "amount": 20_000_001,
    "min_received": 19_989_999,
    "refund_to": "0x" + "11" * 20,
    "operator": "0x" + "22" * 20,
    "expires_at": 1_800_000_001,
    "bridge": "oft",
}


def test_deposit_addresses_equal_the_golden_vectors(golden: Callable[[str, Any], None]) -> None:
    golden("deposits/vectors.json", as_json(vectors()))


@pytest.mark.parametrize("member", OTHER)
def test_changed_promise_changes_the_address(member: str) -> None:
    network = with_factories("mainnet")
    deposit = make_deposit(chain="eip155:1")
    other = make_deposit(**{"chain": "eip155:1", member: OTHER[member]})
    assert deposit_address(network, deposit) != deposit_address(network, other)


def test_constants_equal_the_compiled_contracts() -> None:
    def code_hash(name: str) -> bytes:
        return keccak(artifact(name, DEPOSIT_ARTIFACTS).bytecode)

    assert bytes.fromhex(FORWARDER_CODE_HASH[2:]) == code_hash("DepositForwarder")
    put = create2_address(DETERMINISTIC_DEPLOYER, bytes(32), code_hash("DepositFactory"))
    assert put == FACTORY


@pytest.mark.parametrize("artifacts", [DEPOSIT_ARTIFACTS, TEST_ARTIFACTS])
def test_artifacts_exist_and_match_their_sources(artifacts: Path) -> None:
    sources = artifacts.parent.glob("*.sol")
    now = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sources}
    compiled: dict[str, str] = {}
    for path in artifacts.glob("*.json"):
        compiled |= json.loads(path.read_text())["sources"]
    assert compiled == now


def test_only_the_devnet_has_a_factory() -> None:
    factories = {
        name: {chain.deposit_factory for chain in load_network(name).evm}
        for name in ("mainnet", "testnet", "devnet")
    }
    assert factories == {"mainnet": {None}, "testnet": {None}, "devnet": {FACTORY}}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"min_received": 0}, "0 of 20000000 cannot be what arrives"),
        ({"min_received": 20_000_001}, "20000001 of 20000000 cannot be what arrives"),
        ({"amount": 0, "min_received": 0}, "0 of 0 cannot be"),
        ({"refund_to": "0x" + "00" * 20}, "needs somebody to refund"),
        ({"operator": "0x" + "00" * 20}, "somebody to move it on"),
        ({"expires_at": 0}, "no time to expire at"),
        ({"expires_at": 2**63}, "no time to expire at"),
        ({"owner": STRANGER[:-1] + "W"}, "is not a Stellar account"),
        ({"owner": load_network("devnet").stellar.oft}, "is not a Stellar account"),
    ],
)
def test_invalid_promise_is_refused(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        make_deposit(**changes)


def test_chain_without_factory_has_no_deposit_addresses() -> None:
    with pytest.raises(ConfigurationError, match="eip155:1 has no deposit_factory"):
        deposit_address(load_network("mainnet"), make_deposit(chain="eip155:1"))


def test_factory_of_another_build_is_refused() -> None:
    network = with_factories("devnet")
    object.__setattr__(network.evm[0], "deposit_factory", "0x" + "11" * 20)
    with pytest.raises(ConfigurationError, match="is not this build's"):
        deposit_address(network, make_deposit())


@pytest.mark.parametrize(
    ("network", "changes", "problem"),
    [
        ("mainnet", {"chain": "stellar:pubnet"}, "stellar:pubnet is not an EVM chain"),
        (
            "mainnet",
            {"chain": "eip155:8453", "bridge": "oft"},
            "the OFT does not lead from eip155:8453",
        ),
        (
            "testnet",
            {"chain": "eip155:84532", "bridge": "oft"},
            "the OFT does not lead from eip155:84532 to stellar:testnet",
        ),
    ],
)
def test_deposit_needs_a_bridge(network: str, changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        deposit_address(with_factories(network), make_deposit(**changes))


@pytest.mark.parametrize("max_fee", [-1, 10_001])
def test_burn_above_the_promised_fee_is_not_encoded(max_fee: int) -> None:
    with pytest.raises(ValueError, match="not within the terms"):
        burn_call(
            with_factories("devnet"), make_deposit(), max_fee=BaseUnits(max_fee), min_finality=1000
        )


def test_deposit_of_the_other_bridge_is_refused() -> None:
    network = with_factories("devnet")
    with pytest.raises(ValueError, match="cctp does not carry a deposit of oft"):
        burn_call(network, make_deposit(bridge="oft"), max_fee=BaseUnits(0), min_finality=1000)
    with pytest.raises(ValueError, match="oft does not carry a deposit of cctp"):
        send_call(network, make_deposit())


def test_document_names_contracts_and_has_a_vector() -> None:
    text = DOCUMENT.read_text()
    [first, *_] = vectors()
    addresses = DETERMINISTIC_DEPLOYER, FACTORY, deposit_address(first.network, first.deposit)
    hashes = FORWARDER_CODE_HASH, route_hash(first.network, first.deposit)
    shown = {*map(to_checksum_address, addresses), *map(str, hashes)}
    assert shown <= set(re.findall(r"0x[0-9a-fA-F]+", text))
