"""A faulty node: JSON-RPC over HTTP and WebSocket in front of a real one.

A test injects faults; each is a class that is named after what nodes were seen to do. A fault has
`fired` once for every request that it spoilt, so that no test passes because nothing went wrong.
With a seed and a rate, faults come by chance, and the seed reproduces which.
"""

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import httpx
import orjson
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from websockets.sync.server import ServerConnection, serve

from indexer.devnet.local_server import Handler, Server, answering

_LONGEST_HANG = 20.0
_DRAWN = 3

Call: TypeAlias = dict[str, Any]
Reply: TypeAlias = dict[str, Any]


@dataclass
class Response:
    """What goes over the wire. `cut` bytes of the body are announced and never sent."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: int = 0
    pauses: float = 0.0
    """Seconds between one piece of the body and the next."""
    waits: threading.Event | None = None
    """Nothing is sent before it is set."""


class Exchange:
    """One request, and the real node to answer it."""

    def __init__(
        self,
        calls: list[Call],
        upstream: Callable[[list[Call]], list[Reply]],
        rng: random.Random,
    ) -> None:
        self.calls, self.upstream, self.rng = calls, upstream, rng
        self._replies: list[Reply] | None = None

    def replies(self) -> list[Reply]:
        """The real node's, asked once."""
        if self._replies is None:
            self._replies = self.upstream(self.calls)
        return self._replies

    def ask(self, method: str, *params: Any) -> Any:
        """Something else that the real node knows."""
        call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
        return self.upstream([call])[0]["result"]

    def has(self, method: str) -> bool:
        """Whether the request has such a call."""
        return any(call["method"] == method for call in self.calls)


def answered(replies: Sequence[Reply]) -> Response:
    """A faultless response."""
    return Response(orjson.dumps(list(replies)))


class Fault:
    """Something that a node does wrong."""

    def __init__(self) -> None:
        self.fired = 0

    def respond(self, exchange: Exchange) -> Response | None:
        """The spoilt response; None where the fault does not show in this request."""
        raise NotImplementedError

    def release(self) -> None:
        """Let go of requests that the fault keeps waiting."""


class ReplyFault(Fault):
    """Spoils single replies of a batch."""

    def respond(self, exchange: Exchange) -> Response | None:
        replies = exchange.replies()
        spoilt = [
            self.spoil(call, reply, exchange)
            for call, reply in zip(exchange.calls, replies, strict=True)
        ]
        return None if spoilt == replies else answered(spoilt)

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        """The reply, or another one in its place."""
        raise NotImplementedError


def instead(reply: Reply, result: Any) -> Reply:
    return {"jsonrpc": "2.0", "id": reply["id"], "result": result}


def refusal(reply: Reply, words: str, code: int = -32000) -> Reply:
    return {"jsonrpc": "2.0", "id": reply["id"], "error": {"code": code, "message": words}}


# Logs


class LogsFault(ReplyFault):
    """Spoils the answer to eth_getLogs."""

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        if call["method"] != "eth_getLogs" or not reply.get("result"):
            return reply
        return instead(reply, self.spoil_logs(reply["result"], exchange))

    def spoil_logs(self, logs: list[dict[str, Any]], exchange: Exchange) -> list[dict[str, Any]]:
        raise NotImplementedError


def elsewhere(log: dict[str, Any]) -> str:
    """A log index that no log of the block has."""
    return hex(0xF00 + int(log["logIndex"], 16))


class EmptyLogs(LogsFault):
    """No logs at all, though the blooms say that there are some."""

    def spoil_logs(self, logs, exchange):
        return []


class LogsMissingInNewest(LogsFault):
    """The newest block is there, its logs are not indexed yet."""

    def spoil_logs(self, logs, exchange):
        newest = exchange.ask("eth_blockNumber")
        return [log for log in logs if log["blockNumber"] != newest]


class StaleLogs(LogsFault):
    """Behind a balancer the logs alone come from a node that is some blocks behind."""

    def __init__(self, behind: int) -> None:
        super().__init__()
        self.behind = behind

    def spoil_logs(self, logs, exchange):
        head = int(exchange.ask("eth_blockNumber"), 16) - self.behind
        return [log for log in logs if int(log["blockNumber"], 16) <= head]


