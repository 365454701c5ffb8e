"""One real node a module; a warehouse, a second one to compare with, and short pauses."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from sqlalchemy import URL, Engine

from devnet.evm_node import AnvilProcess
from tests.factories.emptying import delete_all_rows
from tests.system.faults.proxy import FaultyNode
from tests.system.faults.soak import shorten_pauses
from tests.system.faults.world import Followed, Node
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


@dataclass(frozen=True)
class Warehouse:
    """A database of the module's, emptied before each test: cloning one takes longer than most."""

    owner: Engine
    indexer: Engine

    def empty(self) -> None:
        with self.owner.begin() as conn:
            delete_all_rows(conn)

    def dispose(self) -> None:
        self.owner.dispose()
        self.indexer.dispose()


def _warehouse(url: URL) -> Warehouse:
    return Warehouse(make_engine(url), make_engine(url, role="indexer"))


@pytest.fixture(scope="module")
def warehouses(clone: Callable[[], URL]) -> Iterator[tuple[Warehouse, Warehouse]]:
    """One for what is tested, one for the run without faults."""
    tested, straight = _warehouse(clone()), _warehouse(clone())
    yield tested, straight
    tested.dispose()
    straight.dispose()


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten_pauses(monkeypatch)


@pytest.fixture
def world(node: Node, faulty: FaultyNode, warehouses: tuple[Warehouse, Warehouse]) -> Followed:
    """A chain that begins at the node's next block, and nothing stored of it."""
    tested, straight = warehouses
    tested.empty()
    straight.empty()
    return Followed(node, faulty, tested.indexer, straight.indexer, tested.owner)
