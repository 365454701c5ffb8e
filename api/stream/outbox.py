"""Reads the order book and its outbox for the stream.

A reader's position is a ledger and the id of the last outbox row up to it, read in one snapshot.
Ids are assigned under one lock that is held until commit: a later commit has a higher id, and a
transaction's rows are visible all or not at all.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import psycopg
from psycopg.rows import namedtuple_row
from sqlalchemy import Connection, bindparam, func, not_, select, true
from sqlalchemy.engine import make_url

from api.orderbook import queries
from api.stream.messages import BookChange, ListedOffer, book_change, listed_offer
from indexer.orderbook.offers import OfferKey
from indexer.orderbook.store import RETAINED_LEDGERS
from warehouse_schema import projections as tables
from warehouse_schema.identifiers import ChainId, Height, UnixSeconds

MAX_UNREAD = 20_000
"""Rows read at once; a reader that is further behind starts from a new snapshot."""

_rows = tables.stream_events.c


def _since_query() -> str:
    """The book's clock beside each message after an id; without messages, one row of the clock.

    One statement is one snapshot. Each process runs it at each commit, so it is text for the
    driver: through SQLAlchemy it takes three times as long, in a transaction of its own ten times.
    """
    book, of_chain = tables.book.c, bindparam("chain", type_=_rows.chain.type)
    newest = select(func.max(_rows.id)).scalar_subquery()
    news = (
        select(tables.stream_events)
        .where(_rows.chain == of_chain, _rows.id > bindparam("position", type_=_rows.id.type))
        .order_by(_rows.id)
        .limit(bindparam("at_most", type_=_rows.id.type))
        .lateral("news")
    )
    query = (
        select(book.as_of_ledger, book.as_of, newest.label("last_message"), news)
        .join_from(tables.book, news, true(), isouter=True)
        .where(book.chain == of_chain)
        .order_by(news.c.id)
    )
    return str(query.compile(dialect=make_url("postgresql+psycopg://").get_dialect()()))


_SINCE = _since_query()


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


def read_since(
    session: "psycopg.Connection[Any]", chain: ChainId, since: ReadPosition
) -> BookMessages | None:
    """The changes since a position; None when the outbox has gaps and a new snapshot is needed.

    That is after a pause in which rows were deleted unread, or when the warehouse was restored to
    an earlier state. Raises the driver's errors.
    """
    values = {"chain": chain, "position": since.position, "at_most": MAX_UNREAD + 1}
    with session.cursor(row_factory=namedtuple_row) as cursor:
        found: list[Any] = cursor.execute(_SINCE, values).fetchall()
    if not found or not 0 <= found[0].as_of_ledger - since.ledger <= RETAINED_LEDGERS:
        return None
    book = found[0]
    if 0 < (book.last_message or 0) < since.position:
        return None
    rows = [row for row in found if row.id is not None]
    if len(rows) > MAX_UNREAD:
        return None
    # An empty outbox has no last id.
    position = max(book.last_message or 0, since.position)
    at = ReadPosition(Height(book.as_of_ledger), UnixSeconds(book.as_of), position)
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
    query = select(tables.stream_events).where(_rows.chain == chain, _rows.ledger > after)
    rows: Sequence[Any] = connection.execute(query.order_by(_rows.id).limit(limit + 1)).all()
    return None if len(rows) > limit else BookMessages(_position(book), tuple(_batches(rows)))


def _position(book: queries.Book) -> ReadPosition:
    # An empty outbox has no last id.
    return ReadPosition(book.ledger, book.close_time, book.last_message or 0)


def _exists(connection: Connection, chain: ChainId, *conditions: Any) -> bool:
    rows = select(_rows.id).where(_rows.chain == chain, *conditions)
    return bool(connection.scalar(select(rows.exists())))


def _batches(rows: Iterable[Any]) -> Iterator[OutboxBatch]:
    for (ledger, revised), group in groupby(rows, key=lambda row: (row.ledger, row.revised)):
        batch = list(group)
        yield OutboxBatch(
            ledger=ledger,
            position=batch[-1].id,
            revised=revised,
            changes=tuple(book_change(row.channel, row.op, row.entry, ledger) for row in batch),
        )