class DroppedLog(LogsFault):
    """One log of several is missing."""

    def spoil_logs(self, logs, exchange):
        dropped = exchange.rng.randrange(len(logs))
        return [log for i, log in enumerate(logs) if i != dropped]


class LogOfAnotherBlock(LogsFault):
    """A log of a block that was replaced is mixed in."""

    def spoil_logs(self, logs, exchange):
        return [*logs, {**logs[0], "blockHash": "0x" + "0f" * 32, "logIndex": elsewhere(logs[0])}]


class LogBeyondRange(LogsFault):
    """A log of a block that was not asked for."""

    def spoil_logs(self, logs, exchange):
        return [*logs, {**logs[-1], "blockNumber": "0xffffff", "logIndex": elsewhere(logs[-1])}]


class ForgedLog(LogsFault):
    """A log that is nowhere in the block, with the block's own hash."""

    def spoil_logs(self, logs, exchange):
        forged = {**logs[0], "logIndex": elsewhere(logs[0]), "topics": [*logs[0]["topics"]]}
        forged["topics"][1] = "0x" + exchange.rng.randbytes(32).hex()
        return [*logs, forged]


class RemovedLog(LogsFault):
    """The live log, and the like of it marked removed."""

    def spoil_logs(self, logs, exchange):
        return [*logs, {**logs[0], "removed": True, "logIndex": elsewhere(logs[0])}]


class DuplicateLogIndex(LogsFault):
    """Two logs with one index."""

    def spoil_logs(self, logs, exchange):
        return [*logs, {**logs[-1], "data": "0x" + logs[-1]["data"][2:][::-1]}]


class ForeignTransaction(LogsFault):
    """The log is said to be of a transaction that is not in the block."""

    def spoil_logs(self, logs, exchange):
        return [*logs[:-1], {**logs[-1], "transactionHash": "0x" + "0f" * 32}]


class ForeignTransactionIndex(LogsFault):
    """The log's transaction is not at that place in the block."""

    def spoil_logs(self, logs, exchange):
        return [{**log, "transactionIndex": "0x63"} for log in logs]


class SilentCap(LogsFault):
    """No more than so many logs, and not a word about the rest."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def spoil_logs(self, logs, exchange):
        return logs[: self.most]


class ForgedAmount(ReplyFault):
    """Lies about one transaction in all its answers: its logs carry ten times the amount."""

    def __init__(self, tx: str) -> None:
        super().__init__()
        self.tx = tx

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        return {**reply, "result": self._forged(reply["result"])} if "result" in reply else reply

    def _forged(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._forged(each) for each in value]
        if not isinstance(value, dict):
            return value
        forged = {key: self._forged(each) for key, each in value.items()}
        if forged.get("transactionHash") == self.tx and "data" in forged:
            forged["data"] = f"0x{10 * int(forged['data'][-64:], 16):064x}"
        return forged


# Blocks


class StaleBackend(ReplyFault):
    """The whole request lands on a node that is some blocks behind."""

    def __init__(self, behind: int) -> None:
        super().__init__()
        self.behind = behind

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        head = max(0, int(exchange.ask("eth_blockNumber"), 16) - self.behind)
        method, params = call["method"], call["params"]
        if method == "eth_blockNumber":
            return instead(reply, hex(head))
        if method == "eth_getBlockByNumber" and params[0] == "latest":
            return instead(reply, exchange.ask(method, hex(head), False))
        if method in ("eth_getBlockByNumber", "eth_getBlockReceipts"):
            is_beyond = params[0].startswith("0x") and int(params[0], 16) > head
            return instead(reply, None) if is_beyond else reply
        if method == "eth_getLogs":
            logs = [log for log in reply["result"] if int(log["blockNumber"], 16) <= head]
            return instead(reply, logs)
        return reply


class HeadersFault(ReplyFault):
    """Spoils headers that are there."""

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        if call["method"] != "eth_getBlockByNumber" or not reply.get("result"):
            return reply
        return instead(reply, self.spoil_header(reply["result"], exchange))

    def spoil_header(self, header: dict[str, Any], exchange: Exchange) -> dict[str, Any] | None:
        raise NotImplementedError


class FlippingHash(HeadersFault):
    """The header's hash is another one each time; of one height `only`, or of any."""

    def __init__(self, only: str | None = None) -> None:
        super().__init__()
        self.only = only

    def spoil_header(self, header, exchange):
        if self.only not in (None, header["number"]):
            return header
        return {**header, "hash": "0x" + exchange.rng.randbytes(32).hex()}


