"""EVM reader against a real node (anvil) and against a fake node with faults."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from eth_utils.crypto import keccak
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

from devnet.evm_node import AnvilProcess
from devnet.local_http import HOST
from devnet.local_server import Handler, Server, answering
from indexer.chains.evm.abi import TRANSFER_TOPIC, topic_of
from indexer.chains.evm.jsonrpc import MAX_BATCH, JsonRpc
from indexer.chains.evm.log_filters import (
    MAX_RECIPIENTS,
    RECIPIENTS_PER_QUERY,
    transfer_filters,
)
from indexer.chains.evm.reader import EvmReader
from indexer.chains.raw import EvmLog
from indexer.config.networks import EvmChain
from indexer.decode.evm import event_topics
from indexer.errors import (
    ConfigurationError,
    InconsistentAnswer,
    IndexerError,
    NodeBehind,
    NodeUnavailable,
    RangeTooWide,
    ReorgDuringRead,
    RetentionGap,
    WrongChain,
)
from warehouse_schema.identifiers import ChainId, EvmAddress, Height, TxHash

MESSAGE_SENT = topic_of("MessageSent(bytes)")
WATCHED, UNWATCHED = "0x" + "a1" * 20, "0x" + "b2" * 20
PAYER = "0x" + "c3" * 20


def address(number: int) -> EvmAddress:
    return EvmAddress(f"0x{number:040x}")


CHAIN = EvmChain(
    id=ChainId("eip155:31337"),
    name="Test",
    confirmations=3,
    start_height=Height(0),
    rpc=(),
    bloom_is_reliable=True,
    block_seconds=0.5,
    explorer_tx=None,
    cctp_domain=0,
    usdc=address(0x1001),
    cctp_token_messenger=address(0x1002),
    cctp_message_transmitter=address(0x1003),
    lz_eid=30101,
    usdt0=address(0x1004),
    oft=address(0x1005),
    lz_endpoint=address(0x1006),
    watched=(),
)
USDC, TRANSMITTER = str(CHAIN.usdc), str(CHAIN.cctp_message_transmitter)
BYSTANDER = address(0x2001)


def word(value: int | str) -> str:
    digits = f"{value:x}" if isinstance(value, int) else value.removeprefix("0x")
    return "0x" + digits.rjust(64, "0")


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket that is slow to open is waited for."""
    monkeypatch.setattr("indexer.chains.evm.heads._SOCKET_SECONDS", 20.0)


@contextmanager
def reading(chain: EvmChain, *urls: str, timeout: float = 20.0) -> Iterator[EvmReader]:
    reader = EvmReader(chain, urls, event_topics, timeout=timeout)
    try:
        yield reader
    finally:
        reader.close()


# A real node

EMITTER = "0x60603560005260403560203560003560206000a300"
"""Code that emits what it is called with: LOG3 of calldata words 0 to 2, word 3 as data."""


class Anvil:
    """A local node whose token contracts emit any log they are told to."""

    def __init__(self, process: AnvilProcess) -> None:
        self.http, self.ws = process.rpc_url, process.ws_url
        self.rpc = JsonRpc(self.http, timeout=20.0)
        self.account = self.rpc.call("eth_accounts", [])[0]
        for contract in (USDC, TRANSMITTER, BYSTANDER):
            self.rpc.call("anvil_setCode", [contract, EMITTER])

    def mine(self) -> None:
        self.rpc.call("evm_mine", [])

    def emit(self, *logs: tuple[str, str, str, str, int]) -> list[TxHash]:
        """One block with these logs (contract, three topics, data); its transaction hashes."""
        self.rpc.call("evm_setAutomine", [False])
        hashes = [TxHash(self.rpc.call("eth_sendTransaction", [self._call(*log)])) for log in logs]
        self.mine()
        self.rpc.call("evm_setAutomine", [True])
        return hashes

    def _call(self, contract: str, *words: int | str) -> dict[str, str]:
        data = "0x" + "".join(word(each)[2:] for each in words)
        return {"from": self.account, "to": contract, "data": data, "gas": hex(100_000)}


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


def transfer(token: str, recipient: str, amount: int) -> tuple[str, str, str, str, int]:
    return token, TRANSFER_TOPIC, PAYER, recipient, amount


