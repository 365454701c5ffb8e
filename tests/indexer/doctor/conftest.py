"""A local EVM chain and a local Stellar chain with everything deployed, and the doctor on them."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from devnet import circle
from devnet.evm import EvmDevnet, dev_account
from devnet.evm_deployment import deploy
from devnet.evm_node import AnvilProcess
from devnet.stellar.genesis import Genesis
from devnet.stellar.node import Node
from devnet.world import remotes_of_evm, remotes_of_stellar
from indexer.config.networks import Network, load_network
from indexer.config.settings import Settings
from indexer.doctor.checks import CheckResult, DoctorContext
from indexer.doctor.run import GROUPS, run_groups
from tests.devnet.stellar.chain import Chain, serving
from tests.system.faults.proxy import FaultyNode
from warehouse_schema.identifiers import ChainId

NETWORK = load_network("devnet")
STELLAR, EVM = NETWORK.stellar.id, NETWORK.evm[0].id


@dataclass
class Surroundings:
    """What a configuration of the devnet names: two chains and Circle's service."""

    evm: EvmDevnet
    evm_node: FaultyNode
    stellar: Chain
    stellar_url: str
    iris_url: str
    home: Path
    network: Network = field(init=False)

    def __post_init__(self) -> None:
        self.network = replace(NETWORK, iris=self.iris_url)

    def settings(
        self,
        network: Network | None = None,
        *,
        evm: Sequence[str] = (),
        stellar: Sequence[str] = (),
    ) -> Settings:
        """Settings with these nodes in the place of the good ones."""
        nodes: dict[ChainId, tuple[str, ...]] = {
            STELLAR: tuple(stellar) or (self.stellar_url,),
            EVM: tuple(evm) or (self.evm_node.url, self.evm_node.ws_url),
        }
        return Settings(network or self.network, self.home, None, nodes)

    def findings(self, settings: Settings | None = None, *only: str) -> list[CheckResult]:
        """Findings of these groups, or of those that ask chains."""
        context = DoctorContext(settings or self.settings())
        names = only or ("nodes", "contracts")
        found = run_groups(context, [name for name in names if name in GROUPS])
        return [result for _, result in found if result.is_finding]


def found(results: Sequence[CheckResult]) -> list[tuple[str, str]]:
    """Check and subject of each finding."""
    return [(result.check, result.subject) for result in results]


@pytest.fixture(scope="module")
def surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Surroundings]:
    folder = tmp_path_factory.mktemp("surroundings")
    with ExitStack() as stack:
        process = stack.enter_context(AnvilProcess(folder / "anvil.log"))
        evm = stack.enter_context(closing(deploy(process.rpc_url, remotes_of_evm())))
        evm.faucet_usdt0(dev_account(1).address, 10**12)
        evm.rpc("anvil_mine", "0x50")
        chain = Chain(node=Node(Genesis(remotes_of_stellar())))
        for _ in range(12):
            chain.node.close_ledger()
        evm_node = stack.enter_context(closing(FaultyNode(process.rpc_url, process.ws_url)))
        yield Surroundings(
            evm,
            evm_node,
            chain,
            stack.enter_context(serving(chain)),
            stack.enter_context(circle.serving(attestations=circle.Attestations({}))),
            folder,
        )


@pytest.fixture
def around(surroundings: Surroundings) -> Iterator[Surroundings]:
    """The module's surroundings with new blocks, without faults before and after the test."""
    surroundings.evm.rpc("evm_mine")
    surroundings.stellar.node.close_ledger()
    yield surroundings
    surroundings.evm_node.heal()