class NullHeaders(HeadersFault):
    """Blocks that the node has just named are not there."""

    def spoil_header(self, header, exchange):
        return None


class ZeroBlooms(HeadersFault):
    """Blooms are zero by design, though there are logs."""

    def spoil_header(self, header, exchange):
        return {**header, "logsBloom": "0x" + "00" * 256}


class FullBlooms(HeadersFault):
    """Blooms are full by design, whatever there is."""

    def spoil_header(self, header, exchange):
        return {**header, "logsBloom": "0x" + "ff" * 256}


class OtherFork(ReplyFault):
    """The node follows another fork: the one that a real node was on when this was recorded."""

    def __init__(self, ask: Callable[..., Any], first: int) -> None:
        super().__init__()
        self.first = first
        self.head = int(ask("eth_blockNumber"), 16)
        heights = [hex(height) for height in range(first, self.head + 1)]
        self.blocks = {height: ask("eth_getBlockByNumber", height, False) for height in heights}
        self.receipts = {height: ask("eth_getBlockReceipts", height) for height in heights}

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        method, params = call["method"], call["params"]
        if method == "eth_blockNumber":
            return instead(reply, hex(self.head))
        if method == "eth_getLogs":
            kept = [log for log in reply["result"] if int(log["blockNumber"], 16) < self.first]
            return instead(reply, [*kept, *self._logs(params[0])])
        if method not in ("eth_getBlockByNumber", "eth_getBlockReceipts"):
            return reply
        height = hex(self.head) if params[0] == "latest" else params[0]
        if not height.startswith("0x") or int(height, 16) < self.first:
            return reply
        ours = self.blocks if method == "eth_getBlockByNumber" else self.receipts
        return instead(reply, ours.get(height))

    def _logs(self, query: dict[str, Any]) -> list[dict[str, Any]]:
        wanted = range(int(query["fromBlock"], 16), int(query["toBlock"], 16) + 1)
        return [
            log
            for height, receipts in self.receipts.items()
            if int(height, 16) in wanted
            for receipt in receipts
            for log in receipt["logs"]
            if log["address"] in query["address"]
            and all(
                topic is None or log["topics"][i] in topic
                for i, topic in enumerate(query["topics"])
            )
        ]


# Receipts


class ReceiptsFault(ReplyFault):
    """Spoils the answer to eth_getBlockReceipts."""

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        if call["method"] != "eth_getBlockReceipts" or not reply.get("result"):
            return reply
        return instead(reply, self.spoil_receipts(reply["result"], exchange))

    def spoil_receipts(self, receipts: list[Any], exchange: Exchange) -> Any:
        raise NotImplementedError


class NullReceipts(ReceiptsFault):
    """No receipts of a block that is there."""

    def spoil_receipts(self, receipts, exchange):
        return None


class NullReceipt(ReceiptsFault):
    """One of the receipts is null."""

    def spoil_receipts(self, receipts, exchange):
        return [*receipts[:-1], None]


class MissingReceipt(ReceiptsFault):
    """One of the receipts is not there."""

    def spoil_receipts(self, receipts, exchange):
        return receipts[:-1]


class ReceiptsOfAnotherBlock(ReceiptsFault):
    """The receipts name another block than the one asked for."""

    def spoil_receipts(self, receipts, exchange):
        return [{**receipt, "blockHash": "0x" + "0f" * 32} for receipt in receipts]


class ForgedStatus(ReplyFault):
    """A transaction that went through is said to have failed."""

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        if call["method"] == "eth_getTransactionReceipt" and reply.get("result"):
            return instead(reply, {**reply["result"], "status": "0x0"})
        if call["method"] == "eth_getBlockReceipts" and reply.get("result"):
            return instead(reply, [{**each, "status": "0x0"} for each in reply["result"]])
        return reply


class UnseenReceipt(ReplyFault):
    """A transaction that was mined is not known yet."""

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        is_receipt = call["method"] == "eth_getTransactionReceipt"
        return instead(reply, None) if is_receipt else reply


