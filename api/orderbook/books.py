"""The order book as this process last read it, and when it must be read again.

A state is served only while both hold:

- no notification came since its read began (`api.notifications`): a commit is seen by the first
  request after its NOTIFY has arrived;
- that read, or the last look at Postgres that found nothing changed, began less than `LEASE` ago.
  So an answer is never older than that, whatever becomes of the listener or of a NOTIFY.

One thread reads at a time; who comes meanwhile waits for it, and reads again if what it read was
overtaken. A look costs one short statement; only what has changed is read.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, assert_never

import orjson
from sqlalchemy import Connection, Engine

from api.deps import read_snapshot
from api.errors import OrderBookNotReady, Unavailable
from api.notifications import (
    Committed,
    Notification,
    NotificationListener,
    Resync,
    TransfersChanged,
)
from api.orderbook import queries
from api.orderbook.filters import OfferFilters
from api.orderbook.prepared import Listing, Prepared, RecordKey
from api.orderbook.queries import Book, Mark
from api.orderbook.recent import RecentOrders, recent_orders
from api.orderbook.responses import shape_order, shape_provider, shape_summary
from api.responses import StoredBody
from warehouse_schema.identifiers import Bytes32, ChainId, StellarAddress

LEASE = 0.09
"""Seconds that a state is served without another look."""
_LOOK_AHEAD = 0.05
"""Seconds after which one request looks again while the others still go on: they need not wait."""
_PATIENCE = 5.0
"""Seconds to wait for another thread's read."""


class Heard(NamedTuple):
    """How much was told so far; what was read under an older count is overtaken."""

    unsure: int = 0
    committed: int = 0


@dataclass(frozen=True, slots=True)
class _Held:
    prepared: Prepared
    heard: Heard
    """Before the read of it began."""
    looked_at: float
    """When the last look at it began, by the monotonic clock."""


@dataclass(frozen=True, slots=True)
class BookAnswer:
    """A body, None where nothing of that name is known, and the book that it is as of."""

    book: Book
    body: StoredBody | None


class Books:
    """The order book of one chain, for one process."""

    def __init__(
        self,
        engine: Engine,
        chain: ChainId,
        changes: NotificationListener | None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._chain = chain
        self._monotonic = monotonic
        self._keeps = changes is not None
        self._reading = threading.Lock()
        self._held: _Held | None = None
        self._heard = Heard()
        if changes is not None:
            changes.subscribe(self._hear)

    def offers(self, filters: OfferFilters) -> BookAnswer:
        """The offers that fit. Raises `OrderBookNotReady` before the first ledger, as all do."""
        prepared = self._current()
        return BookAnswer(prepared.book, prepared.listing.fitting(filters))

    def summary(self) -> BookAnswer:
        """Depth, in total and by rail."""
        prepared = self._current()
        return BookAnswer(prepared.book, prepared.summary)

    def provider(self, address: StellarAddress) -> BookAnswer:
        """A provider's record."""

        def read(connection: Connection, book: Book) -> Any:
            closed = book.takes_no_orders
            view = queries.provider(connection, address, takes_no_orders=closed)
            return None if view is None else shape_provider(view)

        return self._record(address, read)

    def newest(self, wanted: RecentOrders) -> BookAnswer:
        """The newest orders (intents)."""

        def read(connection: Connection, _: Book) -> Any:
            return [shape_order(order) for order in recent_orders(connection, wanted)]

        return self._record(wanted, read)

    def order(self, order_id: Bytes32) -> BookAnswer:
        """An order (intent)."""

        def read(connection: Connection, _: Book) -> Any:
            order = queries.order(connection, order_id)
            return None if order is None else shape_order(order)

        return self._record(order_id, read)

    def _record(self, key: RecordKey, read: Callable[[Connection, Book], Any]) -> BookAnswer:
        """What `read` finds, shaped for JSON; None where nothing of that name is known."""
        prepared = self._current()
        known = prepared.records.get(key)
        if known is not None:
            return BookAnswer(prepared.book, known)
        with read_snapshot(self._engine) as connection:
            mark, book = self._open(connection)
            found = read(connection, book)
        body = None if found is None else StoredBody(orjson.dumps(found))
        # Nothing is not kept: there is no end to the names that nothing has.
        if found and body is not None and mark == prepared.mark:
            prepared.records.put(key, body)
        return BookAnswer(book, body)

    def _current(self) -> Prepared:
        """Raises `OrderBookNotReady`, and `Unavailable` when another thread's read takes long."""
        if not self._keeps:
            return self._read(None)
        held, now = self._held, self._monotonic()
        if held is not None and not self._is_fresh(held, now):
            held = None
        if held is not None and now - held.looked_at < _LOOK_AHEAD:
            return held.prepared
        # While one thread looks again, the others are still served what is fresh.
        if not self._reading.acquire(timeout=_PATIENCE if held is None else 0):
            if held is None:
                raise Unavailable("the database is slow right now", code="DATABASE_UNAVAILABLE")
            return held.prepared
        try:
            return self._look(now)
        finally:
            self._reading.release()

    def _look(self, asked_at: float) -> Prepared:
        """Read what changed since the last look, unless another thread did after `asked_at`."""
        held = self._held
        if held is not None and held.looked_at >= asked_at and held.heard == self._heard:
            return held.prepared
        heard, now = self._heard, self._monotonic()
        # Another server's marks mean nothing here, and a lost session may come back to another one.
        is_of_this_run = held is not None and held.heard.unsure == heard.unsure
        prepared = self._read(held.prepared if held is not None and is_of_this_run else None)
        self._held = _Held(prepared, heard, now)
        return prepared

    def _read(self, known: Prepared | None) -> Prepared:
        if known is not None and self._mark() == known.mark:
            return known
        with read_snapshot(self._engine) as connection:
            mark, book = self._open(connection)
            if known is not None and known.mark.last_message == mark.last_message:
                listing = known.listing
            else:
                listing = Listing(queries.offers(connection))
            depth = queries.depth(connection)
        return Prepared(
            mark, book, listing, StoredBody(orjson.dumps(shape_summary(book.totals, depth)))
        )

    def _mark(self) -> Mark | None:
        """One statement, no transaction around it: one way to Postgres and back."""
        with self._engine.connect() as connection:
            alone = connection.execution_options(isolation_level="AUTOCOMMIT")
            found = queries.read_book(alone, self._chain)
        return None if found is None else found[0]

    def _open(self, connection: Connection) -> tuple[Mark, Book]:
        found = queries.read_book(connection, self._chain)
        if found is None:
            raise OrderBookNotReady(f"no ledger of {self._chain} has been folded yet")
        return found

    def _is_fresh(self, held: _Held, now: float) -> bool:
        return held.heard == self._heard and now - held.looked_at < LEASE

    def _hear(self, told: Notification) -> None:
        """In the listener's thread, which alone counts."""
        unsure, committed = self._heard
        match told:
            case Resync():
                self._heard = Heard(unsure + 1, committed)
            case Committed(chain=chain):
                if chain == self._chain:
                    self._heard = Heard(unsure, committed + 1)
            case TransfersChanged():
                pass
            case _:
                assert_never(told)
