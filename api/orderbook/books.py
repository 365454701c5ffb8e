"""The order book's cache of a process, and when it must be read again.

A cached state is served only while both hold:

- no notification came since its read began (`api.notifications`): a commit is visible to the first
  request after its NOTIFY has arrived;
- its read, or the last check that found nothing changed, began less than `FRESH_SECONDS` ago. So no
  answer is older than that, also when the listener fails or a NOTIFY is lost.

One thread reads at a time; the others wait for it, and read again if its state is stale by then. A
check costs one short statement; only changed parts are read.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, assert_never

import orjson
from sqlalchemy import Connection, Engine

from api.deps import read_snapshot
from api.errors import Unavailable
from api.notifications import (
    Committed,
    Notification,
    NotificationListener,
    Resync,
    TransfersChanged,
)
from api.orderbook import queries
from api.orderbook.activity import recent_activity
from api.orderbook.filters import OfferFilters, fits
from api.orderbook.queries import Book
from api.orderbook.recent import RecentOrders, recent_orders
from api.orderbook.responses import (
    offer_response,
    order_response,
    provider_response,
    summary_response,
)
from api.responses import BoundedCache, StoredBody
from indexer.orderbook.offers import OfferRow
from warehouse_schema.identifiers import Bytes32, ChainId, StellarAddress

FRESH_SECONDS = 0.09
"""How long a state is served without a check."""
_REFRESH_SECONDS = 0.05
"""Age at which one request checks again while the others are still served the state."""
_READ_TIMEOUT_SECONDS = 5.0
"""For another thread's read."""
_MAX_LIST_BYTES = 32 * 1024 * 1024
_MAX_RECORD_BYTES = 8 * 1024 * 1024
"""Of cached answers: anyone may ask for any filter."""
_MAX_RESPONSE_BYTES = 8 * 1024 * 1024
_RESPONSE_OVERHEAD_BYTES = 4_000
"""Key and headers of a cached response."""


@dataclass(frozen=True, slots=True)
class ActivityOf:
    """The key of a provider's activity."""

    provider: StellarAddress


RecordKey: TypeAlias = StellarAddress | ActivityOf | Bytes32 | RecentOrders
"""A provider's address, its activity, an order's id, or a query for the newest orders."""
ReadRecord: TypeAlias = Callable[[Connection, Book], Any]


class _Notified(NamedTuple):
    """Notifications so far; a state that was read under a smaller count is stale."""

    resyncs: int = 0
    commits: int = 0


class Listing:
    """The offers of one state in listing order, encoded once."""

    def __init__(self, offers: Sequence[OfferRow]) -> None:
        self._offers = [(offer, orjson.dumps(offer_response(offer))) for offer in offers]
        self._lists: BoundedCache[OfferFilters, StoredBody] = BoundedCache(_MAX_LIST_BYTES)

    def fitting(self, filters: OfferFilters) -> StoredBody:
        """A JSON array of the offers that match."""
        body = self._lists.get(filters)
        if body is None:
            texts = (text for offer, text in self._offers if fits(offer, filters))
            body = StoredBody(b"[" + b",".join(texts) + b"]")
            self._lists.put(filters, body)
        return body


@dataclass(frozen=True, slots=True)
class RequestKey:
    """What decides a response of one state of the book."""

    path: str
    query: str
    gzip: bool
    if_none_match: str
    origin: str
    """Empty where pages of any origin may read responses."""


@dataclass(frozen=True, slots=True)
class ReadyResponse:
    """A response without the headers that differ by request."""

    status: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    route: str

    @property
    def size(self) -> int:
        """Approximate memory in bytes."""
        return _RESPONSE_OVERHEAD_BYTES + len(self.body)


@dataclass(frozen=True, slots=True)
class EncodedBook:
    """One state of the book with its finished answers."""

    book: Book
    listing: Listing
    summary: StoredBody
    records: BoundedCache[RecordKey, StoredBody] = field(
        default_factory=lambda: BoundedCache(_MAX_RECORD_BYTES)
    )
    """Providers and orders that exist and were asked for."""
    responses: BoundedCache[RequestKey, ReadyResponse] = field(
        default_factory=lambda: BoundedCache(_MAX_RESPONSE_BYTES)
    )
    """Whole responses that were asked for (`api.orderbook.ready`)."""


@dataclass(frozen=True, slots=True)
class _Cached:
    state: EncodedBook
    notified: _Notified
    """Before its read began."""
    checked_at: float
    """When its last check began, by the monotonic clock."""


@dataclass(frozen=True, slots=True)
class BookAnswer:
    """A body, None for an unknown name, and the book that it is as of.

    `state` is the cached state that the body is of; None where it was read for this request alone.
    """

    book: Book
    body: StoredBody | None
    state: EncodedBook | None = None


