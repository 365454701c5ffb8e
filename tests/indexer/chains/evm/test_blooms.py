"""Logs that a node leaves out, which the bloom of their block shows."""

from dataclasses import replace
from typing import Any

import pytest

from indexer.chains.evm.abi import TRANSFER_TOPIC
from indexer.chains.evm.log_filters import MAX_RECIPIENTS
from indexer.errors import InconsistentAnswer
from tests.indexer.chains.evm.chain import (
    CHAIN,
    MESSAGE_SENT,
    PAYER,
    TRANSMITTER,
    UNWATCHED,
    USDC,
    WATCHED,
    address,
    read,
    reading,
    word,
)
from tests.indexer.chains.evm.fake_node import RpcError, bloom_of, fake_hash, fake_log
from warehouse_schema.identifiers import Height


def test_logs_in_bloom_and_receipts_are_missed(node, faulty):
    node.logs = [fake_log(5)]
    node.blocks[5]["logsBloom"] = bloom_of(TRANSMITTER, MESSAGE_SENT)
    assert len(read(faulty)) == 1
    node.answers["eth_getLogs"] = lambda _: []
    with pytest.raises(InconsistentAnswer, match="block 5 has logs of"):
        read(faulty)


def test_missed_transfer_to_watched_address_is_detected(node, faulty):
    topics = [TRANSFER_TOPIC, word(PAYER), word(WATCHED)]
    node.logs = [fake_log(5, address=USDC, topics=topics)]
    node.blocks[5]["logsBloom"] = bloom_of(USDC, *topics)
    node.answers["eth_getLogs"] = lambda _: []
    with pytest.raises(InconsistentAnswer, match="block 5 has logs of"):
        read(faulty)


@pytest.mark.parametrize("is_explained", [False, True], ids=["unexplained", "explained"])
def test_transfer_missed_among_others_of_one_block_is_detected_by_its_recipient(
    node, faulty, is_explained
):
    """The bloom tells, unless the recipient stands in another log of the block."""
    missed = [TRANSFER_TOPIC, word(PAYER), word(WATCHED)]
    other = [TRANSFER_TOPIC, word(WATCHED if is_explained else PAYER), word(UNWATCHED)]
    node.logs = [
        fake_log(5, position, address=USDC, topics=topics)
        for position, topics in enumerate((missed, other))
    ]
    node.blocks[5]["logsBloom"] = bloom_of(USDC, *missed, *other)
    complete = faulty.read(Height(5), Height(5), [WATCHED])
    assert [log.topics[2] for log in complete.events] == [word(WATCHED)]
    assert all("eth_getBlockReceipts" not in calls for calls in node.requests)
    node.answers["eth_getLogs"] = lambda params: node.matching(params[0])[1:]
    if is_explained:
        assert faulty.read(Height(5), Height(5), [WATCHED]).events == ()
    else:
        with pytest.raises(InconsistentAnswer, match="block 5 has logs of"):
            faulty.read(Height(5), Height(5), [WATCHED])


def test_all_transfers_missed_in_one_block_are_detected_for_any_number_watched(node, faulty):
    topics = [TRANSFER_TOPIC, word(PAYER), word(UNWATCHED)]
    node.logs = [fake_log(5, address=USDC, topics=topics)]
    node.blocks[5]["logsBloom"] = bloom_of(USDC, *topics)
    many = [address(number) for number in range(0x5000, 0x5000 + MAX_RECIPIENTS + 1)]
    assert faulty.read(Height(5), Height(5), many).events == ()
    node.answers["eth_getLogs"] = lambda _: []
    with pytest.raises(InconsistentAnswer, match="block 5 has logs of"):
        faulty.read(Height(5), Height(5), many)


def test_node_is_not_told_who_is_watched_at_the_head(node, faulty):
    queries = []
    node.answers["eth_getLogs"] = lambda params: queries.append(params) or []
    faulty.read(Height(5), Height(5), [WATCHED])
    assert str(USDC) in str(queries)
    assert WATCHED[2:] not in str(queries)


def test_incomplete_receipts_do_not_settle_the_bloom(node, faulty):
    node.blocks[5]["logsBloom"] = bloom_of(TRANSMITTER, MESSAGE_SENT)
    with pytest.raises(InconsistentAnswer, match="do not make up its bloom"):
        read(faulty)


@pytest.mark.parametrize("answer", [None, [None], [{}], "0x"])
def test_malformed_receipts_do_not_settle_the_bloom(node, faulty, answer):
    node.blocks[5]["logsBloom"] = bloom_of(TRANSMITTER, MESSAGE_SENT)
    node.answers["eth_getBlockReceipts"] = lambda _: answer
    with pytest.raises(InconsistentAnswer, match="receipts of block 5"):
        read(faulty)


def no_receipts(_: list[Any]) -> Any:
    raise RpcError("the method eth_getBlockReceipts does not exist/is not available", -32601)


def test_logs_by_hash_replace_receipts_with_one_warning(node, faulty, caplog):
    node.answers["eth_getBlockReceipts"] = no_receipts
    requests = []

    def logs(params: list[Any]) -> list[dict[str, Any]]:
        requests.append(params[0])
        return [] if "blockHash" in params[0] else node.matching(params[0])

    node.answers["eth_getLogs"] = logs
    node.blocks[5]["logsBloom"] = bloom_of(TRANSMITTER, MESSAGE_SENT)
    for _ in range(2):
        assert read(faulty) == []
    by_hash = [query for query in requests if "blockHash" in query]
    assert {query["blockHash"] for query in by_hash} == {fake_hash(5)}
    assert any(MESSAGE_SENT in query["topics"][0] for query in by_hash)
    assert all("fromBlock" not in query and query["address"] for query in by_hash)
    assert caplog.text.count("blooms cannot be settled") == 1


def test_logs_by_hash_detect_missed_logs_without_receipts(node, faulty):
    node.answers["eth_getBlockReceipts"] = no_receipts
    node.answers["eth_getLogs"] = lambda params: (
        [fake_log(5)] if "blockHash" in params[0] and TRANSMITTER in params[0]["address"] else []
    )
    node.blocks[5]["logsBloom"] = bloom_of(TRANSMITTER, MESSAGE_SENT)
    with pytest.raises(InconsistentAnswer, match="by its hash"):
        read(faulty)


def test_bloom_of_other_logs_requests_no_receipts(node, faulty):
    node.blocks[5]["logsBloom"] = bloom_of(USDC, TRANSFER_TOPIC, word(PAYER), word(UNWATCHED))
    assert read(faulty) == []
    assert all("eth_getBlockReceipts" not in calls for calls in node.requests)


@pytest.mark.parametrize("bloom", ["0x" + "ff" * 256, "0x" + "f8" * 256])
def test_saturated_bloom_is_no_evidence(node, faulty, bloom):
    node.blocks[5]["logsBloom"] = bloom
    assert read(faulty) == []


def test_unreliable_bloom_is_ignored(server, node):
    node.blocks[5]["logsBloom"] = bloom_of(TRANSMITTER, MESSAGE_SENT)
    with reading(replace(CHAIN, bloom_is_reliable=False), server.url) as reader:
        assert read(reader) == []
