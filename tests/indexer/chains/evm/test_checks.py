"""Answers of a node that contradict each other or the query."""

from typing import Any

import pytest

from indexer.chains.evm.abi import TRANSFER_TOPIC
from indexer.errors import InconsistentAnswer, NodeBehind, ReorgDuringRead
from tests.indexer.chains.evm.chain import PAYER, UNWATCHED, USDC, read, word
from tests.indexer.chains.evm.fake_node import Answer, RpcError, fake_block, fake_hash, fake_log
from warehouse_schema.identifiers import Height


def test_valid_response_is_read(node, faulty):
    node.logs = [fake_log(6, 4), fake_log(5, 9), fake_log(5, 2)]
    assert [(log.seen.height, log.seen.position) for log in read(faulty)] == [
        (5, 2),
        (5, 9),
        (6, 4),
    ]


def test_block_is_read_in_one_request(node, faulty):
    faulty.check_identity()
    node.requests.clear()
    read(faulty, 5, 5)
    header, logs = "eth_getBlockByNumber", "eth_getLogs"
    assert node.requests == [[header, logs, logs, header]]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"blockHash": fake_hash(5, fork=1)}, "is of 0x"),
        ({"blockHash": None}, "malformed"),
        ({"removed": True}, "removed"),
        ({"blockNumber": "0x8"}, "outside the range"),
        ({"blockNumber": "0x6"}, "is of 0x"),
        ({"address": USDC}, "not asked for"),
        ({"topics": [TRANSFER_TOPIC]}, "not asked for"),
        ({"topics": []}, "not asked for"),
        ({"topics": ["0x12"]}, "malformed"),
        ({"logIndex": None}, "malformed"),
        ({"logIndex": "nine"}, "malformed"),
        ({"data": "0x123"}, "malformed"),
        ({"transactionHash": "0x77"}, "malformed"),
    ],
)
def test_log_outside_the_range_is_inconsistent(node, faulty, fields, reason):
    log = fake_log(5, **fields)
    node.answers["eth_getLogs"] = lambda _: [log]
    with pytest.raises(InconsistentAnswer, match=reason):
        read(faulty)


def test_repeated_log_index_is_inconsistent(node, faulty):
    node.logs = [fake_log(5, 3), fake_log(5, 3, data="0x55")]
    with pytest.raises(InconsistentAnswer, match="log 3 twice"):
        read(faulty)


def test_transfer_to_unwatched_address_is_inconsistent(node, faulty):
    node.logs = [
        fake_log(5, address=USDC, topics=[TRANSFER_TOPIC, word(PAYER), word(UNWATCHED)]),
    ]
    with pytest.raises(InconsistentAnswer, match="not asked for"):
        read(faulty)


@pytest.mark.parametrize("answer", [None, {}, "0x"])
def test_malformed_log_list_is_inconsistent(node, faulty, answer):
    node.answers["eth_getLogs"] = lambda _: answer
    with pytest.raises(InconsistentAnswer, match="logs came as"):
        read(faulty)


def test_unlinked_headers_are_inconsistent(node, faulty):
    node.blocks[5] = {**fake_block(5), "parentHash": fake_hash(4, fork=1)}
    with pytest.raises(InconsistentAnswer, match="block 5 has parent"):
        read(faulty)


def test_block_of_other_height_is_inconsistent(node, faulty):
    node.answers["eth_getBlockByNumber"] = lambda _: fake_block(6)
    with pytest.raises(InconsistentAnswer, match="block 6 came for block 5"):
        faulty.block(Height(5))


@pytest.mark.parametrize("key", ["number", "hash", "parentHash", "timestamp"])
def test_header_without_a_field_is_inconsistent(node, faulty, key):
    header = {name: value for name, value in fake_block(5).items() if name != key}
    node.answers["eth_getBlockByNumber"] = lambda _: header
    with pytest.raises(InconsistentAnswer, match="malformed"):
        faulty.block(Height(5))


@pytest.mark.parametrize(
    ("key", "value"),
    [("number", hex(2**63)), ("timestamp", hex(253_402_300_800)), ("timestamp", "-0x1")],
)
def test_number_that_no_row_holds_is_inconsistent(node, faulty, key, value):
    node.answers["eth_getBlockByNumber"] = lambda _: {**fake_block(5), key: value}
    with pytest.raises(InconsistentAnswer, match="malformed"):
        faulty.block(Height(5))


def test_replaced_last_block_is_a_reorg(node, faulty):
    """And no contradiction, for which the node would be called a liar (`NodeLying`)."""
    last = [{**fake_block(7), "hash": fake_hash(7, fork=1)}, fake_block(7)]
    node.answers["eth_getBlockByNumber"] = lambda params: (
        last.pop() if params[0] == "0x7" else node.block(params[0])
    )
    node.logs = [fake_log(7, blockHash=fake_hash(7, fork=1))]
    with pytest.raises(ReorgDuringRead, match="replaced while reading"):
        read(faulty)


def test_null_header_is_behind_whatever_the_logs(node, faulty):
    def refuse(_: list[Any]) -> Any:
        raise RpcError("block range is too wide")

    del node.blocks[7:]
    answers: list[Answer] = [refuse, lambda _: []]
    for answer in answers:
        node.answers["eth_getLogs"] = answer
        with pytest.raises(NodeBehind, match="no block 7 yet"):
            read(faulty)
