"""Faults of a node that does not answer: in so many words, or on the wire."""

import threading
from collections.abc import Callable

import orjson

from tests.system.faults.fault import (
    Call,
    Exchange,
    Fault,
    Reply,
    ReplyFault,
    Response,
    answered,
    refusal,
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
