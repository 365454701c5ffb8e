"""Errors of a node, by what its words, its status or its silence mean."""

import json
import threading
from typing import Any

import pytest

from indexer.chains.evm.reader import EvmReader
from indexer.decode.evm import event_topics
from indexer.errors import (
    ConfigurationError,
    InconsistentAnswer,
    IndexerError,
    NodeBehind,
    NodeUnavailable,
    RangeTooWide,
    RetentionGap,
)
from tests.indexer.chains.evm.chain import CHAIN, read, reading
from tests.indexer.chains.evm.fake_node import FakeNode, RpcError, answer_with, fake_log

KINDS_OF_MESSAGES = [
    ("unknown block", NodeBehind),
    ("header not found", NodeBehind),
    ("BlockOutOfRangeError: block height is 0 but requested was 5", NodeBehind),
    ("block range extends beyond current head block", NodeBehind),
    ("One of the blocks specified in filter cannot be found.", NodeBehind),
    ("cannot query unfinalized data", NodeBehind),
    ("requested from=5 after last accepted block 4", NodeBehind),
    ("invalid block height: 99", NodeBehind),
    ("query returned more than 10000 results", RangeTooWide),
    ("query exceeds max results 20000, retry with the range 1-9", RangeTooWide),
    ("query exceeds max block range 1000", RangeTooWide),
    ("eth_getLogs is limited to a 10,000 range", RangeTooWide),
    ("eth_getLogs range is too large, max is 10k blocks", RangeTooWide),
    ("requested too many blocks from 1 to 9000, maximum is set to 2048", RangeTooWide),
    ("Log response size exceeded. this block range should work: [0x1, 0x2]", RangeTooWide),
    ("You can make requests with up to a 10 block range.", RangeTooWide),
    ("logs matched by query exceeds limit of 10000", RangeTooWide),
    ("exceed maximum block range: 50000", RangeTooWide),
    ("ranges over 10000 blocks are not supported on freetier", RangeTooWide),
    ("Block range limit exceeded.", RangeTooWide),
    ("please limit the query to at most 1000 blocks", RangeTooWide),
    ("backend response too large", RangeTooWide),
    ("query must be smaller than size 1024", RangeTooWide),
    ("maximum [from, to] blocks distance: 1000", RangeTooWide),
    ("query timeout exceeded", RangeTooWide),
    ("daily request count exceeded, request rate limited", NodeUnavailable),
    ("exceeded its compute units per second capacity", NodeUnavailable),
    ("no backend is currently healthy to serve traffic", NodeUnavailable),
    ("Too Many Requests", NodeUnavailable),
    ("an error of another kind", NodeUnavailable),
    ("pruned history unavailable", RetentionGap),
]


def test_error_messages_of_nodes_are_classified(node, faulty, subtests):
    for words, kind in KINDS_OF_MESSAGES:
        with subtests.test(words=words, kind=kind):

            def refuse(_: list[Any], words: str = words) -> Any:
                raise RpcError(words)

            node.answers["eth_getLogs"] = refuse
            with pytest.raises(IndexerError) as caught:
                read(faulty)
            assert type(caught.value) is kind
            assert words in str(caught.value)


def test_timeout_on_one_block_is_a_node_error(node, faulty):
    def refuse(_: list[Any]) -> Any:
        raise RpcError("query timeout exceeded")

    node.answers["eth_getLogs"] = refuse
    with pytest.raises(NodeUnavailable):
        read(faulty, 5, 5)


def test_exact_round_number_of_logs_may_be_cut(node, faulty):
    node.logs = [fake_log(5, i) for i in range(1_000)]
    with pytest.raises(RangeTooWide, match="exactly 1000"):
        read(faulty)
    assert len(read(faulty, 5, 5)) == 1_000


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (429, NodeUnavailable),
        (403, NodeUnavailable),
        (500, NodeUnavailable),
        (502, NodeUnavailable),
        (413, RangeTooWide),
    ],
)
def test_http_errors_are_classified(node, faulty, status, kind):
    node.respond = answer_with(status, b"no")
    with pytest.raises(IndexerError, match=f"HTTP {status}") as caught:
        faulty.head()
    assert type(caught.value) is kind


def test_http_400_is_classified_by_its_message(node, faulty):
    body = json.dumps({"error": {"code": -32600, "message": "block range is too wide"}}).encode()
    node.respond = answer_with(400, body)
    with pytest.raises(RangeTooWide):
        faulty.head()


@pytest.mark.parametrize(
    ("header", "seconds"), [("7", 7.0), ("Wed, 21 Oct 2026 07:28:00 GMT", None)]
)
def test_retry_after_of_the_node_is_used(node, faulty, header, seconds):
    node.respond = answer_with(429, b"", retry_after=header)
    with pytest.raises(NodeUnavailable) as caught:
        faulty.head()
    assert caught.value.retry_after == seconds