class Books:
    """The order book of one chain. All methods raise `OrderBookNotReady` before the first ledger.

    Threads share it. Without a listener nothing is cached.
    """

    def __init__(
        self,
        engine: Engine,
        chain: ChainId,
        listener: NotificationListener | None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._chain = chain
        self._monotonic = monotonic
        self._caches = listener is not None
        self._lock = threading.Lock()
        """Held while one thread reads."""
        self._cached: _Cached | None = None
        self._notified = _Notified()
        if listener is not None:
            listener.subscribe(self._on_notification)

    def offers(self, filters: OfferFilters) -> BookAnswer:
        """The offers that match."""
        state = self._current()
        return BookAnswer(state.book, state.listing.fitting(filters), state)

    def summary(self) -> BookAnswer:
        """Depth, in total and by rail."""
        state = self._current()
        return BookAnswer(state.book, state.summary, state)

    def provider(self, address: StellarAddress) -> BookAnswer:
        """A provider's record."""

        def read(connection: Connection, book: Book) -> Any:
            closed = book.takes_no_orders
            found = queries.provider(connection, address, takes_no_orders=closed)
            return None if found is None else provider_response(*found)

        return self._record(address, read)

    def activity(self, address: StellarAddress) -> BookAnswer:
        """What became of a provider's orders lately."""
        return self._record(
            ActivityOf(address),
            lambda connection, book: recent_activity(connection, book, address),
        )

    def newest(self, wanted: RecentOrders) -> BookAnswer:
        """The newest orders (intents)."""
        return self._record(
            wanted,
            lambda connection, _: [
                order_response(order) for order in recent_orders(connection, wanted)
            ],
        )

    def order(self, order_id: Bytes32) -> BookAnswer:
        """An order (intent)."""

        def read(connection: Connection, _: Book) -> Any:
            order = queries.order(connection, order_id)
            return None if order is None else order_response(order)

        return self._record(order_id, read)

    def _record(self, key: RecordKey, read: ReadRecord) -> BookAnswer:
        state = self._current()
        cached = state.records.get(key)
        if cached is not None:
            return BookAnswer(state.book, cached, state)
        with read_snapshot(self._engine) as connection:
            book = queries.require_book(connection, self._chain)
            found = read(connection, book)
        body = None if found is None else StoredBody(orjson.dumps(found))
        # Misses are not cached: the number of unknown names is unbounded.
        if found and body is not None and book == state.book:
            state.records.put(key, body)
            return BookAnswer(book, body, state)
        return BookAnswer(book, body)

    def state_without_reading(self) -> EncodedBook | None:
        """The cached state, unless it is time to check it and no other thread does."""
        cached = self._cached
        if cached is None or cached.notified != self._notified:
            return None
        age = self._monotonic() - cached.checked_at
        is_fresh = age < _REFRESH_SECONDS or (age < FRESH_SECONDS and self._lock.locked())
        return cached.state if is_fresh else None

    def _current(self) -> EncodedBook:
        """Raises also `Unavailable` when another thread's read takes too long."""
        if not self._caches:
            return self._read(None)
        cached, now = self._cached, self._monotonic()
        if cached is not None and (
            cached.notified != self._notified or now - cached.checked_at >= FRESH_SECONDS
        ):
            cached = None
        if cached is not None and now - cached.checked_at < _REFRESH_SECONDS:
            return cached.state
        if not self._lock.acquire(timeout=_READ_TIMEOUT_SECONDS if cached is None else 0):
            if cached is None:
                raise Unavailable("the database is slow right now", code="DATABASE_UNAVAILABLE")
            return cached.state
        try:
            return self._refresh(now)
        finally:
            self._lock.release()

    def _refresh(self, requested_at: float) -> EncodedBook:
        """Check, and read what changed, unless another thread has done so since the request."""
        cached = self._cached
        if (
            cached is not None
            and cached.checked_at >= requested_at
            and cached.notified == self._notified
        ):
            return cached.state
        notified, now = self._notified, self._monotonic()
        # After a lost session this may be another server, where versions mean nothing.
        if cached is not None and cached.notified.resyncs == notified.resyncs:
            state = self._read(cached.state)
        else:
            state = self._read(None)
        self._cached = _Cached(state, notified, now)
        return state

    def _read(self, known: EncodedBook | None) -> EncodedBook:
        if known is not None:
            # One statement without a transaction: one round trip.
            with self._engine.connect() as connection:
                autocommit = connection.execution_options(isolation_level="AUTOCOMMIT")
                book = queries.require_book(autocommit, self._chain)
            if book == known.book:
                return known
            if book.last_message == known.book.last_message:
                return _encoded(book, known.listing)
        with read_snapshot(self._engine) as connection:
            book = queries.require_book(connection, self._chain)
            listing = Listing(queries.offers(connection))
        return _encoded(book, listing)

    def _on_notification(self, event: Notification) -> None:
        """In the listener's thread, the only writer of the counts."""
        resyncs, commits = self._notified
        match event:
            case Resync():
                self._notified = _Notified(resyncs + 1, commits)
            case Committed(chain=chain):
                if chain == self._chain:
                    self._notified = _Notified(resyncs, commits + 1)
            case TransfersChanged():
                pass
            case _:
                assert_never(event)


def _encoded(book: Book, listing: Listing) -> EncodedBook:
    return EncodedBook(book, listing, StoredBody(orjson.dumps(summary_response(book))))