class RemovedLogs(ReplyFault):
    """The logs of a receipt are marked as of a block that was replaced."""

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        if call["method"] != "eth_getTransactionReceipt" or not reply.get("result"):
            return reply
        receipt = reply["result"]
        return instead(
            reply, {**receipt, "logs": [{**log, "removed": True} for log in receipt["logs"]]}
        )


# Words


class Refuses(ReplyFault):
    """Answers a method with an error."""

    def __init__(self, method: str, words: str, code: int = -32000) -> None:
        super().__init__()
        self.method, self.words, self.code = method, words, code

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        if call["method"] != self.method:
            return reply
        return refusal(reply, self.words, self.code)


class RangeLimit(ReplyFault):
    """Refuses logs of more than so many blocks, in the words of one provider or another."""

    WORDS = (
        "query exceeds max block range {}",
        "eth_getLogs is limited to a {} range",
        "requested too many blocks, maximum is set to {}",
        "ranges over {} blocks are not supported on freetier",
        "Log response size exceeded. this block range should work: [0x1, 0x2] ({})",
    )

    def __init__(self, blocks: int) -> None:
        super().__init__()
        self.blocks = blocks

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        if call["method"] != "eth_getLogs":
            return reply
        first, last = (int(call["params"][0][key], 16) for key in ("fromBlock", "toBlock"))
        if last - first < self.blocks:
            return reply
        return refusal(reply, exchange.rng.choice(self.WORDS).format(self.blocks), -32005)


class NoTags(ReplyFault):
    """Knows no `safe` and no `finalized`."""

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        if call["method"] == "eth_getBlockByNumber" and call["params"][0] in ("safe", "finalized"):
            return refusal(reply, "unknown block tag", -32602)
        return reply


class TagsAt(ReplyFault):
    """Calls blocks safe and final that are so many below the head."""

    def __init__(self, *, safe: int, final: int) -> None:
        super().__init__()
        self.behind = {"safe": safe, "finalized": final}

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        behind = self.behind.get(str(call["params"][0])) if call["params"] else None
        if behind is None:
            return reply
        height = max(0, int(exchange.ask("eth_blockNumber"), 16) - behind)
        return instead(reply, exchange.ask("eth_getBlockByNumber", hex(height), False))


class FinalOnAnotherFork(ReplyFault):
    """Has a block at that height that nobody else has, and calls it safe and final."""

    def __init__(self, height: int) -> None:
        super().__init__()
        self.height = height

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        if call["method"] != "eth_getBlockByNumber":
            return reply
        if call["params"][0] not in ("safe", "finalized", hex(self.height)):
            return reply
        block = exchange.ask("eth_getBlockByNumber", hex(self.height), False)
        return instead(reply, {**block, "hash": "0x" + "0f" * 32})


class FlippingTags(TagsAt):
    """The hash of the block that it calls final is another one each time."""

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        right = super().spoil(call, reply, exchange)
        if right is reply:
            return reply
        return instead(reply, {**right["result"], "hash": "0x" + exchange.rng.randbytes(32).hex()})


class WrongChainId(ReplyFault):
    """The URL leads to another chain."""

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        return instead(reply, "0x1") if call["method"] == "eth_chainId" else reply


# The wire


class TooManyRequests(Fault):
    """HTTP 429, saying when to come back or not."""

    def __init__(self, retry_after: str | None = None) -> None:
        super().__init__()
        self.headers = {} if retry_after is None else {"retry-after": retry_after}

    def respond(self, exchange: Exchange) -> Response | None:
        return Response(b"slow down", 429, self.headers)


class ServerError(Fault):
    """HTTP 503."""

    def respond(self, exchange: Exchange) -> Response | None:
        return Response(b"<html>upstream is gone</html>", 503)


class OneErrorForAll(Fault):
    """HTTP 200 with one error object in place of a list."""

    def respond(self, exchange: Exchange) -> Response | None:
        error = {"code": -32603, "message": "Internal error"}
        return Response(orjson.dumps({"jsonrpc": "2.0", "id": None, "error": error}))


class TruncatedJson(Fault):
    """The body ends in the middle, and says that this is all."""

    def respond(self, exchange: Exchange) -> Response | None:
        body = answered(exchange.replies()).body
        return Response(body[: exchange.rng.randrange(len(body))])


