"""Thousands of clients of the stream in one cheap process, each of which checks its sequence.

    python -m tests.system.fleet.sockets CLIENTS HOST:PORT,… PROVIDER…

Clients take the addresses in turns, and the providers, of which each follows one's offers. A client
connects again with `after` when its connection ends. The process writes `ready` to standard output
when every client has its snapshot, and at the end of its input one JSON object:

| member | |
|---|---|
| `received` | for each provider a list of its clients, each a list of `[ledger, time]` of changes |
| `snapshots` | the same of the snapshots: `[ledger, number of changes before it, time]` |
| `gaps` | `prevSeq` that was not the previous `seq` |
| `away` | for each lost connection when it ended and when the next one had its marker |
| `refused` | status of each answer that was no upgrade, and how often |

Times are of `time.monotonic`, the same clock in all processes of a machine.
"""

import base64
import json
import random
import re
import selectors
import socket
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

_MESSAGE = re.compile(rb'"ledger":([0-9]+),"seq":([0-9]+),"prevSeq":([0-9]+)(,"last":true)?')
_MODE = re.compile(rb'"mode":"([a-z]+)"')
_KEY = base64.b64encode(b"x" * 16)
_CONNECTED_AT_ONCE = 200
"""Handshakes under way, below every queue of pending connections on the path."""
_FIRST_BACKOFF, _MAX_BACKOFF = 0.1, 2.0
"""Seconds until the next attempt to connect, exponential with jitter. After a connection that had
its marker the first attempt is at once."""
_TEXT, _CLOSE, _PING = 1, 8, 9
_PONG = b"\x8a"


class Refused(Exception):
    """An answer that is no upgrade; the text is its status."""


@dataclass(eq=False)
class Client:
    """One client over all of its connections."""

    address: tuple[str, int]
    provider: str
    ledger: int = 0
    received: list[tuple[int, float]] = field(default_factory=list)
    snapshots: list[tuple[int, int, float]] = field(default_factory=list)
    gaps: int = 0
    connections: int = 0
    failures: int = 0
    """Attempts in a row that got no marker."""
    lost_at: float | None = None
    away: list[tuple[float, float]] = field(default_factory=list)
    socket: "socket.socket | None" = None
    is_greeted: bool = False
    _seq: int | None = None
    _rest: bytes = b""
    _is_upgraded: bool = False
    _is_snapshot: bool = False
    _draft: list[tuple[int, float]] = field(default_factory=list)

    def connect(self) -> None:
        """Begin a connection. Raises `OSError`."""
        self._seq, self._rest, self._is_upgraded, self.is_greeted = None, b"", False, False
        self._is_snapshot = False
        self._draft.clear()
        path = f"/api/v1/stream?provider={self.provider}&channel=orderbook&after={self.ledger}"
        lines = (
            f"GET {path} HTTP/1.1".encode(),
            b"Host: fleet",
            b"Upgrade: websocket",
            b"Connection: Upgrade",
            b"Sec-WebSocket-Version: 13",
            b"Sec-WebSocket-Key: " + _KEY,
        )
        connected = socket.create_connection(self.address, timeout=10.0)
        connected.sendall(b"\r\n".join([*lines, b"", b""]))
        connected.setblocking(False)
        self.socket = connected

    def read(self, now: float) -> None:
        """Take what has arrived. Raises `OSError` and `EOFError` at the connection's end, and
        `Refused`."""
        assert self.socket is not None
        data = self.socket.recv(1 << 16)
        if not data:
            raise EOFError
        self._rest += data
        if not self._is_upgraded:
            head, end, rest = self._rest.partition(b"\r\n\r\n")
            if not end:
                return
            if not head.startswith(b"HTTP/1.1 101 "):
                raise Refused(head[9:12].decode(errors="replace"))
            self._rest, self._is_upgraded = rest, True
        while (frame := self._next_frame()) is not None:
            self._take(frame, now)

    def _next_frame(self) -> bytes | None:
        """Payload of the next whole frame. Raises `EOFError` for a close frame."""
        data = self._rest
        if len(data) < 2:
            return None
        size, head = data[1], 2
        if size == 126:
            size, head = int.from_bytes(data[2:4], "big"), 4
        elif size == 127:
            size, head = int.from_bytes(data[2:10], "big"), 10
        if len(data) < head + size:
            return None
        self._rest = data[head + size :]
        code, payload = data[0] & 0xF, data[head : head + size]
        if code == _CLOSE:
            raise EOFError
        if code == _PING:
            assert self.socket is not None
            # Masked with zeros, which leave it as it is.
            self.socket.sendall(_PONG + bytes([0x80 | size]) + bytes(4) + payload)
        return payload if code == _TEXT else b""

    def _take(self, message: bytes, now: float) -> None:
        found = _MESSAGE.search(message)
        if found is None:
            return
        ledger, seq, before = (int(text) for text in found.groups()[:3])
        self.gaps += self._seq is not None and before != self._seq
        self._seq = seq
        if (mode := _MODE.search(message)) is not None:
            self.is_greeted, self.failures = True, 0
            self._is_snapshot = mode[1] == b"snapshot"
            if self._is_snapshot:
                self.snapshots.append((ledger, len(self.received), now))
            if self.lost_at is not None:
                self.away.append((self.lost_at, now))
                self.lost_at = None
            self.connections += 1
        elif b'"entry":' in message and not self._is_snapshot:
            self._draft.append((ledger, now))
        if found[4]:
            # A ledger counts as a whole, at its `last`.
            self.ledger, self._is_snapshot = ledger, False
            self.received += self._draft
            self._draft.clear()

    def close(self) -> None:
        """Forget a connection that ended."""
        assert self.socket is not None
        self.socket.close()
        self.socket = None

    def backoff(self) -> float:
        """Seconds until the next attempt, after one that failed or a connection that ended."""
        if self.is_greeted:
            self.is_greeted = False
            return 0.0
        self.failures += 1
        longest = min(_MAX_BACKOFF, _FIRST_BACKOFF * 2**self.failures)
        return random.uniform(longest / 2, longest)


