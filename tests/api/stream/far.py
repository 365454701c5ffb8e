"""The other end of a stream, on a pair of sockets."""

import json
import select
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from wsproto.connection import Connection, ConnectionType
from wsproto.events import CloseConnection, TextMessage

from tests.factories.api_server import TIMEOUT
from tests.factories.streaming import Book, identity


@dataclass
class Far:
    """The other end of a client's socket."""

    socket: socket.socket
    protocol: Connection = field(default_factory=lambda: Connection(ConnectionType.CLIENT))
    messages: list[dict] = field(default_factory=list)
    closed: tuple[int, str] | None = None
    _part: str = ""

    def read_until(self, condition: Callable[[], bool]) -> "Far":
        """Read until it holds. Raises `TimeoutError`."""
        while not condition():
            self._read()
        return self

    def read_what_is_there(self) -> None:
        while select.select([self.socket], [], [], 0)[0]:
            self._read()

    def read_to(self, ledger: int) -> "Far":
        return self.read_until(lambda: self.ledger >= ledger)

    def read_to_close(self) -> tuple[int, str]:
        self.read_until(lambda: self.closed is not None)
        assert self.closed is not None
        return self.closed

    @property
    def ledger(self) -> int:
        """The last one told to its end."""
        return max((m["ledger"] for m in self.messages if m.get("last")), default=-1)

    def book(self, before: Book | None = None) -> Book:
        book: Book = dict(before or {})
        for message in self.messages:
            if message["channel"] == "orderbook":
                key = identity(message["entry"])
                book.pop(key, None)
                if message["op"] != "remove":
                    book[key] = message["entry"]
        return book

    def _read(self) -> None:
        data = self.socket.recv(1 << 16)
        if not data:
            raise EOFError(f"closed after {len(self.messages)} messages, {self.closed}")
        self.protocol.receive_data(data)
        for event in self.protocol.events():
            self._take(event)

    def _take(self, event) -> None:
        if isinstance(event, CloseConnection):
            self.closed = (int(event.code), event.reason or "")
            # The server may not have waited for the answer.
            with suppress(BrokenPipeError):
                self.socket.sendall(self.protocol.send(event.response()))
        else:
            assert isinstance(event, TextMessage), event
            self._part += event.data
            if event.message_finished:
                self.messages.append(json.loads(self._part))
                self._part = ""


def wait_for(holds: Callable[[], bool]) -> None:
    """Until it does: what another thread counts comes a moment later."""
    deadline = time.monotonic() + TIMEOUT
    while not holds():
        assert time.monotonic() < deadline, "it never did"
        time.sleep(0.01)
