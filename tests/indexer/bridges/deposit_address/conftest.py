"""A local chain with the bridges and the factory on it, and what people do there."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from eth_abi.abi import encode
from eth_account.signers.local import LocalAccount

from devnet.evm import EvmDevnet, dev_account
from devnet.evm_deployment import deploy
from devnet.evm_node import AnvilProcess, artifact
from devnet.evm_sending import Receipt
from devnet.world import remotes_of_evm
from indexer.bridges.deposit_address.factory import Deposit, FactoryCall, deposit_address
from indexer.config.networks import Network, load_network
from tests.factories.deposits import make_deposit
from warehouse_schema.identifiers import EvmAddress, UnixSeconds

TEST_ARTIFACTS = Path(__file__).parents[3] / "contracts" / "artifacts"
PAYER, OPERATOR, MALLORY = dev_account(1), dev_account(3), dev_account(4)


@dataclass(frozen=True)
class Stand:
    """The chain, and the network file that describes it."""

    devnet: EvmDevnet
    network: Network

    @property
    def usdc(self) -> EvmAddress:
        return EvmAddress(self.devnet.addresses.usdc)

    @property
    def usdt0(self) -> EvmAddress:
        return EvmAddress(self.devnet.addresses.usdt0)

    def now(self) -> UnixSeconds:
        """The time of the last block."""
        block = self.devnet.rpc("eth_getBlockByNumber", "latest", False)
        return UnixSeconds(int(block["timestamp"], 16))

    def deposit(self, **changes: Any) -> Deposit:
        """One that expires in half an hour, on terms that are in the factory's defaults."""
        return make_deposit(**({"expires_at": self.now() + 1800} | changes))

    def released(self, **changes: Any) -> Deposit:
        """One that anybody may have refunded."""
        return make_deposit(**({"expires_at": self.now() - 86_400} | changes))

    def address(self, deposit: Deposit) -> EvmAddress:
        return deposit_address(self.network, deposit)

    def pay(self, deposit: Deposit, amount: int | None = None) -> EvmAddress:
        """Its own token, from nowhere; the whole amount unless told otherwise."""
        at, paid = self.address(deposit), deposit.amount if amount is None else amount
        faucet = self.devnet.faucet_usdc if deposit.bridge == "cctp" else self.devnet.faucet_usdt0
        faucet(at, paid)
        return at

    def send(self, account: LocalAccount, call: FactoryCall, *, value: int = 0) -> Receipt:
        """Raises `Reverted`."""
        return self.devnet.send(account, call.to, call.data, value=value)

    def make(self, name: str, types: tuple[str, ...] = (), *arguments: Any) -> EvmAddress:
        """Put a contract of tests/contracts on the chain."""
        code = artifact(name, TEST_ARTIFACTS).bytecode + encode(types, arguments)
        mined = self.devnet.wait(self.devnet.submit(MALLORY, None, code))
        receipt = self.devnet.rpc("eth_getTransactionReceipt", mined.transaction_hash)
        return EvmAddress(receipt["contractAddress"])

    def native(self, account: str) -> int:
        """Wei."""
        return int(self.devnet.rpc("eth_getBalance", account, "latest"), 16)

    def code(self, account: str) -> str:
        code: str = self.devnet.rpc("eth_getCode", account, "latest")
        return code

    def with_chain(self, **changes: Any) -> Network:
        """The network file, with something else in it of this chain."""
        return replace(self.network, evm=(replace(self.network.evm[0], **changes),))


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    log_file = tmp_path_factory.mktemp("deposits") / "anvil.log"
    with AnvilProcess(log_file=log_file) as anvil, deploy(anvil.rpc_url, remotes_of_evm()) as evm:
        yield Stand(evm, load_network("devnet"))


@pytest.fixture
def stand(chain: Stand) -> Iterator[Stand]:
    """The chain as it was when it began, for each test."""
    snapshot = chain.devnet.rpc("evm_snapshot")
    yield chain
    chain.devnet.rpc("evm_revert", snapshot)