def test_blocks_of_a_range_are_linked(anvil, reader):
    reader.check_identity()
    first = reader.head().height
    for _ in range(3):
        anvil.mine()
    found = reader.read(first, first + 3, [])
    assert [block.height for block in found.blocks] == [first + i for i in range(4)]
    assert found.blocks[-1] == reader.head() == reader.block(Height(first + 3))
    for before, after in zip(found.blocks, found.blocks[1:], strict=False):
        assert after.parent_hash == before.hash
        assert after.time >= before.time


def test_range_over_one_batch_of_calls_is_read(anvil, reader):
    first = reader.head().height
    anvil.rpc.call("anvil_mine", [hex(MAX_BATCH + 20)])
    found = reader.read(first, first + MAX_BATCH + 20, [WATCHED])
    assert len(found.blocks) == MAX_BATCH + 21


def test_only_own_logs_are_returned_in_order(anvil, reader):
    hashes = anvil.emit(
        transfer(USDC, WATCHED, 5),
        transfer(USDC, UNWATCHED, 6),
        transfer(BYSTANDER, WATCHED, 7),
        (TRANSMITTER, MESSAGE_SENT, word(1), word(2), 8),
        (TRANSMITTER, topic_of("Nonsense()"), word(1), word(2), 9),
        transfer(USDC, WATCHED, 10),
    )
    head = reader.head()
    found = reader.read(head.height, head.height, [WATCHED.upper().replace("0X", "0x")])
    assert [(log.address, int.from_bytes(log.data, "big")) for log in found.events] == [
        (USDC, 5),
        (TRANSMITTER, 8),
        (USDC, 10),
    ]
    first, message, _ = found.events
    assert first.topics == (TRANSFER_TOPIC, word(PAYER), word(WATCHED))
    assert (first.seen.position, message.seen.position) == (0, 3)
    assert first.seen.tx_hash == hashes[0]
    assert (first.seen.chain, first.seen.height) == (CHAIN.id, head.height)
    assert (first.seen.block_hash, first.seen.block_time) == (head.hash, head.time)


def test_no_watched_address_gives_no_transfer(anvil, reader):
    anvil.emit(transfer(USDC, WATCHED, 5))
    head = reader.head().height
    assert reader.read(head, head, []).events == ()


def test_addresses_over_one_query_are_all_queried(anvil, reader):
    many = [address(number) for number in range(0x5000, 0x5000 + 1_200)]
    anvil.emit(*(transfer(USDC, each, 1) for each in (many[0], many[600], many[-1])))
    head = reader.head().height
    found = reader.read(head, head, many)
    assert [log.topics[2] for log in found.events] == [word(many[i]) for i in (0, 600, 1_199)]


def test_recipients_over_the_limit_are_filtered_locally(anvil, reader):
    many = [address(number) for number in range(0x5000, 0x5000 + MAX_RECIPIENTS + 1)]
    anvil.emit(*(transfer(USDC, each, 1) for each in (many[0], UNWATCHED, many[-1])))
    head = reader.head().height
    found = reader.read(head, head, many)
    assert [log.topics[2] for log in found.events] == [word(many[0]), word(many[-1])]


def test_queries_stop_growing_with_recipients():
    listed = [address(number) for number in range(0x5000, 0x5000 + MAX_RECIPIENTS)]
    assert len(transfer_filters(CHAIN, [])) == 0
    assert len(transfer_filters(CHAIN, listed)) == MAX_RECIPIENTS / RECIPIENTS_PER_QUERY
    assert len(transfer_filters(CHAIN, None)) == 1


def test_chain_without_contracts_requests_no_logs(anvil):
    empty = replace(
        CHAIN,
        usdc=None,
        cctp_token_messenger=None,
        cctp_message_transmitter=None,
        usdt0=None,
        oft=None,
        lz_endpoint=None,
    )
    anvil.emit(transfer(USDC, WATCHED, 5))
    with reading(empty, anvil.http) as reader:
        head = reader.head().height
        assert reader.read(head, head, [WATCHED]).events == ()


def test_false_positive_bloom_is_settled_by_receipts(anvil, reader):
    # The token and the watched recipient are in the block, not in one log.
    anvil.emit(
        (USDC, topic_of("Approval(address,address,uint256)"), PAYER, UNWATCHED, 1),
        transfer(BYSTANDER, WATCHED, 7),
    )
    head = reader.head().height
    assert reader.read(head, head, [WATCHED]).events == ()


