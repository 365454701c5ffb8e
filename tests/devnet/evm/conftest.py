"""The network on a node of its own, as it was for each test."""

from collections.abc import Iterator

import pytest

from devnet.evm import EvmDevnet
from devnet.evm_deployment import deploy
from devnet.evm_node import AnvilProcess
from tests.devnet.evm.stand import ALICE, ONE, REMOTES


@pytest.fixture(scope="session")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EvmDevnet]:
    log_file = tmp_path_factory.mktemp("evm") / "anvil.log"
    with AnvilProcess(log_file=log_file) as anvil, deploy(anvil.rpc_url, REMOTES) as devnet:
        devnet.faucet_usdc(ALICE.address, 1000 * ONE)
        devnet.faucet_usdt0(ALICE.address, 1000 * ONE)
        devnet.approve(ALICE, devnet.addresses.usdc, devnet.addresses.token_messenger, 1000 * ONE)
        yield devnet


@pytest.fixture
def devnet(network: EvmDevnet) -> Iterator[EvmDevnet]:
    snapshot = network.rpc("evm_snapshot")
    yield network
    network.rpc("evm_revert", snapshot)
