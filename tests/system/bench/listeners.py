"""A thousand clients of the stream in one cheap process: raw frames, one selector.

    python -m tests.system.bench.listeners HOST PORT CLIENTS

It says `ready` on standard output when every client has its snapshot. At the end of its input it
writes one JSON object: ledger → the times, by `time.monotonic`, at which clients had all of it.
That clock is the same in every process of a machine. Its own work on a ledger, client after client,
is part of the times.
"""

import base64
import json
import re
import selectors
import socket
import sys
import time
from collections import defaultdict

HANDSHAKE = b"\r\n".join(
    [
        b"GET /api/v1/stream HTTP/1.1",
        b"Host: bench",
        b"Upgrade: websocket",
        b"Connection: Upgrade",
        b"Sec-WebSocket-Version: 13",
        b"Sec-WebSocket-Key: " + base64.b64encode(b"x" * 16),
        b"",
        b"",
    ]
)
_END = re.compile(rb'"ledger":([0-9]+),"seq":[0-9]+,"prevSeq":[0-9]+,"last":true')


class Listener:
    """One connection; frames are looked through for the end of a ledger and no further."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address)
        self.socket.sendall(HANDSHAKE)
        self._rest = b""
        self._upgraded = False

    def read(self) -> list[int]:
        """Ledgers that are whole now."""
        # A larger buffer would be mapped and unmapped by each call, 20 µs.
        data = self.socket.recv(1 << 14)
        if not data:
            raise EOFError("the server ended a connection")
        self._rest += data
        if not self._upgraded:
            head, end, frames = self._rest.partition(b"\r\n\r\n")
            if not end:
                return []
            if not head.startswith(b"HTTP/1.1 101 "):
                raise ConnectionError(self._rest.decode())
            self._rest, self._upgraded = frames, True
        whole = _whole_frames(self._rest)
        frames, self._rest = self._rest[:whole], self._rest[whole:]
        return [int(found) for found in _END.findall(frames)]


def _whole_frames(data: bytes) -> int:
    end = 0
    while len(data) >= end + 2:
        size, head = data[end + 1], 2
        if size == 126:
            size, head = int.from_bytes(data[end + 2 : end + 4], "big"), 4
        elif size == 127:
            size, head = int.from_bytes(data[end + 2 : end + 10], "big"), 10
        if len(data) < end + head + size:
            break
        end += head + size
    return end


def main(host: str, port: int, clients: int) -> None:
    """Connect, listen to the end of the input, report."""
    selector = selectors.DefaultSelector()
    selector.register(sys.stdin, selectors.EVENT_READ)
    arrived: dict[int, list[float]] = defaultdict(list)
    for _ in range(clients):
        listener = Listener((host, port))
        selector.register(listener.socket, selectors.EVENT_READ, listener)
    greeted: set[Listener] = set()
    while True:
        for key, _ in selector.select():
            if key.data is None:
                _say(json.dumps(arrived))
                return
            ledgers = key.data.read()
            now = time.monotonic()
            if key.data not in greeted and ledgers:
                greeted.add(key.data)
                if len(greeted) == clients:
                    _say("ready")
            for ledger in ledgers:
                arrived[ledger].append(now)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
