"""One real node a module; a warehouse, a second one to compare with, and short pauses."""

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import URL, Engine

from indexer import drain
from indexer.devnet.evm_node import AnvilProcess
from tests.faults.proxy import FaultyNode
from tests.faults.world import Followed, Node
from warehouse_schema.engine import make_engine


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A real node, at some height."""
    with AnvilProcess(tmp_path_factory.mktemp("anvil") / "anvil.log") as process:
        node = Node(process)
        node.story(2)
        yield node
        node.rpc.close()


@pytest.fixture(scope="module")
def faulty_node(node: Node) -> Iterator[FaultyNode]:
    faulty = FaultyNode(node.http, node.ws)
    yield faulty
    faulty.close()


@pytest.fixture
def faulty(faulty_node: FaultyNode) -> Iterator[FaultyNode]:
    """The real node behind a proxy that has no faults yet."""
    faulty_node.rng.seed(0)
    yield faulty_node
    faulty_node.heal()


@pytest.fixture
def straight_engine(clone: Callable[[], URL]) -> Iterator[Engine]:
    """Another empty warehouse, for the run without faults."""
    engine = make_engine(clone(), room="indexer")
    yield engine
    engine.dispose()


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Backing off is tested where it is the subject."""
    monkeypatch.setattr(drain, "_FIRST_BACKOFF", 0.001)
    monkeypatch.setattr(drain, "_LONGEST_BACKOFF", 0.02)
    monkeypatch.setattr(drain, "_HEAD_WAIT", 0.1)


@pytest.fixture
def world(
    node: Node, faulty: FaultyNode, indexer_engine: Engine, straight_engine: Engine
) -> Followed:
    """A chain that begins at the node's next block, and nothing stored of it."""
    return Followed(node, faulty, indexer_engine, straight_engine)