class Clients:
    """All of them on one selector."""

    def __init__(self, number: int, addresses: list[tuple[str, int]], providers: list[str]) -> None:
        self._selector = selectors.DefaultSelector()
        self._selector.register(sys.stdin, selectors.EVENT_READ)
        self.all = [
            Client(addresses[n % len(addresses)], providers[n % len(providers)])
            for n in range(number)
        ]
        self.refused: Counter[str] = Counter()
        self._waiting: list[tuple[float, Client]] = [(0.0, client) for client in self.all]
        self._shaking: set[Client] = set()

    def run(self) -> None:
        """Follow until the end of the input."""
        is_ready = False
        while True:
            self._connect_some()
            for key, _ in self._selector.select(timeout=0.05):
                if key.data is None:
                    return
                self._read(key.data)
            if not is_ready and all(client.connections for client in self.all):
                is_ready = True
                _write("ready")

    def _connect_some(self) -> None:
        now, later = time.monotonic(), list[tuple[float, Client]]()
        for due, client in self._waiting:
            if due > now or len(self._shaking) >= _CONNECTED_AT_ONCE:
                later.append((due, client))
                continue
            try:
                client.connect()
            except OSError:
                later.append((now + client.backoff(), client))
                continue
            assert client.socket is not None
            self._shaking.add(client)
            self._selector.register(client.socket, selectors.EVENT_READ, client)
        self._waiting = later

    def _read(self, client: Client) -> None:
        now = time.monotonic()
        try:
            client.read(now)
        except (OSError, EOFError, Refused) as error:
            if isinstance(error, Refused):
                self.refused[str(error)] += 1
            assert client.socket is not None
            self._selector.unregister(client.socket)
            client.close()
            if client.lost_at is None and client.connections:
                client.lost_at = now
            self._shaking.discard(client)
            self._waiting.append((now + client.backoff(), client))
            return
        if client.is_greeted:
            self._shaking.discard(client)

    def report(self) -> dict[str, Any]:
        """The object of the module's docstring."""
        by_provider: dict[str, list[Client]] = {}
        for client in self.all:
            by_provider.setdefault(client.provider, []).append(client)
        return {
            "received": {
                name: [client.received for client in own] for name, own in by_provider.items()
            },
            "snapshots": {
                name: [client.snapshots for client in own] for name, own in by_provider.items()
            },
            "gaps": sum(client.gaps for client in self.all),
            "away": [each for client in self.all for each in client.away],
            "refused": self.refused,
        }


def _write(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _addresses(text: str) -> list[tuple[str, int]]:
    pairs = (each.rpartition(":") for each in text.split(","))
    return [(host, int(port)) for host, _, port in pairs]


if __name__ == "__main__":
    clients = Clients(int(sys.argv[1]), _addresses(sys.argv[2]), sys.argv[3:])
    clients.run()
    _write(json.dumps(clients.report()))