def test_missing_block_is_behind(reader):
    head = reader.head().height
    beyond = Height(head + 1)
    with pytest.raises(NodeBehind):
        reader.block(beyond)
    with pytest.raises(NodeBehind):
        reader.read(beyond, beyond, [WATCHED])
    with pytest.raises(NodeBehind):
        reader.read(head, beyond, [])


def test_node_of_another_chain_is_refused_before_reading(anvil):
    with reading(replace(CHAIN, id=ChainId("eip155:1")), anvil.http) as reader:
        with pytest.raises(WrongChain, match="serves eip155:31337, not eip155:1"):
            reader.check_identity()
        with pytest.raises(WrongChain):
            reader.head()


def test_receipt_has_the_result_of_a_transaction(anvil, reader):
    (sent,) = anvil.emit(transfer(USDC, WATCHED, 5))
    receipt = reader.proven_receipt_from(reader.nodes.current, sent)
    head = reader.head()
    assert receipt is not None
    assert (receipt.tx_hash, receipt.height, receipt.block_hash, receipt.succeeded) == (
        sent,
        head.height,
        head.hash,
        True,
    )
    assert reader.proven_receipt_from(reader.nodes.current, TxHash("0x" + "12" * 32)) is None


# New heads


@pytest.fixture(params=["polling", "socket"])
def waiting(request: pytest.FixtureRequest, anvil: Anvil) -> Iterator[EvmReader]:
    urls = [anvil.http] if request.param == "polling" else [anvil.http, anvil.ws]
    with reading(CHAIN, *urls) as reader:
        yield reader


def later(seconds: float, action: Callable[[], None]) -> threading.Timer:
    timer = threading.Timer(seconds, action)
    timer.start()
    return timer


def test_known_head_is_returned_at_once(anvil, waiting):
    head = waiting.head()
    assert waiting.wait_for_head(Height(head.height - 1), 5.0) == head


def test_no_new_head_is_none(waiting):
    started = time.monotonic()
    assert waiting.wait_for_head(waiting.head().height, 0.1) is None
    assert time.monotonic() - started >= 0.1


def test_new_head_ends_the_wait_and_can_be_read(anvil, waiting):
    for _ in range(3):
        before = waiting.head().height
        mining = later(0.05, anvil.mine)
        head = waiting.wait_for_head(before, 10.0)
        mining.join()
        assert head is not None
        assert head.height == before + 1
        assert waiting.read(head.height, head.height, [WATCHED]).blocks == (head,)


def test_only_the_newest_of_several_heads_is_returned(anvil, waiting):
    before = waiting.head().height
    assert waiting.wait_for_head(before, 0.05) is None
    for _ in range(5):
        anvil.mine()
    head = waiting.wait_for_head(Height(before + 4), 5.0)
    assert head is not None
    assert head.height == before + 5


# A node that misbehaves


class RpcError(Exception):
    """Answer a call with this JSON-RPC error."""

    def __init__(self, message: str, code: int = -32000) -> None:
        super().__init__(message)
        self.answer = {"code": code, "message": message}


Answer = Callable[[list[Any]], Any]


class FakeNode:
    """A node with blocks 0 to 20, each without logs, until a test changes an answer."""

    def __init__(self) -> None:
        self.blocks = [fake_block(number) for number in range(21)]
        self.logs: list[dict[str, Any]] = []
        self.requests: list[list[str]] = []
        self.answers: dict[str, Answer] = {
            "eth_chainId": lambda _: hex(31337),
            "eth_blockNumber": lambda _: self.blocks[-1]["number"],
            "eth_getBlockByNumber": lambda params: self.block(params[0]),
            "eth_getLogs": lambda params: self.matching(params[0]),
            "eth_getBlockReceipts": lambda params: self.receipts(params[0]),
        }
        self.respond: Callable[[bytes], tuple[int, dict[str, str], bytes]] | None = None
        """Replaces the whole HTTP response: status, headers, body."""

    def block(self, tag: str) -> dict[str, Any] | None:
        if tag == "latest":
            return self.blocks[-1]
        return next((block for block in self.blocks if block["number"] == tag), None)

    def matching(self, query: dict[str, Any]) -> list[dict[str, Any]]:
        """Logs that the query is for, all topics aside."""
        wanted = range(int(query["fromBlock"], 16), int(query["toBlock"], 16) + 1)
        return [
            log
            for log in self.logs
            if int(log["blockNumber"], 16) in wanted
            and log["address"] in query["address"]
            and log["topics"][0] in query["topics"][0]
        ]

    def receipts(self, number: str) -> list[dict[str, Any]]:
        return [{"logs": [log for log in self.logs if log["blockNumber"] == number]}]

    def response(self, request: bytes) -> tuple[int, dict[str, str], bytes]:
        if self.respond is not None:
            return self.respond(request)
        payload = json.loads(request)
        if isinstance(payload, dict):
            self.requests.append([payload["method"]])
            return 200, {}, json.dumps(self._reply(payload)).encode()
        calls = payload
        self.requests.append([call["method"] for call in calls])
        # Last first: replies of a batch may come in any order.
        replies = [self._reply(call) for call in reversed(calls)]
        return 200, {}, json.dumps(replies).encode()

    def _reply(self, call: dict[str, Any]) -> dict[str, Any]:
        try:
            outcome = {"result": self.answers[call["method"]](call["params"])}
        except RpcError as error:
            outcome = {"error": error.answer}
        return {"jsonrpc": "2.0", "id": call["id"], **outcome}


