"""Nodes and readers of them: anvil, and stand-ins with faults."""

from collections.abc import Iterator

import pytest

from devnet.evm_node import AnvilProcess
from indexer.chains.evm.reader import EvmReader
from tests.indexer.chains.evm.anvil import Anvil
from tests.indexer.chains.evm.chain import CHAIN, reading
from tests.indexer.chains.evm.fake_node import FakeNode, FakeServer, fake_server


@pytest.fixture(scope="module")
def anvil(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Anvil]:
    with AnvilProcess(tmp_path_factory.mktemp("anvil") / "anvil.log") as process:
        node = Anvil(process)
        yield node
        node.rpc.close()


@pytest.fixture
def reader(anvil: Anvil) -> Iterator[EvmReader]:
    with reading(CHAIN, anvil.http) as reader:
        yield reader


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with fake_server() as server:
        yield server


@pytest.fixture
def node(server: FakeServer) -> FakeNode:
    return server.node


@pytest.fixture
def faulty(server: FakeServer) -> Iterator[EvmReader]:
    with reading(CHAIN, server.url) as reader:
        yield reader


@pytest.fixture
def spare() -> Iterator[FakeServer]:
    with fake_server() as server:
        yield server
