"""Asks one URL over and over on kept-alive connections, each with one request under way.

    python -m tests.system.bench.load PORT CONNECTIONS SECONDS STATUS [RATE] < REQUEST

With a rate, so many requests a second are due at even times, and an answer takes from when its
request was due; without one, each connection asks again once it is answered.

A process of its own, so that it takes no interpreter lock from anybody, and as little as it can of
the processor: one epoll, no HTTP library. The request is on standard input, byte for byte; every
answer must have the status, or the run fails. Prints what it saw as one JSON object.
"""

import json
import re
import selectors
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

HOST = "127.0.0.1"
PROJECT = Path(__file__).parents[3]
"""Not devnet's: importing that takes longer than some runs."""
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_SETTLING = 0.2
"""Share of the time before answers count."""


@dataclass
class Connection:
    """One socket, and what is still to come on it."""

    socket: socket.socket
    asked_at: float = 0.0
    to_come: int = 0
    head: bytes = b""


@dataclass
class Client:
    """All connections of one run, and how long each answer took, in seconds."""

    request: bytes
    status: bytes
    ready: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    took: list[float] = field(default_factory=list)
    answers: int = 0
    """Also those that came before any counted."""
    buffer: bytearray = field(default_factory=lambda: bytearray(1 << 20))
    rate: float = 0.0
    """Requests a second; 0: as many as are answered."""
    idle: deque[Connection] = field(default_factory=deque)
    """Connections that wait until a request is due."""
    due: float = field(default_factory=time.monotonic)
    """When the next request is due."""

    def run(self, port: int, connections: int, seconds: float) -> float:
        """Ask for that long; returns the seconds that count."""
        for _ in range(connections):
            connection = Connection(socket.create_connection((HOST, port)))
            connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.ready.register(connection.socket, selectors.EVENT_READ, connection)
            self._next(connection)
        self._answer_until(time.monotonic() + seconds * _SETTLING)
        self.took.clear()
        began = time.monotonic()
        self._answer_until(began + seconds * (1 - _SETTLING))
        return time.monotonic() - began

    def _answer_until(self, end: float) -> None:
        while (now := time.monotonic()) < end:
            while self.idle and self.due <= now:
                self._ask(self.idle.popleft(), self.due)
                self.due += 1 / self.rate
            timeout = min(end, self.due) - now if self.idle else 1.0
            for key, _ in self.ready.select(timeout):
                self._read(key.data)

    def _next(self, connection: Connection) -> None:
        if self.rate:
            self.idle.append(connection)
        else:
            self._ask(connection, time.monotonic())

    def _ask(self, connection: Connection, at: float) -> None:
        connection.asked_at = at
        connection.head = b""
        connection.socket.sendall(self.request)

    def _read(self, connection: Connection) -> None:
        size = connection.socket.recv_into(self.buffer)
        if not size:
            raise ConnectionError("the server closed a connection under way")
        if connection.to_come:
            connection.to_come -= size
        else:
            connection.head += bytes(self.buffer[: min(size, 4096)])
            end = connection.head.find(b"\r\n\r\n")
            if end < 0:
                return
            connection.to_come = self._body_length(connection.head[:end]) - (size - end - 4)
        if connection.to_come == 0:
            self.took.append(time.monotonic() - connection.asked_at)
            self.answers += 1
            self._next(connection)

    def _body_length(self, head: bytes) -> int:
        if head[9:12] != self.status:
            raise ValueError(f"an answer of {head[9:12]!r} instead of {self.status!r}: {head!r}")
        found = _LENGTH.search(head)
        return 0 if found is None else int(found[1])


def start_load(
    port: int, connections: int, seconds: float, status: int, request: bytes, rate: int = 0
) -> "subprocess.Popen[bytes]":
    """Start the program as the module's docstring says."""
    numbers = map(str, (port, connections, seconds, status, rate))
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.system.bench.load", *numbers],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=PROJECT,
    )
    cast(IO[bytes], process.stdin).write(request)
    cast(IO[bytes], process.stdin).close()
    return process


def finish_load(process: "subprocess.Popen[bytes]") -> dict[str, Any]:
    """What it prints at its end. Raises `CalledProcessError`."""
    printed = cast(IO[bytes], process.stdout).read()
    if process.wait():
        raise subprocess.CalledProcessError(process.returncode, process.args)
    seen: dict[str, Any] = json.loads(printed)
    return seen


def main(arguments: Sequence[str]) -> None:
    """Run as the module's docstring says."""
    port, connections, seconds, status, *rate = arguments
    client = Client(sys.stdin.buffer.read(), status.encode(), rate=float(rate[0]) if rate else 0.0)
    used = time.process_time()
    took = client.run(int(port), int(connections), float(seconds))
    used = time.process_time() - used
    seen = {
        "seconds": took,
        "took": client.took,
        "answers": client.answers,
        "own_cpu": used / float(seconds),
    }
    sys.stdout.write(json.dumps(seen))


if __name__ == "__main__":
    main(sys.argv[1:])