class BrokenOff(Fault):
    """The connection ends in the middle of the body."""

    def respond(self, exchange: Exchange) -> Response | None:
        body = answered(exchange.replies()).body
        kept = exchange.rng.randrange(len(body))
        return Response(body[:kept], cut=len(body) - kept)


class MissingReply(Fault):
    """One call of a batch is not answered."""

    def respond(self, exchange: Exchange) -> Response | None:
        replies = exchange.replies()
        return answered(replies[:-1])


class Hangs(Fault):
    """Takes the request and never answers; the client has to give up."""

    def __init__(self) -> None:
        super().__init__()
        self._released = threading.Event()

    def respond(self, exchange: Exchange) -> Response | None:
        return Response(b"", 504, waits=self._released)

    def release(self) -> None:
        self._released.set()


class Drips(Fault):
    """Each byte of the answer is in time, the answer never is."""

    def respond(self, exchange: Exchange) -> Response | None:
        return Response(answered(exchange.replies()).body, pauses=0.05)


class StopsMidRange(Fault):
    """Answers the first requests of a range, then closes every connection without a word."""

    def __init__(self, *, answers: int = 1) -> None:
        super().__init__()
        self.answers = answers

    def respond(self, exchange: Exchange) -> Response | None:
        if self.answers and exchange.has("eth_getBlockByNumber"):
            self.answers -= 1
            return None
        return Response(b"", cut=1) if not self.answers else None


class After(Fault):
    """Answers a request with at least so many calls of a method; then something happens."""

    def __init__(self, method: str, action: Callable[[], None], *, least: int = 1) -> None:
        super().__init__()
        self.method, self.action, self.least = method, action, least

    def respond(self, exchange: Exchange) -> Response | None:
        if sum(call["method"] == self.method for call in exchange.calls) < self.least:
            return None
        response = answered(exchange.replies())
        self.action()
        return response


# The node


class FaultyNode:
    """Serves `url` and `ws_url`, and answers as the real node does unless a fault is injected."""

    def __init__(
        self, upstream: str, upstream_ws: str, *, host: str = "127.0.0.1", seed: int = 0
    ) -> None:
        self.rng = random.Random(seed)
        self.requests = 0
        self._upstream = upstream
        self._lock = threading.RLock()
        self._injected: list[tuple[Fault, int]] = []
        self._by_chance: tuple[Sequence[Fault], float] = ((), 0.0)
        self._client = httpx.Client(timeout=30.0, trust_env=False)
        self._doors = ExitStack()
        self.url = self._doors.enter_context(answering(_serving(self, host)))
        self.heads = HeadsProxy(upstream_ws, host)
        self.ws_url = self.heads.url

    def close(self) -> None:
        self.heal()
        self.heads.close()
        self._doors.close()
        self._client.close()

    def inject(self, fault: Fault, *, times: int = 1_000_000) -> None:
        """Spoil the next requests in which the fault shows; one fault after another."""
        with self._lock:
            self._injected.append((fault, times))

    def inject_by_chance(self, faults: Sequence[Fault], rate: float) -> None:
        """Spoil up to that share of the requests, each by one of these."""
        with self._lock:
            self._by_chance = (faults, rate)

    def heal(self) -> None:
        """No more faults."""
        with self._lock:
            for fault in [*(fault for fault, _ in self._injected), *self._by_chance[0]]:
                fault.release()
            self._injected.clear()
            self._by_chance = ((), 0.0)

    @contextmanager
    def faulty(self, fault: Fault, *, times: int = 1_000_000) -> Iterator[Fault]:
        """With the fault; on the way out it has to have shown."""
        self.inject(fault, times=times)
        yield fault
        self.heal()
        assert fault.fired, f"{type(fault).__name__} never showed"

    def respond(self, body: bytes) -> Response:
        asked = orjson.loads(body)
        alone = isinstance(asked, dict)
        response = self._respond([asked] if alone else asked)
        if alone and response.status == 200 and response.body.startswith(b"["):
            # What is not asked as a batch is not answered as one.
            response.body = response.body[1:].removesuffix(b"]")
        return response

    def _respond(self, calls: list[Call]) -> Response:
        with self._lock:
            self.requests += 1
            exchange = Exchange(calls, self._ask, random.Random(self.rng.random()))
            faults = [*(fault for fault, _ in self._injected), *self._drawn()]
        for fault in faults:
            response = fault.respond(exchange)
            if response is not None:
                self._count(fault)
                return response
        return answered(exchange.replies())

    def _drawn(self) -> list[Fault]:
        faults, rate = self._by_chance
        # Several, because most show in some requests only; the first that does spoils this one.
        is_spoilt = faults and self.rng.random() < rate
        return self.rng.sample(faults, min(_DRAWN, len(faults))) if is_spoilt else []

    def _count(self, fault: Fault) -> None:
        with self._lock:
            fault.fired += 1
            self._injected = [
                (each, left - 1 if each is fault else left)
                for each, left in self._injected
                if each is not fault or left > 1
            ]

    def _ask(self, calls: list[Call]) -> list[Reply]:
        response = self._client.post(
            self._upstream,
            content=orjson.dumps(calls),
            headers={"content-type": "application/json"},
        )
        by_id = {reply["id"]: reply for reply in orjson.loads(response.content)}
        return [by_id[call["id"]] for call in calls]


