"""Which of several nodes is asked, and when none can be."""

from typing import Any

import pytest

from indexer.errors import NodeUnavailable, RangeTooWide, RetentionGap, WrongChain
from tests.indexer.chains.evm.chain import CHAIN, read, reading
from tests.indexer.chains.evm.fake_node import RpcError, answer_with
from warehouse_schema.identifiers import Height


def test_next_node_is_asked_after_failure(server, spare):
    server.node.respond = answer_with(503)
    with reading(CHAIN, server.url, spare.url) as reader:
        with pytest.raises(NodeUnavailable):
            reader.head()
        assert reader.head().height == 20
        assert spare.node.requests[0] == ["eth_chainId"]


def test_node_of_another_chain_is_dropped_and_others_are_used(server, spare):
    spare.node.answers["eth_chainId"] = lambda _: "0x1"
    server.node.respond = answer_with(503)
    with reading(CHAIN, server.url, spare.url) as reader:
        for _ in range(3):
            with pytest.raises(NodeUnavailable):
                reader.head()
        assert spare.node.requests == [["eth_chainId"]]
        server.node.respond = None
        assert reader.head().height == 20


def test_chain_stops_only_if_every_node_is_of_another_chain(server, spare):
    for each in (server, spare):
        each.node.answers["eth_chainId"] = lambda _: "0x1"
    with reading(CHAIN, server.url, spare.url) as reader, pytest.raises(WrongChain):
        reader.check_identity()


@pytest.mark.parametrize(
    ("words", "kind"), [("pruned history", RetentionGap), ("max block range 0", RangeTooWide)]
)
def test_missing_history_stops_chain_only_if_all_nodes_lack_it(server, spare, words, kind):
    def refuse(_: list[Any]) -> Any:
        raise RpcError(words)

    server.node.answers["eth_getLogs"] = refuse
    with reading(CHAIN, server.url, spare.url) as reader:
        assert read(reader, 5, 5) == []
        spare.node.answers["eth_getLogs"] = refuse
        with pytest.raises(kind):
            read(reader, 5, 5)
        # One that does not answer is no witness that it is gone.
        server.node.respond = answer_with(503)
        for _ in range(2):
            with pytest.raises(NodeUnavailable):
                read(reader, 5, 5)


@pytest.mark.parametrize("method", ["eth_getBlockByNumber", "eth_blockNumber"])
def test_pruned_head_is_read_from_the_next_node(server, spare, method):
    def refuse(_: list[Any]) -> Any:
        raise RpcError("pruned history")

    server.node.answers[method] = refuse
    with reading(CHAIN, server.url, spare.url) as reader:
        head = reader.wait_for_head(Height(3), 1.0)
        assert head is not None
        assert head.height == 20
