"""A stand-in for Circle's attestation service: HTTP on this machine, the service's own paths.

Answers are shaped as the recorded ones of `tests/golden/cctp`; `answer` serves any bytes as they
are. It signs nothing: a test brings messages and attestations.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from devnet.local_http import HOST
from devnet.local_server import Handler, Server, answering

NOT_FOUND = b'{"error":"Message not found"}'
JSON = dict[str, Any]


@dataclass(frozen=True)
class Reply:
    """An HTTP answer."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


class FakeService:
    """Answers what it was told to by path and query; 404 to everything else."""

    def __init__(self) -> None:
        self.url = ""
        self.calls: list[str] = []
        """`METHOD path?query` of each request."""
        self._fixed: dict[str, Reply] = {}

    def answer(self, call: str, status: int, body: bytes, **headers: str) -> None:
        """Answer `METHOD path?query` with these bytes from now on."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self._fixed[call] = Reply(status, body, named)

    def reply(self, method: str, target: str) -> Reply:
        """What a request gets."""
        call = f"{method} {target}"
        self.calls.append(call)
        return self._fixed.get(call) or self.otherwise(method, target)

    def otherwise(self, method: str, target: str) -> Reply:
        """What a request gets that nothing was said about."""
        return Reply(404, NOT_FOUND)


class FakeIris(FakeService):
    """Messages by source domain and transaction, as a test publishes them."""

    def __init__(self) -> None:
        super().__init__()
        self.shut = False
        """Whether it answers 429 to everything."""
        self.published: dict[tuple[int, str], list[JSON]] = {}
        self.reattested: list[str] = []
        self._on_reattest: dict[str, Callable[[], Reply]] = defaultdict(lambda: _cannot_reattest)

    def publish(self, domain: int, tx_hash: str, *messages: JSON) -> None:
        """Answer for a transaction with these messages, in this order, from now on."""
        self.published[domain, tx_hash] = list(messages)

    def on_reattest(self, nonce: str, change: Callable[[], None]) -> None:
        """Take a request to attest a nonce anew, and do this then."""

        def reply() -> Reply:
            change()
            words = {"message": "Re-attestation successfully requested for nonce.", "nonce": nonce}
            return Reply(200, json.dumps(words).encode())

        self._on_reattest[nonce] = reply

    def otherwise(self, method: str, target: str) -> Reply:
        """The service's own paths."""
        if self.shut:
            return Reply(429, b'{"code":429,"message":"Too many requests"}')
        url = urlsplit(target)
        parts = url.path.split("/")
        if method == "POST" and parts[:3] == ["", "v2", "reattest"]:
            self.reattested.append(parts[3])
            return self._on_reattest[parts[3]]()
        if method == "GET" and parts[:3] == ["", "v2", "messages"]:
            query = {key: values[0] for key, values in parse_qs(url.query).items()}
            return self._messages(int(parts[3]), query)
        return Reply(404, NOT_FOUND)

    def _messages(self, domain: int, query: Mapping[str, str]) -> Reply:
        tx_hash = query.get("transactionHash", "")
        if (domain, tx_hash) not in self.published:
            return Reply(404, NOT_FOUND)
        found = {"messages": self.published[domain, tx_hash], "sourceTxHash": tx_hash}
        return Reply(200, json.dumps(found).encode())


def _cannot_reattest() -> Reply:
    words = {
        "message": "Cannot re-attest requested message.",
        "error": "Message is already finalized.",
    }
    return Reply(400, json.dumps(words).encode())


def make_pending(nonce: str | None = None, /, **changes: Any) -> JSON:
    """A message that waits for confirmations, as the service lists it."""
    return {
        "attestation": "PENDING",
        "message": None,
        "eventNonce": nonce,
        "cctpVersion": 2,
        "status": "pending_confirmations",
        "decodedMessage": None,
        "delayReason": None,
        **changes,
    }


def make_complete(message: bytes, attestation: bytes, /, **changes: Any) -> JSON:
    """An attested message, as the service lists it; what it decodes of a Stellar side is null."""
    return {
        "attestation": "0x" + attestation.hex(),
        "message": "0x" + message.hex(),
        "eventNonce": "0x" + message[12:44].hex(),
        "cctpVersion": 2,
        "status": "complete",
        "decodedMessage": {"sender": None, "recipient": None, "decodedMessageBody": None},
        "delayReason": None,
        **changes,
    }


@contextmanager
def serving(service: FakeService) -> Iterator[None]:
    """Put the service behind `service.url` on this machine."""

    class RequestHandler(Handler):
        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def _answer(self) -> None:
            reply = service.reply(self.command, self.path)
            self.answer(reply.status, reply.body, reply.headers)

    with answering(Server((HOST, 0), RequestHandler)) as service.url:
        yield
