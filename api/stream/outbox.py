"""What the stream reads of the warehouse: the book to begin with, then the outbox.

A reader stands at a ledger and at the id of the last message up to it, both read in one snapshot.
Ids are given out under one lock that is held until commit, so whatever commits later has a higher
one, and a transaction's messages are seen all or not at all.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, Row, not_, select

from api.errors import OrderBookNotReady
from api.orderbook import queries
from api.stream.messages import Change, Listed, change, listed
from indexer.orderbook.store import RETAINED_LEDGERS
from warehouse_schema import projections as tables
from warehouse_schema.identifiers import ChainId, Height, UnixSeconds

MOST_UNREAD = 20_000
"""Messages read at once: whoever is further behind begins anew."""

_stored = tables.stream_events.c


@dataclass(frozen=True, slots=True)
class ReadPosition:
    """Up to where a reader knows everything."""

    ledger: Height
    close_time: UnixSeconds
    position: int
    """Id of the last message."""


@dataclass(frozen=True, slots=True)
class OutboxBatch:
    """What one ledger changed, or what a rebuild mended as of it."""

    ledger: Height
    position: int
    """Id of its last message."""
    revised: bool
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Start:
    """The whole book, to begin with."""

    standing: ReadPosition
    offers: tuple[Listed, ...]


@dataclass(frozen=True, slots=True)
class BookMessages:
    """What came since a standing."""

    standing: ReadPosition
    batches: tuple[OutboxBatch, ...]


@dataclass(frozen=True, slots=True)
class Missed:
    """What came since a ledger that a client has the book of, and up to which id."""

    position: int
    batches: tuple[OutboxBatch, ...]


def read_start(connection: Connection, chain: ChainId) -> Start:
    """The book now. Raises `OrderBookNotReady`."""
    now = _standing(connection, chain)
    if now is None:
        raise OrderBookNotReady(f"no ledger of {chain} has been folded yet")
    return Start(now, tuple(listed(offer) for offer in queries.offers(connection)))


def read_on(connection: Connection, chain: ChainId, since: ReadPosition) -> BookMessages | None:
    """What came since; None when the outbox cannot say, and the book must be read anew.

    That is after a pause in which messages were dropped unread, or in a warehouse that was put back
    to an earlier state.
    """
    now = _standing(connection, chain)
    if now is None or not 0 <= now.ledger - since.ledger <= RETAINED_LEDGERS:
        return None
    if 0 < now.position < since.position:
        return None
    rows = _messages(connection, chain, _stored.id > since.position, most=MOST_UNREAD)
    if rows is None:
        return None
    # An outbox that has run empty names no position.
    standing = replace(now, position=max(now.position, since.position))
    return BookMessages(standing, tuple(_batches(rows)))


def read_missed(
    connection: Connection, chain: ChainId, after: Height, *, most: int
) -> Missed | None:
    """What came after a ledger; None when that cannot be told exactly, or in so many messages.

    Messages go by whole ledgers, the oldest first, so one of an earlier ledger that is still there
    shows that none after it is gone. What a rebuild says does not count: it stands for a difference
    to what was stored, not for its ledger. And a client at the very ledger of a rebuild may have
    either book.
    """
    now = _standing(connection, chain)
    if now is None or after > now.ledger or _was_revised(connection, chain, after):
        return None
    if after < now.ledger and not _is_held(connection, chain, after):
        return None
    rows = _messages(connection, chain, _stored.ledger > after, most=most)
    return None if rows is None else Missed(now.position, tuple(_batches(rows)))


def _standing(connection: Connection, chain: ChainId) -> ReadPosition | None:
    found = queries.read_book(connection, chain)
    if found is None:
        return None
    mark, book = found
    # An outbox that is empty names no message.
    return ReadPosition(book.ledger, book.close_time, mark.last_message or 0)


def _was_revised(connection: Connection, chain: ChainId, ledger: Height) -> bool:
    rows = select(_stored.id).where(
        _stored.chain == chain, _stored.ledger == ledger, _stored.revised
    )
    return bool(connection.scalar(select(rows.exists())))


def _is_held(connection: Connection, chain: ChainId, after: Height) -> bool:
    rows = select(_stored.id).where(
        _stored.chain == chain, _stored.ledger <= after + 1, not_(_stored.revised)
    )
    return bool(connection.scalar(select(rows.exists())))


def _messages(
    connection: Connection, chain: ChainId, condition: Any, *, most: int
) -> Sequence[Row[Any]] | None:
    query = select(tables.stream_events).where(_stored.chain == chain, condition)
    rows = connection.execute(query.order_by(_stored.id).limit(most + 1)).all()
    return None if len(rows) > most else rows


def _batches(rows: Iterable[Row[Any]]) -> Iterator[OutboxBatch]:
    for (ledger, revised), group in groupby(rows, key=lambda row: (row.ledger, row.revised)):
        messages = list(group)
        yield OutboxBatch(
            ledger=ledger,
            position=messages[-1].id,
            revised=revised,
            changes=tuple(change(row.channel, row.op, row.entry, ledger) for row in messages),
        )
