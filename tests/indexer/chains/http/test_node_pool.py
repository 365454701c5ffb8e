"""Failover of a node pool: which node answers next, and what has to be checked again."""

import pytest

from indexer.chains.http.node_pool import NodePool, PooledNode
from indexer.errors import IndexerError, NodeBehind, NodeUnavailable, PermanentChainError
from warehouse_schema.identifiers import ChainId


class CountingNode(PooledNode):
    """A node that counts how often its earlier checks were discarded."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.invalidated = 0

    def verify(self) -> None:
        """Healthy."""

    def invalidate(self) -> None:
        """Count."""
        self.invalidated += 1

    def close(self) -> None:
        """Nothing to close."""


ERRORS = [NodeBehind("no such block"), PermanentChainError("no"), NodeUnavailable("gone")]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_failed_node_is_checked_again_before_its_next_answer(error: IndexerError) -> None:
    first, second = CountingNode("a.example"), CountingNode("b.example")
    pool = NodePool(ChainId("eip155:1"), [first, second])

    def ask(node: CountingNode) -> str:
        if node is first:
            raise error
        return node.host

    assert pool.failover(ask) == "b.example"
    assert (first.invalidated > 0, second.invalidated) == (True, 0)
    assert pool.current is second
    assert pool.fan_out(ask) == [("b.example", "b.example")]