def _serving(node: FaultyNode, host: str) -> Server:
    class Asked(Handler):
        # What is sent slowly is sent as it is written.
        wbufsize = 0

        def do_POST(self) -> None:
            response = node.respond(self.body())
            if response.waits is not None:
                response.waits.wait(_LONGEST_HANG)
            self.send_response(response.status)
            self.send_header("content-length", str(len(response.body) + response.cut))
            for name, value in response.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self._send(response)
            if response.cut:
                self.close_connection = True

        def _send(self, response: Response) -> None:
            if not response.pauses:
                self.wfile.write(response.body)
                return
            waiting = threading.Event()
            for start in range(len(response.body)):
                self.wfile.write(response.body[start : start + 1])
                waiting.wait(response.pauses)

    return Server((host, 0), Asked)


class HeadsProxy:
    """Passes new heads on from the real node's socket, as far as a test lets it."""

    def __init__(self, upstream: str, host: str) -> None:
        self._upstream = upstream
        self._sockets: list[ServerConnection] = []
        self._lock = threading.RLock()
        self.subscriptions = 0
        self.is_silent = False
        self.held: list[bytes | str] | None = None
        """While it is a list, heads are put here; `let_go` passes them on in another order."""
        self._arrived = threading.Condition(self._lock)
        self._newest = 0
        self._server = serve(self._accept, host, 0)
        self.url = f"ws://{host}:{self._server.socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self._kept = ExitStack()
        self._source = self._kept.enter_context(connect(upstream, compression=None, proxy=None))
        self._source.send('{"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":["newHeads"]}')
        self._source.recv()
        self._pump = threading.Thread(target=self._pass_on, daemon=True)
        self._pump.start()

    def drop(self) -> None:
        """Close every client's socket."""
        with self._lock:
            sockets, self._sockets = self._sockets, []
        for socket in sockets:
            socket.close()

    def let_go(self, order: Callable[[list[bytes | str]], list[bytes | str]]) -> int:
        """Pass on the heads that were held, in the order that `order` gives; how many."""
        with self._lock:
            held, self.held = self.held or [], None
            for message in order(held):
                self._send(message)
        return len(held)

    def wait_for(self, height: int) -> None:
        """Until the real node has pushed that head."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: self._newest >= height, timeout=20)

    def close(self) -> None:
        self._kept.close()
        self._pump.join()
        self.drop()
        self._server.shutdown()
        self._thread.join()

    def _accept(self, socket: ServerConnection) -> None:
        try:
            call = orjson.loads(socket.recv())
            assert call["params"] == ["newHeads"]
            socket.send(orjson.dumps({"jsonrpc": "2.0", "id": call["id"], "result": "0xcd"}))
            with self._lock:
                self.subscriptions += 1
                self._sockets.append(socket)
            socket.recv()
        except ConnectionClosed:
            return

    def _pass_on(self) -> None:
        try:
            for message in self._source:
                with self._lock:
                    if self.held is not None:
                        self.held.append(message)
                    elif not self.is_silent:
                        self._send(message)
                    head = orjson.loads(message)["params"]["result"]
                    self._newest = int(head["number"], 16)
                    self._arrived.notify_all()
        except ConnectionClosed:
            return

    def _send(self, message: bytes | str) -> None:
        for socket in [*self._sockets]:
            try:
                socket.send(message)
            except ConnectionClosed:
                self._sockets.remove(socket)
