"""Columnar EVM reader against the reader of objects: equal blocks and logs, equal errors."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from eth_utils.crypto import keccak

from indexer.addresses import evm_as_bytes32
from indexer.chains.evm.abi import TRANSFER_TOPIC, topic_of
from indexer.chains.evm.blooms import bloom_of
from indexer.chains.evm.history import (
    LOG_COLUMNS,
    MAX_RESPONSE_BYTES,
    EvmColumns,
    EvmHistory,
    logs_from_frame,
)
from indexer.chains.evm.log_filters import MAX_RECIPIENTS
from indexer.chains.evm.reader import EvmReader
from indexer.config.networks import EvmChain
from indexer.decode.evm import event_topics
from indexer.errors import (
    InconsistentAnswer,
    IndexerError,
    NodeBehind,
    NodeUnavailable,
    RangeTooWide,
    WrongChain,
)
from tests.indexer.chains.evm.chain import CHAIN, WATCHED, address
from tests.system.replay.serving import Refused, serving
from warehouse_schema.identifiers import EvmAddress, Height

OFT_SENT = topic_of("OFTSent(bytes32,uint32,address,uint256,uint256)")
LAST = 12


def block_hash(height: int, fork: str = "") -> str:
    return "0x" + keccak(text=f"block {height} {fork}").hex()


def word(value: int) -> str:
    return f"0x{value:064x}"


@dataclass
class FakeNode:
    """Blocks 0 to `LAST`; each even one has an OFT send, each third a transfer to the watched."""

    chain_id: int = CHAIN.number
    last: int = LAST
    spoil: Callable[[list[Any]], Any] = lambda logs: logs
    """What becomes of the logs before they are sent."""
    spoil_header: Callable[[dict[str, Any]], Any] = lambda header: header
    replaced_after_logs: bool = False
    lists_transactions: bool = True
    requests: list[str] = field(default_factory=list)

    def call(self, method: str, params: Any) -> Any:
        self.requests.append(method)
        methods: dict[str, Callable[..., Any]] = {
            "eth_chainId": lambda: hex(self.chain_id),
            "eth_getBlockByNumber": self.block,
            "eth_getLogs": self.logs,
            "eth_getBlockReceipts": lambda _: [],
        }
        return methods[method](*params)

    def block(self, number: str, _full: bool) -> Any:
        height = int(number, 16)
        if height > self.last:
            return None
        fork = "other" if self.replaced_after_logs and "eth_getLogs" in self.requests else ""
        header: dict[str, Any] = {
            "number": number,
            "hash": block_hash(height, fork),
            "parentHash": block_hash(height - 1, fork),
            "timestamp": hex(1_700_000_000 + height),
            "logsBloom": "0x" + "00" * 256,
        }
        if self.lists_transactions:
            header["transactions"] = [word(0xF00D), word(0xC0DE + height)]
        return self.spoil_header(header)

    def logs(self, wanted: dict[str, Any]) -> Any:
        first, last = int(wanted["fromBlock"], 16), int(wanted["toBlock"], 16)
        found = [
            log
            for height in range(first, min(last, self.last) + 1)
            for log in self.logs_in(height)
            if log["address"] in wanted["address"] and log["topics"][0] in wanted["topics"][0]
        ]
        return self.spoil(found)

    def logs_in(self, height: int) -> Iterator[dict[str, Any]]:
        if height % 2 == 0:
            topics = [OFT_SENT, word(height), word(0xA1)]
            yield self.log(height, 1, str(CHAIN.oft), topics, word(1) + word(2)[2:] + word(3)[2:])
        if height % 3 == 0:
            recipient = evm_as_bytes32(EvmAddress(WATCHED))
            topics = [TRANSFER_TOPIC, word(0xB2), recipient]
            yield self.log(height, 0, str(CHAIN.usdc), topics, word(height))

    def log(
        self, height: int, index: int, emitter: str, topics: list[str], data: str
    ) -> dict[str, Any]:
        return {
            "address": emitter,
            "topics": topics,
            "data": data,
            "blockNumber": hex(height),
            "blockHash": block_hash(height),
            "transactionHash": word(0xC0DE + height),
            "transactionIndex": "0x1",
            "logIndex": hex(index),
            "removed": False,
        }


def read(
    node: FakeNode,
    first: int = 1,
    last: int = LAST,
    chain: EvmChain = CHAIN,
    max_bytes: int = MAX_RESPONSE_BYTES,
) -> EvmColumns:
    with serving(node) as url:
        history = EvmHistory(chain, [url], event_topics, timeout=5.0, max_bytes=max_bytes)
        try:
            return history.read_columns(Height(first), Height(last), [WATCHED])
        finally:
            history.close()


def changing(number: int, **fields: Any) -> Callable[[list[Any]], Any]:
    """Replace fields of the n-th log of every answer that has so many; None takes one away."""

    def spoil(logs: list[Any]) -> Any:
        if len(logs) > number:
            logs[number] = {**logs[number], **fields}
            for name in [name for name, value in fields.items() if value is ...]:
                del logs[number][name]
        return logs

    return spoil


# In order


def test_columns_equal_the_reader():
    node = FakeNode()
    with serving(node) as url:
        reader = EvmReader(CHAIN, [url], event_topics, timeout=30.0)
        history = EvmHistory.for_reader(reader)
        objects = reader.read(Height(1), Height(LAST), [WATCHED])
        columns = history.read_columns(Height(1), Height(LAST), [WATCHED])
        limits = {node.max_bytes for node in history.nodes.nodes}
        reader.close()
        history.close()
    assert limits == {MAX_RESPONSE_BYTES}
    assert columns.blocks == objects.blocks
    assert tuple(logs_from_frame(columns.logs, CHAIN.id)) == objects.events
    assert columns.logs.height == 6 + 4
    assert columns.logs.schema == LOG_COLUMNS


@pytest.mark.parametrize("is_watched", [True, False])
def test_columns_of_many_recipients_equal_the_reader(is_watched):
    watched = [address(number) for number in range(0x5000, 0x5000 + MAX_RECIPIENTS + 1)]
    watched += [WATCHED] if is_watched else []
    with serving(FakeNode()) as url:
        reader = EvmReader(CHAIN, [url], event_topics, timeout=30.0)
        history = EvmHistory.for_reader(reader)
        objects = reader.read(Height(1), Height(LAST), watched)
        columns = history.read_columns(Height(1), Height(LAST), watched)
        reader.close()
        history.close()
    assert tuple(logs_from_frame(columns.logs, CHAIN.id)) == objects.events
    assert columns.logs.height == (6 + 4 if is_watched else 6)


def test_range_without_logs_is_an_empty_frame():
    columns = read(FakeNode(), 1, 1)
    assert [block.height for block in columns.blocks] == [1]
    assert columns.logs.height == 0
    assert columns.logs.schema == LOG_COLUMNS


def test_range_of_many_header_batches_is_joined():
    columns = read(FakeNode(last=450), 1, 450)
    assert [block.height for block in columns.blocks] == list(range(1, 451))
    assert columns.logs.height == 225 + 150


def test_uppercase_hex_gives_equal_columns():
    def capitals(logs: list[Any]) -> Any:
        for log in logs:
            log["topics"] = ["0x" + topic[2:].upper() for topic in log["topics"]]
            log["address"] = "0x" + log["address"][2:].upper()
            log["data"] = "0x" + log["data"][2:].upper()
            log["blockHash"] = "0x" + log["blockHash"][2:].upper()
        return logs

    assert read(FakeNode(spoil=capitals)).logs.equals(read(FakeNode()).logs)


def test_log_without_removed_field_is_kept():
    assert read(FakeNode(spoil=changing(0, removed=...))).logs.equals(read(FakeNode()).logs)


# Refused


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"removed": True}, "is marked removed"),
        ({"blockHash": block_hash(6, "other")}, "is of another block"),
        ({"blockNumber": hex(LAST + 1)}, "lies outside the range"),
        ({"blockNumber": "0x0"}, "lies outside the range"),
        ({"address": address(0x2001)}, "was not asked for"),
        ({"topics": [topic_of("Other()"), word(1), word(2)]}, "was not asked for"),
        ({"topics": []}, "was not asked for"),
        ({"blockNumber": ...}, "malformed"),
        ({"blockHash": ...}, "malformed"),
        ({"transactionHash": "0x12"}, "malformed"),
        ({"transactionHash": None}, "malformed"),
        ({"transactionHash": word(0xF00D)}, "another transaction"),
        ({"transactionIndex": "0x0"}, "another transaction"),
        ({"transactionIndex": "0x2"}, "another transaction"),
        # There the next block's first transaction would stand.
        ({"transactionIndex": "0x2", "transactionHash": word(0xF00D)}, "another transaction"),
        ({"transactionIndex": "first"}, "malformed"),
        ({"logIndex": "0x"}, "malformed"),
        ({"logIndex": "-0x1"}, "malformed"),
        ({"logIndex": "0x" + "f" * 16}, "malformed"),
        ({"logIndex": 1}, "malformed"),
        ({"data": "0x0"}, "malformed"),
        ({"data": "0xzz"}, "malformed"),
        ({"data": None}, "malformed"),
        ({"topics": [OFT_SENT, "0x12"]}, "malformed"),
        ({"topics": [OFT_SENT, None]}, "malformed"),
        ({"topics": None}, "malformed"),
        ({"topics": "0x12"}, "malformed"),
        ({"removed": "false"}, "malformed"),
        ({"address": {"of": "a contract"}}, "malformed"),
    ],
)
def test_unordered_log_is_refused(fields: dict[str, Any], message: str):
    with pytest.raises(InconsistentAnswer, match=message):
        read(FakeNode(spoil=changing(1, **fields)))


def test_transfer_to_unwatched_address_is_refused():
    def elsewhere(logs: list[Any]) -> Any:
        return [
            {**log, "topics": [*log["topics"][:2], word(0xD4)]}
            if log["topics"][0] == TRANSFER_TOPIC
            else log
            for log in logs
        ]

    with pytest.raises(InconsistentAnswer, match="was not asked for"):
        read(FakeNode(spoil=elsewhere))


@pytest.mark.parametrize("logs", [[None], [5], ["x"], [[]], {}, "0x", None, 7, [{}]])
def test_malformed_log_list_is_refused(logs: Any):
    with pytest.raises(InconsistentAnswer):
        read(FakeNode(spoil=lambda _: logs))


def test_repeated_log_is_refused():
    with pytest.raises(InconsistentAnswer, match="came twice"):
        read(FakeNode(spoil=lambda logs: [*logs, *logs[:1]]))


def test_unlinked_headers_are_refused():
    def cut(header: dict[str, Any]) -> dict[str, Any]:
        return {**header, "parentHash": word(7)} if header["number"] == "0x5" else header

    with pytest.raises(InconsistentAnswer, match="block 5 has parent"):
        read(FakeNode(spoil_header=cut))


def test_block_replaced_during_log_read_is_refused():
    with pytest.raises(InconsistentAnswer, match="replaced while reading"):
        read(FakeNode(replaced_after_logs=True))


def bloom_with(*items: str) -> Callable[[dict[str, Any]], Any]:
    """Give every block a bloom of these items."""
    return lambda header: {**header, "logsBloom": f"0x{bloom_of(items):0512x}"}


def test_logs_missing_for_a_block_bloom_are_refused():
    node = FakeNode(spoil_header=bloom_with(str(CHAIN.oft), OFT_SENT), spoil=lambda _: [])
    with pytest.raises(InconsistentAnswer, match="receipts of block 1 "):
        read(node)


def test_log_missing_in_the_bloom_is_refused():
    with pytest.raises(InconsistentAnswer, match="block 2 has logs that are not in its bloom"):
        read(FakeNode(spoil_header=bloom_with(str(CHAIN.oft))))


def test_unreliable_blooms_are_ignored():
    chain = replace(CHAIN, bloom_is_reliable=False)
    columns = read(FakeNode(spoil_header=bloom_with(str(CHAIN.oft))), chain=chain)
    assert columns.logs.equals(read(FakeNode()).logs)


def test_header_without_transactions_skips_the_index_check():
    node = FakeNode(lists_transactions=False, spoil=changing(1, transactionIndex="0x7"))
    assert read(node).logs.equals(read(FakeNode()).logs)


def test_lagging_node_is_behind():
    with pytest.raises(NodeBehind):
        read(FakeNode(), 1, LAST + 1)


def test_node_of_another_chain_is_refused():
    with pytest.raises(WrongChain):
        read(FakeNode(chain_id=1))


def test_failover_skips_a_node_of_another_chain():
    with serving(FakeNode(chain_id=1)) as wrong, serving(FakeNode()) as right:
        history = EvmHistory(CHAIN, [wrong, right], event_topics, timeout=5.0)
        columns = history.read_columns(Height(1), Height(LAST), [WATCHED])
        history.close()
    assert columns.logs.height == 10


# Too wide


def test_round_number_of_logs_may_be_cut():
    node = FakeNode(last=2_000)
    with pytest.raises(RangeTooWide, match="exactly 1000 logs"):
        read(node, 1, 2_000)


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("query returned more than 10000 results", RangeTooWide),
        ("rate limit [of 5] exceeded", NodeUnavailable),
        ("unknown block", NodeBehind),
    ],
)
def test_log_errors_are_classified(words: str, kind: type[IndexerError]):
    def refuse(_: list[Any]) -> Any:
        raise Refused(-32005, words)

    with pytest.raises(kind, match="eth_getLogs"):
        read(FakeNode(spoil=refuse))


def test_response_over_the_limit_is_too_wide():
    with pytest.raises(RangeTooWide, match=r"blocks 1 to 12: .* over 2000 bytes"):
        read(FakeNode(), max_bytes=2_000)
    assert read(FakeNode(), 2, 2, max_bytes=2_000).logs.height == 1
