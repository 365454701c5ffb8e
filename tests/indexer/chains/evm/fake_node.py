"""A stand-in for a node, with blocks and faults that a test makes, over HTTP."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from eth_utils.crypto import keccak

from devnet.local_http import HOST
from devnet.local_server import Handler, Server, answering
from tests.indexer.chains.evm.chain import MESSAGE_SENT, TRANSMITTER


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


def answer_with(
    status: int, body: bytes = b"", **headers: str
) -> Callable[[bytes], tuple[int, dict[str, str], bytes]]:
    return lambda _: (status, {k.replace("_", "-"): v for k, v in headers.items()}, body)