@pytest.mark.parametrize(
    "body",
    [
        b'[{"jsonrpc": "2.0", "id": 0, "result": "0x7a',
        b"",
        b"<html>",
        b"null",
        b"[]",
        b"[null]",
        b'[{"jsonrpc": "2.0", "id": 9, "result": "0x7a69"}]',
        b'[{"jsonrpc": "2.0", "id": 0}]',
        b'[{"id": 0, "result": 1}, {"id": 0, "result": 2}]',
        b'[{"id": 0, "result": {}}]',
        b'[{"id": 0, "result": "thirty"}]',
    ],
)
def test_truncated_or_malformed_response_is_inconsistent(node, faulty, body):
    node.respond = answer_with(200, body)
    with pytest.raises(InconsistentAnswer):
        faulty.check_identity()


def test_one_error_for_a_whole_batch_is_classified(node, faulty):
    error = {"code": -32005, "message": "response is too large"}
    faulty.check_identity()
    node.respond = answer_with(200, json.dumps({"id": None, "error": error}).encode())
    with pytest.raises(RangeTooWide):
        read(faulty)


BATCH_REFUSAL = {"code": -32005, "message": "batch of calls is too large"}


@pytest.mark.parametrize("most", [1, 2, 3, 5])
@pytest.mark.parametrize(
    "refusal",
    [
        lambda _: (200, {"id": None, "error": BATCH_REFUSAL}),
        lambda _: (200, [{"id": None, "error": BATCH_REFUSAL}]),
        lambda calls: (200, [{"id": call["id"], "error": BATCH_REFUSAL} for call in calls]),
        lambda _: (400, {"error": BATCH_REFUSAL}),
    ],
    ids=["once for all", "in a list of one", "of every call", "with a status"],
)
def test_node_that_refuses_batches_gets_smaller_ones(node, faulty, most, refusal):
    refused = []
    node.logs = [fake_log(5)]

    def respond(request: bytes) -> tuple[int, dict[str, str], bytes]:
        calls = json.loads(request)
        # Who takes no batches takes none of a single call.
        if isinstance(calls, list) and (len(calls) > most or most == 1):
            refused.append(len(calls))
            status, body = refusal(calls)
            return status, {}, json.dumps(body).encode()
        node.respond = None
        try:
            return node.response(request)
        finally:
            node.respond = respond

    node.respond = respond
    assert [log.seen.height for log in read(faulty)] == [5]
    assert refused != []
    refused.clear()
    assert [log.seen.height for log in read(faulty)] == [5]
    assert refused == []


def test_node_that_refuses_batches_of_one_is_unavailable(node, faulty):
    faulty.check_identity()
    node.respond = answer_with(200, json.dumps({"id": None, "error": BATCH_REFUSAL}).encode())
    with pytest.raises(NodeUnavailable, match="batch of calls"):
        read(faulty, 5, 5)


def test_unbatched_call_error_for_unknown_tag_is_no_finality(node, faulty):
    faulty.check_identity()
    node.respond = lambda request: (
        (400, {}, json.dumps({"error": BATCH_REFUSAL}).encode())
        if request.startswith(b"[")
        else FakeNode.response(unhindered, request)
    )
    unhindered = FakeNode()

    def unknown_tag(params: list[Any]) -> Any:
        if params[0] in ("safe", "finalized"):
            raise RpcError("invalid argument 0: hex string without 0x prefix", -32602)
        return unhindered.block(params[0])

    unhindered.answers["eth_getBlockByNumber"] = unknown_tag
    assert read(faulty) == []
    assert faulty.finality() is None
    faulty.check_identity()
    assert faulty.finality() is None


def test_broken_connection_is_unavailable(node, faulty):
    node.respond = answer_with(200, b"[]", content_length="1000")
    with pytest.raises(NodeUnavailable):
        faulty.head()


def test_connection_broken_once_is_reopened(node, faulty):
    def once(request: bytes) -> tuple[int, dict[str, str], bytes]:
        node.respond = None
        return 200, {"content-length": "1000"}, b"["

    node.respond = once
    assert faulty.head().height == 20


def test_hanging_node_is_unavailable_and_its_range_too_wide(server, node):
    release = threading.Event()

    def hang(_: list[Any]) -> Any:
        release.wait(20)
        return []

    node.answers["eth_getLogs"] = hang
    with reading(CHAIN, server.url, timeout=0.5) as reader:
        with pytest.raises(RangeTooWide):
            read(reader)
        with pytest.raises(NodeUnavailable):
            read(reader, 5, 5)
    release.set()


def test_missing_node_is_unavailable():
    with reading(CHAIN, "http://127.0.0.1:9") as reader, pytest.raises(NodeUnavailable):
        reader.head()


def test_error_messages_hide_the_key_in_a_url(node, faulty):
    node.respond = answer_with(500)
    with pytest.raises(NodeUnavailable) as caught:
        faulty.head()
    assert "127.0.0.1" in str(caught.value)
    assert "secret-key" not in str(caught.value)


@pytest.mark.parametrize("urls", [(), ("ws://127.0.0.1:9",)])
def test_reader_needs_an_http_node(urls):
    with pytest.raises(ConfigurationError, match="http"):
        EvmReader(CHAIN, urls, event_topics)
