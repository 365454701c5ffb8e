"""Reads the order book and its outbox for the stream.

A reader's position is a ledger and the id of the last outbox row up to it, read in one snapshot.
Ids are assigned under one lock that is held until commit: a later commit has a higher id, and a
transaction's rows are visible all or not at all.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, Row, not_, select

from api.orderbook import queries
from api.stream.messages import BookChange, ListedOffer, book_change, listed_offer
from indexer.orderbook.offers import OfferKey
from indexer.orderbook.store import RETAINED_LEDGERS
from warehouse_schema import projections as tables
from warehouse_schema.identifiers import ChainId, Height, UnixSeconds

MAX_UNREAD = 20_000
"""Rows read at once; a reader that is further behind starts from a new snapshot."""

_rows = tables.stream_events.c


@dataclass(frozen=True, slots=True)
class ReadPosition:
    """The ledger and outbox row up to which everything was read."""

    ledger: Height
    close_time: UnixSeconds
    position: int
    """Id of the last row."""


@dataclass(frozen=True, slots=True)
class OutboxBatch:
    """The changes of one ledger, or a rebuild's corrections as of it."""

    ledger: Height
    position: int
    """Id of its last row."""
    revised: bool
    """From a rebuild."""
    changes: tuple[BookChange, ...]

    def apply_to(self, book: dict[OfferKey, ListedOffer]) -> None:
        """Update a book with the changes of offers."""
        for change in self.changes:
            if change.offer is not None and change.op == "remove":
                book.pop(change.offer.key, None)
            elif change.offer is not None:
                book[change.offer.key] = change.offer


@dataclass(frozen=True, slots=True)
class BookSnapshot:
    """The whole book."""

    at: ReadPosition
    offers: tuple[ListedOffer, ...]


@dataclass(frozen=True, slots=True)
class BookMessages:
    """The changes up to a position."""

    at: ReadPosition
    batches: tuple[OutboxBatch, ...]


def read_book_snapshot(connection: Connection, chain: ChainId) -> BookSnapshot:
    """The book now. Raises `OrderBookNotReady`."""
    now = _position(queries.require_book(connection, chain))
    return BookSnapshot(now, tuple(listed_offer(offer) for offer in queries.offers(connection)))


def read_since(connection: Connection, chain: ChainId, since: ReadPosition) -> BookMessages | None:
    """The changes since a position; None when the outbox has gaps and a new snapshot is needed.

    That is after a pause in which rows were deleted unread, or when the warehouse was restored to
    an earlier state.
    """
    book = queries.read_book(connection, chain)
    if book is None or not 0 <= book.ledger - since.ledger <= RETAINED_LEDGERS:
        return None
    now = _position(book)
    if 0 < now.position < since.position:
        return None
    rows = _read_rows(connection, chain, _rows.id > since.position, limit=MAX_UNREAD)
    if rows is None:
        return None
    # An empty outbox has no last id.
    at = replace(now, position=max(now.position, since.position))
    return BookMessages(at, tuple(_batches(rows)))


def read_missed(
    connection: Connection, chain: ChainId, after: Height, *, limit: int
) -> BookMessages | None:
    """The changes after a ledger; None when they are not exactly known, or more than the limit.

    Rows are deleted by whole ledgers, oldest first, so a remaining row of an earlier ledger proves
    that none after it is gone. A rebuild's rows prove nothing: they hold a difference to what was
    stored, not their ledger. And a client at the ledger of a rebuild may have either book.
    """
    book = queries.read_book(connection, chain)
    if book is None or after > book.ledger:
        return None
    if _exists(connection, chain, _rows.ledger == after, _rows.revised):
        return None
    if after < book.ledger and not _exists(
        connection, chain, _rows.ledger <= after + 1, not_(_rows.revised)
    ):
        return None
    rows = _read_rows(connection, chain, _rows.ledger > after, limit=limit)
    return None if rows is None else BookMessages(_position(book), tuple(_batches(rows)))


def _position(book: queries.Book) -> ReadPosition:
    # An empty outbox has no last id.
    return ReadPosition(book.ledger, book.close_time, book.last_message or 0)


def _exists(connection: Connection, chain: ChainId, *conditions: Any) -> bool:
    rows = select(_rows.id).where(_rows.chain == chain, *conditions)
    return bool(connection.scalar(select(rows.exists())))


def _read_rows(
    connection: Connection, chain: ChainId, condition: Any, *, limit: int
) -> Sequence[Row[Any]] | None:
    query = select(tables.stream_events).where(_rows.chain == chain, condition)
    rows = connection.execute(query.order_by(_rows.id).limit(limit + 1)).all()
    return None if len(rows) > limit else rows


def _batches(rows: Iterable[Row[Any]]) -> Iterator[OutboxBatch]:
    for (ledger, revised), group in groupby(rows, key=lambda row: (row.ledger, row.revised)):
        batch = list(group)
        yield OutboxBatch(
            ledger=ledger,
            position=batch[-1].id,
            revised=revised,
            changes=tuple(book_change(row.channel, row.op, row.entry, ledger) for row in batch),
        )
