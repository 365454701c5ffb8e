"""What a fault is: it sees a request to a node, and may spoil the answer."""

import random
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import orjson

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


class Fault(ABC):
    """Something that a node does wrong."""

    def __init__(self) -> None:
        self.fired = 0

    @abstractmethod
    def respond(self, exchange: Exchange) -> Response | None:
        """The spoilt response; None where the fault does not show in this request."""

    def release(self) -> None:  # noqa: B027 - most keep none waiting
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

    @abstractmethod
    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        """The reply, or another one in its place."""


def instead(reply: Reply, result: Any) -> Reply:
    return {"jsonrpc": "2.0", "id": reply["id"], "result": result}


def refusal(reply: Reply, words: str, code: int = -32000) -> Reply:
    return {"jsonrpc": "2.0", "id": reply["id"], "error": {"code": code, "message": words}}
