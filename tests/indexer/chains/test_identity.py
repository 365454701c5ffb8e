"""Nodes of a wrong chain are named with their variable."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from devnet.evm_node import AnvilProcess
from indexer.chains.evm.calls import ContractReader
from indexer.chains.evm.reader import EvmReader
from indexer.chains.ports import ChainReader
from indexer.chains.stellar.accounts import AccountReader
from indexer.chains.stellar.reader import StellarReader
from indexer.config.networks import load_network
from indexer.decode.evm import event_topics
from indexer.errors import WrongChain
from tests.devnet.stellar.chain import Chain, serving
from warehouse_schema.identifiers import ChainId, EvmAddress, StellarAddress

NETWORK = load_network("devnet")
STELLAR, EVM = NETWORK.stellar, NETWORK.evm[0]
ADDRESS = EvmAddress("0x" + "5e" * 20)
ACCOUNT = StellarAddress("GAJCJPVN4353YUXYFS7HYQ35CV2C6CU3OWCIOKFLEZHD4CVDRJU4JRSC")


@pytest.fixture(scope="module")
def evm_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with AnvilProcess(tmp_path_factory.mktemp("anvil") / "anvil.log") as process:
        yield process.rpc_url


@pytest.fixture
def stellar_url() -> Iterator[str]:
    with serving(Chain()) as url:
        yield url


def host(url: str) -> str:
    return url.removeprefix("http://")


def refusal(reader: ChainReader) -> str:
    with pytest.raises(WrongChain) as raised:
        reader.check_identity()
    reader.close()
    return str(raised.value)


def test_evm_node_given_for_stellar_is_named(evm_url: str):
    expected = (
        f"ISTHMUS_RPC_STELLAR_DEVNET names an EVM node: {host(evm_url)} serves eip155:31337, and "
        "stellar:devnet is read from a Stellar RPC node"
    )
    assert refusal(StellarReader(STELLAR, [evm_url])) == expected
    accounts = AccountReader(STELLAR, [evm_url], timeout=20.0)
    with closing(accounts), pytest.raises(WrongChain, match="names an EVM node"):
        accounts.snapshot(ACCOUNT)


def test_stellar_node_given_for_evm_is_named(stellar_url: str):
    expected = (
        f"ISTHMUS_RPC_EIP155_31337 names a Stellar node: {host(stellar_url)} serves "
        f"{STELLAR.passphrase!r}, and eip155:31337 is read from an EVM node"
    )
    assert refusal(EvmReader(EVM, [stellar_url], event_topics)) == expected
    calls = ContractReader(EVM, [stellar_url], timeout=20.0)
    with closing(calls), pytest.raises(WrongChain, match="names a Stellar node"):
        calls.call(ADDRESS, b"")


def test_node_of_another_evm_chain_is_named(evm_url: str):
    ethereum = replace(EVM, id=ChainId("eip155:1"))
    assert refusal(EvmReader(ethereum, [evm_url], event_topics)) == (
        f"ISTHMUS_RPC_EIP155_1: {host(evm_url)} serves eip155:31337, not eip155:1"
    )


def test_node_of_another_stellar_network_is_named(stellar_url: str):
    pubnet = load_network("mainnet").stellar
    assert refusal(StellarReader(pubnet, [stellar_url])) == (
        f"ISTHMUS_RPC_STELLAR_PUBNET: {host(stellar_url)} serves {STELLAR.passphrase!r}, not "
        f"stellar:pubnet's {pubnet.passphrase!r}"
    )
