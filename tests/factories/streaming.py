"""What the stream's tests and its benchmark share: a book that moves and a strict client."""

import json
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Engine, text
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from indexer.orderbook.state import BookEvent, LedgerClose
from indexer.orderbook.store import apply_ledgers
from tests.factories.api_server import TIMEOUT
from tests.factories.book import CHAIN
from tests.factories.book_history import RandomHistory
from tests.factories.book_walk import refolded
from warehouse_schema import channels

Entry = dict[str, Any]
Identity = tuple[str, ...]
Book = dict[Identity, Entry]


def identity(entry: Entry) -> Identity:
    """What an offer keeps for life."""
    return (entry["provider"], entry["direction"], entry["currency"], *entry["acceptedRails"])


@dataclass
class Market:
    """A random history of the order book, folded into a warehouse ledger by ledger."""

    engine: Engine
    """Of the indexer."""
    story: RandomHistory = field(default_factory=lambda: RandomHistory(1))
    published: list[tuple[LedgerClose, list[BookEvent]]] = field(default_factory=list)
    _waiting: list[tuple[LedgerClose, list[BookEvent]]] = field(default_factory=list)
    """Closed and not folded: the warehouse was away."""

    @property
    def ledger(self) -> int:
        """The last one folded."""
        return self.published[-1][0].height

    def closed_at(self, ledger: int) -> str:
        """When a ledger closed, ISO 8601."""
        (seconds,) = (close.close_time for close, _ in self.published if close.height == ledger)
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def move(self, ledgers: int = 1, *, together: bool = False) -> int:
        """Fold ledgers, one a transaction or all in one; the last one's number."""
        self._waiting += self.story.ledgers(ledgers - len(self._waiting))
        while self._waiting:
            part = self._waiting if together else self._waiting[:1]
            with self.engine.begin() as conn:
                closes = [close for close, _ in part]
                apply_ledgers(conn, closes, [e for _, events in part for e in events])
                notify(conn, closes[-1].height)
            self.published += part
            self._waiting = self._waiting[len(part) :]
        return self.ledger

    def rebuild(self) -> None:
        """Write the book anew from its history."""
        with self.engine.begin() as conn:
            refolded(conn, self.published).replace_stored()
            notify(conn, self.ledger)


def notify(conn: Connection, ledger: int) -> None:
    """Say that the chain moved, as the publisher does."""
    conn.execute(
        text("SELECT pg_notify(:channel, :payload)"),
        {"channel": channels.INGESTED, "payload": f"{CHAIN}:{ledger}"},
    )


# The client.


class Broken(AssertionError):
    """The stream did what its rules exclude."""


class Listener:
    """Applies the stream by the rules and refuses whatever they do not allow.

    It keeps the book as of every ledger that it heard the end of.
    """

    def __init__(
        self,
        url: str,
        query: str = "",
        *,
        book: Book | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.messages: list[dict[str, Any]] = []
        self.books: dict[int, Book] = {}
        self.orders: list[Entry] = []
        self.closed: tuple[int, str] | None = None
        self.failure: BaseException | None = None
        self._draft: Book = dict(book or {})
        self._changed = threading.Condition()
        self._open = ExitStack()
        self._socket = self._open.enter_context(
            connect(
                f"{url}?{query}",
                max_size=None,
                open_timeout=TIMEOUT,
                additional_headers=dict(headers or {}),
            )
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def ledger(self) -> int:
        """The last one heard to its end; −1 before the first."""
        return max(self.books, default=-1)

    @property
    def book(self) -> Book:
        """As of `ledger`."""
        return self.books[self.ledger]

    def wait_for(self, ledger: int) -> Book:
        """The book as of a ledger that is going to be told, or a later one."""
        self.wait(lambda: self.ledger >= ledger)
        return self.book

    def wait(self, condition: Callable[[], bool]) -> None:
        """Until it holds. Raises what the listener met meanwhile."""
        with self._changed:
            met = self._changed.wait_for(lambda: self.failure or condition(), TIMEOUT)
        if self.failure is not None:
            raise self.failure
        assert met, f"{len(self.messages)} messages, ledger {self.ledger}, closed {self.closed}"

    def wait_until_closed(self) -> tuple[int, str]:
        """Code and reason."""
        self.wait(lambda: self.closed is not None)
        assert self.closed is not None
        return self.closed

    def send_raw(self, data: bytes) -> None:
        """Send what need not be a frame."""
        self._socket.socket.sendall(data)

    def abandon(self) -> None:
        """Go without a word."""
        self._socket.socket.shutdown(socket.SHUT_RDWR)
        self.close()

    def close(self) -> None:
        """Say goodbye."""
        self._open.close()
        self._thread.join()

    def __enter__(self) -> "Listener":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        try:
            while True:
                message = json.loads(self._socket.recv())
                with self._changed:
                    self._take(message)
                    self._changed.notify_all()
        except ConnectionClosed as error:
            said = error.rcvd
            with self._changed:
                self.closed = (1006, "") if said is None else (said.code, said.reason)
                self._changed.notify_all()
        except (AssertionError, KeyError, ValueError) as error:
            with self._changed:
                self.failure = error
                self._changed.notify_all()

    def _take(self, message: dict[str, Any]) -> None:
        before = self.messages[-1] if self.messages else None
        if message["prevSeq"] != message["seq"] - 1:
            raise Broken(f"prevSeq is not the number before: {message}")
        if before is not None and message["prevSeq"] != before["seq"]:
            raise Broken(f"{message} does not follow {before}")
        if before is not None and message["ledger"] < before["ledger"]:
            raise Broken(f"{message} is of an earlier ledger than {before}")
        # A batch goes out whole, and its end is marked; the marker of a resume stands alone.
        starts = before is None or before.get("last") or before["channel"] == "stream"
        if not starts and message["ledger"] != before["ledger"]:
            raise Broken(f"{before} was the last of its ledger and did not say so")
        if before is not None and before["channel"] == "orderbook" and not starts:
            order = ["remove", "add", "update", None]
            if order.index(before["op"]) > order.index(message.get("op")):
                raise Broken(f"{message} comes after {before}")
        self.messages.append(message)
        self._apply(message)
        if message.get("last"):
            self.books[message["ledger"]] = dict(self._draft)

    def _apply(self, message: dict[str, Any]) -> None:
        match message["channel"]:
            case "orderbook":
                self._apply_offer(message["op"], message["entry"])
            case "intent":
                self.orders.append(message["intent"])
            case "stream":
                if len(self.messages) != 1:
                    raise Broken(f"{message} is not the first")
                if message["mode"] == "snapshot":
                    self._draft.clear()
            case "ledger":
                return
            case other:
                raise Broken(f"channel {other}")

    def _apply_offer(self, op: str, entry: Entry) -> None:
        key = identity(entry)
        if (op == "add") == (key in self._draft):
            raise Broken(f"{op} of {key}, which is {'' if key in self._draft else 'not '}listed")
        if op == "update" and self._draft[key] == entry:
            raise Broken(f"an update that changes nothing: {entry}")
        if op == "remove":
            if self._draft.pop(key) != entry:
                raise Broken(f"{key} was removed as what it was not")
        else:
            self._draft[key] = entry