def fake_hash(number: int, fork: int = 0) -> str:
    return "0x" + keccak(text=f"{fork}/{number}").hex()


def fake_block(number: int) -> dict[str, Any]:
    return {
        "number": hex(number),
        "hash": fake_hash(number),
        "parentHash": fake_hash(number - 1),
        "timestamp": hex(1_700_000_000 + number),
        "logsBloom": "0x" + "00" * 256,
    }


def fake_log(number: int = 5, position: int = 0, **fields: Any) -> dict[str, Any]:
    return {
        "address": TRANSMITTER,
        "topics": [MESSAGE_SENT],
        "data": "0x1234",
        "blockNumber": hex(number),
        "blockHash": fake_hash(number),
        "transactionHash": "0x" + "77" * 32,
        "transactionIndex": "0x0",
        "logIndex": hex(position),
        "removed": False,
        **fields,
    }


def bloom_of(*items: str) -> str:
    """logsBloom of a block with these addresses and topics (Yellow Paper, 4.3.1)."""
    bloom = bytearray(256)
    for item in items:
        digest = keccak(hexstr=item)
        for i in (0, 2, 4):
            bit = int.from_bytes(digest[i : i + 2], "big") & 2047
            bloom[255 - bit // 8] |= 1 << (bit % 8)
    return "0x" + bloom.hex()


class FakeServer:
    """Serves a `FakeNode` over HTTP, keeping connections as nodes do."""

    def __init__(self) -> None:
        self.node = node = FakeNode()

        class RequestHandler(Handler):
            def do_POST(self) -> None:
                status, headers, body = node.response(self.body())
                self.answer(status, body, headers)
                if "content-length" in headers:
                    self.close_connection = True

        self.http = Server((HOST, 0), RequestHandler)
        self.url = f"http://{HOST}:{self.http.server_port}/v3/secret-key"


@contextmanager
def fake_server() -> Iterator[FakeServer]:
    server = FakeServer()
    with answering(server.http):
        yield server


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


def read(reader: EvmReader, first: int = 3, last: int = 7) -> list[EvmLog]:
    found = reader.read(Height(first), Height(last), [WATCHED])
    assert [block.height for block in found.blocks] == list(range(first, last + 1))
    return [event for event in found.events if isinstance(event, EvmLog)]


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


# Blooms


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


# What nodes say


THE_WORDS_OF_NODES_ARE_SORTED = [
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
    ("something nobody has heard of", NodeUnavailable),
    ("pruned history unavailable", RetentionGap),
]


def test_error_messages_of_nodes_are_classified(node, faulty, subtests):
    for words, kind in THE_WORDS_OF_NODES_ARE_SORTED:
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


def answer_with(
    status: int, body: bytes = b"", **headers: str
) -> Callable[[bytes], tuple[int, dict[str, str], bytes]]:
    return lambda _: (status, {k.replace("_", "-"): v for k, v in headers.items()}, body)


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


# Several nodes


@pytest.fixture
def spare() -> Iterator[FakeServer]:
    with fake_server() as server:
        yield server


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


# Sockets


class FakePusher:
    """A WebSocket that accepts a subscription and then does what a test says."""

    def __init__(self, *, says: str = '{"jsonrpc":"2.0","id":1,"result":"0xcd"}') -> None:
        self.says = says
        self.subscriptions = 0
        self.subscribed = threading.Event()
        self._sockets: list[ServerConnection] = []
        self._server = serve(self._accept, "127.0.0.1", 0)
        self.url = f"ws://127.0.0.1:{self._server.socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def _accept(self, socket: ServerConnection) -> None:
        assert json.loads(socket.recv())["params"] == ["newHeads"]
        # Before the answer: who has it asks at once what became of the subscription.
        self.subscriptions += 1
        self._sockets.append(socket)
        socket.send(self.says)
        self.subscribed.set()
        try:
            socket.recv()
        except ConnectionClosed:
            return

    def push(self, block: dict[str, Any]) -> None:
        params = {"subscription": "0xcd", "result": block}
        message = {"jsonrpc": "2.0", "method": "eth_subscription", "params": params}
        self._sockets[-1].send(json.dumps(message))

    def drop(self) -> None:
        self.subscribed.clear()
        self._sockets[-1].close()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()


@pytest.fixture
def pusher() -> Iterator[FakePusher]:
    pusher = FakePusher()
    yield pusher
    pusher.close()


def test_pushed_head_may_be_ahead_of_readable_blocks(server, pusher):
    with reading(CHAIN, server.url, pusher.url) as reader:
        assert reader.wait_for_head(Height(20), 0.05) is None
        pusher.push(fake_block(21))
        head = reader.wait_for_head(Height(20), 5.0)
        assert head is not None
        assert head.hash == fake_hash(21)
        with pytest.raises(NodeBehind):
            read(reader, 21, 21)


def test_lost_socket_is_reopened_and_missed_heads_are_found(server, node, pusher):
    with reading(CHAIN, server.url, pusher.url) as reader:
        assert reader.wait_for_head(Height(20), 0.05) is None
        pusher.drop()
        node.blocks.append(fake_block(21))
        missed = reader.wait_for_head(Height(20), 5.0)
        assert missed is not None
        assert missed.height == 21
        assert pusher.subscriptions == 2
        pusher.push(fake_block(22))
        pushed = reader.wait_for_head(Height(21), 5.0)
        assert pushed is not None
        assert pushed.height == 22


def test_silent_subscription_is_detected_and_renewed(server, node, pusher):
    with reading(CHAIN, server.url, pusher.url) as reader:
        assert reader.wait_for_head(Height(20), 0.05) is None
        for number in (21, 22):
            node.blocks.append(fake_block(number))
            found = reader.wait_for_head(Height(number - 1), 0.05)
            assert found is not None
            assert found.height == number
            assert pusher.subscriptions == 1
        assert reader.wait_for_head(Height(22), 0.05) is None
        assert pusher.subscriptions == 2


def test_late_pushed_head_keeps_the_subscription(server, node, pusher):
    with reading(CHAIN, server.url, pusher.url) as reader:
        assert reader.wait_for_head(Height(20), 0.05) is None
        for number in (21, 22, 23):
            node.blocks.append(fake_block(number))
            assert reader.wait_for_head(Height(number - 1), 0.05) is not None
            pusher.push(fake_block(number))
            assert reader.wait_for_head(Height(number), 0.05) is None
        assert pusher.subscriptions == 1


def test_heads_are_polled_if_the_socket_does_not_open(server, node):
    with reading(CHAIN, server.url, "ws://127.0.0.1:9") as reader:
        grow = later(0.05, lambda: node.blocks.append(fake_block(21)))
        head = reader.wait_for_head(Height(20), 5.0)
        grow.join()
        assert head is not None
        assert head.height == 21


@pytest.mark.parametrize(
    "answer", ['{"id":1,"error":{"message":"no subscriptions here"}}', "nonsense", "[]"]
)
def test_heads_are_polled_if_the_subscription_is_refused(server, node, answer):
    pusher = FakePusher(says=answer)
    with reading(CHAIN, server.url, pusher.url) as reader:
        node.blocks.append(fake_block(21))
        head = reader.wait_for_head(Height(20), 5.0)
        assert head is not None
        assert head.height == 21
    pusher.close()


def test_failing_node_ends_the_wait_with_its_error(server, node, pusher):
    with reading(CHAIN, server.url, pusher.url) as reader:
        node.respond = answer_with(503)
        with pytest.raises(NodeUnavailable, match="503"):
            reader.wait_for_head(Height(20), 5.0)
