"""Requests at a given rate on kept-alive connections, in one cheap process.

    python -m tests.system.fleet.requests HOST:PORT < PLAN

The first line of the input is a JSON object:

| member | |
|---|---|
| `reads`, `writes` | requests a second of either kind |
| `path` | of the reads |
| `starts` | `[token, quote]` of each write, which starts a transfer with the quote as its key |
| `again` | a write without a final answer is sent again until it has one |

At the end of its input it writes a JSON object with `reads` and `writes`, each of which has
`answers` (a list of `[when it was due, seconds from then]`), `errors` (a list of `[when, status and
code]`) and `late`, the number of those that waited for a free connection; and `acknowledged`, the
quotes of writes that got 201.

A request that has no answer after 5 seconds is an error. Times are of `time.monotonic`.
"""

import json
import re
import selectors
import socket
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

MAX_CONNECTIONS = 64
"""Requests under way at a time."""
_TIMEOUT = 5.0
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CLOSES = re.compile(rb"\r\nconnection: *close", re.IGNORECASE)
_CODE = re.compile(rb'"code": *"([A-Z_]+)"')
_RETRY_SECONDS = 0.2
_FINAL = range(200, 500)


@dataclass
class Kind:
    """Requests of one kind: when the next one is due, and what became of the others."""

    rate: float
    due: float
    answers: list[tuple[float, float]] = field(default_factory=list)
    errors: list[tuple[float, str]] = field(default_factory=list)
    late: int = 0


@dataclass
class Request:
    """One request. `quote` is None for a read."""

    raw: bytes
    due: float
    quote: str | None = None


@dataclass(eq=False)
class Connection:
    """One socket with at most one request under way."""

    socket: socket.socket
    request: Request | None = None
    sent_at: float = 0.0
    data: bytearray = field(default_factory=bytearray)
    size: int | None = None
    """Of the whole answer, once its head is there."""


class Generator:
    """Sends what is due, and collects answers."""

    def __init__(self, address: tuple[str, int], plan: dict[str, Any]) -> None:
        now = time.monotonic()
        self._address, self._plan = address, plan
        self.reads, self.writes = Kind(plan["reads"], now), Kind(plan["writes"], now)
        self._starts = deque(plan["starts"])
        self._queue: deque[Request] = deque()
        self._again: deque[Request] = deque()
        self._selector = selectors.DefaultSelector()
        self._selector.register(sys.stdin, selectors.EVENT_READ)
        self._idle: list[Connection] = []
        self._busy: set[Connection] = set()
        self.acknowledged: list[str] = []
        host = f"Host: {address[0]}:{address[1]}\r\n"
        self._read = f"GET {plan['path']} HTTP/1.1\r\n{host}\r\n".encode()
        self._host = host

    def run(self) -> None:
        """Send until the end of the input."""
        while True:
            now = time.monotonic()
            self._enqueue_due(now)
            self._send_queued(now)
            self._end_overdue(now)
            for key, _ in self._selector.select(timeout=0.002):
                if key.data is None:
                    return
                self._receive(key.data)

    def _enqueue_due(self, now: float) -> None:
        for kind in (self.reads, self.writes):
            while kind.rate and kind.due <= now:
                if kind is self.reads:
                    self._queue.append(Request(self._read, kind.due))
                elif self._starts:
                    token, quote = self._starts.popleft()
                    self._queue.append(Request(self._start(token, quote), kind.due, quote))
                kind.due += 1 / kind.rate
        while self._again and self._again[0].due <= now:
            self._queue.append(self._again.popleft())

    def _start(self, token: str, quote: str) -> bytes:
        body = json.dumps({"quote_id": quote})
        return (
            f"POST /v1/transfers HTTP/1.1\r\n{self._host}Authorization: Bearer {token}\r\n"
            f"Idempotency-Key: {quote}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}"
        ).encode()

    def _send_queued(self, now: float) -> None:
        while self._queue and (self._idle or len(self._busy) < MAX_CONNECTIONS):
            request = self._queue.popleft()
            kind = self._kind(request)
            kind.late += now - request.due > 0.1
            try:
                connection = self._idle.pop() if self._idle else self._connect()
                connection.socket.sendall(request.raw)
            except OSError as error:
                self._fail(request, type(error).__name__)
                continue
            connection.request, connection.sent_at, connection.size = request, now, None
            connection.data.clear()
            self._busy.add(connection)

    def _connect(self) -> Connection:
        made = Connection(socket.create_connection(self._address, timeout=1.0))
        made.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._selector.register(made.socket, selectors.EVENT_READ, made)
        return made

    def _receive(self, connection: Connection) -> None:
        try:
            data = connection.socket.recv(1 << 18)
        except OSError as error:
            self._close(connection, type(error).__name__)
            return
        if not data:
            self._close(connection, "closed")
            return
        connection.data += data
        if connection.size is None:
            end = connection.data.find(b"\r\n\r\n")
            if end < 0:
                return
            found = _LENGTH.search(connection.data, 0, end)
            connection.size = end + 4 + (int(found[1]) if found else 0)
        if len(connection.data) >= connection.size:
            self._take(connection)

    def _take(self, connection: Connection) -> None:
        request, now = connection.request, time.monotonic()
        assert request is not None
        status = int(connection.data[9:12])
        connection.request = None
        self._busy.discard(connection)
        head = connection.data.find(b"\r\n\r\n")
        if _CLOSES.search(connection.data, 0, head):
            self._close(connection, "")
        else:
            self._idle.append(connection)
        if status not in (200, 201):
            code = _CODE.search(connection.data, head)
            reason = f"{status} {code[1].decode()}" if code else str(status)
            self._fail(request, reason, is_final=status in _FINAL and status != 429)
            return
        kind = self._kind(request)
        kind.answers.append((request.due, now - request.due))
        if request.quote is not None:
            self.acknowledged.append(request.quote)

    def _close(self, connection: Connection, reason: str) -> None:
        self._selector.unregister(connection.socket)
        connection.socket.close()
        self._busy.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        if connection.request is not None:
            self._fail(connection.request, reason)
            connection.request = None

    def _end_overdue(self, now: float) -> None:
        for each in [each for each in self._busy if now - each.sent_at > _TIMEOUT]:
            self._close(each, "timeout")

    def _fail(self, request: Request, reason: str, *, is_final: bool = False) -> None:
        now = time.monotonic()
        self._kind(request).errors.append((now, reason))
        if request.quote is not None and self._plan["again"] and not is_final:
            self._again.append(Request(request.raw, now + _RETRY_SECONDS, request.quote))

    def _kind(self, request: Request) -> Kind:
        return self.reads if request.quote is None else self.writes

    def report(self) -> dict[str, Any]:
        """The object of the module's docstring."""
        kinds = {"reads": self.reads, "writes": self.writes}
        return {
            **{
                name: {"answers": kind.answers, "errors": kind.errors, "late": kind.late}
                for name, kind in kinds.items()
            },
            "acknowledged": self.acknowledged,
        }


if __name__ == "__main__":
    where, _, port = sys.argv[1].rpartition(":")
    generator = Generator((where, int(port)), json.loads(sys.stdin.readline()))
    generator.run()
    sys.stdout.write(json.dumps(generator.report()))
