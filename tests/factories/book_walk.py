"""Walks a random history ledger by ledger, and after each holds everything against the slow book.

Once through the fold alone and once through Postgres, where a client believes each message of the
stream. What differs is an `AssertionError`.
"""

from collections.abc import Mapping, Sequence
from itertools import chain as concatenated
from typing import Any

from sqlalchemy import Connection, Table, select

from indexer.orderbook.fold import StreamEvent, advance, fold_ledger, messages
from indexer.orderbook.refold import Refold
from indexer.orderbook.state import BookAlarm, BookEvent, BookState, LedgerClose
from indexer.orderbook.store import BOOK_TABLES, apply_ledgers, rows_of
from tests.factories.book import CHAIN
from tests.factories.book_history import Ledger, RandomHistory
from tests.factories.slow_book import Row, slow_book, slow_rows
from warehouse_schema.projections import stream_events

OFFER_AMOUNTS = ("rate", "min", "max", "available", "locked")


def events_of(history: Sequence[Ledger]) -> list[BookEvent]:
    """The events of some ledgers, in order."""
    return list(concatenated.from_iterable(events for _, events in history))


def flat(history: Sequence[Ledger]) -> tuple[list[LedgerClose], list[BookEvent]]:
    """Ledgers and events as `apply_ledgers` takes them."""
    return [ledger for ledger, _ in history], events_of(history)


def expected_rows(history: Sequence[Ledger]) -> dict[str, list[Any]]:
    """The slow book's rows after the last of these ledgers."""
    last = history[-1][0]
    return slow_rows(events_of(history), CHAIN, last.height, last.close_time)


class Client:
    """Keeps offers by identity and orders by id, and believes what it is told."""

    def __init__(self) -> None:
        self.offers: dict[tuple[str, ...], Mapping[str, Any]] = {}
        self.statuses: dict[str, str] = {}

    def hear(self, said: Sequence[StreamEvent]) -> None:
        """Apply the messages of one ledger, which must come in the promised order."""
        assert [message.last for message in said] == [False] * (len(said) - 1) + [True] * bool(said)
        order = {"remove": 0, "add": 1, "update": 2, None: 3}
        assert [order[m.op] for m in said] == sorted(order[m.op] for m in said)
        for message in said:
            self.hear_one(message.channel, message.op, message.entry)

    def hear_one(self, channel: str, op: str | None, entry: Mapping[str, Any]) -> None:
        """Apply one message."""
        if channel == "intent":
            self.statuses[entry["order_id"]] = entry["status"]
        else:
            self._apply(str(op), entry)

    def _apply(self, op: str, entry: Mapping[str, Any]) -> None:
        key = _identity(entry)
        if op == "remove":
            assert self.offers.pop(key, None) is not None, "what goes was there"
        else:
            assert (op == "add") == (key not in self.offers), "what comes is new, what moves is not"
            self.offers[key] = entry

    def check(self, history: Sequence[Ledger]) -> None:
        """Holds the client's book against the slow one after these ledgers."""
        last = history[-1][0]
        book = slow_book(events_of(history), CHAIN, last.height, last.close_time)
        listed = [_as_entry(offer) for offer in book["offers"]]
        assert self.offers == {_identity(entry): entry for entry in listed}
        assert self.statuses == {order["order_id"]: order["status"] for order in book["orders"]}


def _identity(entry: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(entry[name]) for name in ("provider", "direction", "currency", "rails"))


def _as_entry(offer: Row) -> Row:
    amounts = {name: str(offer[name]) for name in OFFER_AMOUNTS}
    return offer | amounts | {"rails": list(offer["rails"])}


def walk_pure(story: RandomHistory, ledgers: int) -> list[Ledger]:
    """Fold ledger by ledger and check after each; the ledgers."""
    state, history, client = BookState(), list[Ledger](), Client()
    for _ in range(ledgers):
        history.append(story.ledger())
        before = rows_of(state)
        changes = fold_ledger(state, *history[-1])
        assert rows_of(state) == before, "a fold changes nothing by itself"
        assert changes.alarms == ()
        advance(state, changes)
        assert rows_of(state) == expected_rows(history)
        client.hear(messages(changes.offers, changes.intents))
        client.check(history)
        _check_contract(story, state)
    return history


def _check_contract(story: RandomHistory, state: BookState) -> None:
    """The contract's own books are what the providers' figures say, and it holds what it owes."""
    for name, account in story.model.accounts.items():
        if account.pseq or account.tseq:
            figures = state.books[name].figures
            assert (figures.free, figures.locked) == (account.free, account.locked)
            assert (figures.pseq, figures.tseq) == (account.pseq, account.tseq)
    assert story.model.custody() == story.model.owed()


def walk_stored(conn: Connection, story: RandomHistory, ledgers: int) -> list[Ledger]:
    """Apply ledger by ledger to the stored book and check after each; the ledgers."""
    history, client = list[Ledger](), Client()
    read = last_message(conn)
    for _ in range(ledgers):
        history.append(story.ledger())
        assert apply_range(conn, history[-1:]) == []
        assert dump(conn) == expected_rows(history)
        told = stream(conn, after=read)
        read = told[-1].id if told else read
        assert {row.ledger for row in told} <= {history[-1][0].height}
        client.hear([StreamEvent(row.channel, row.op, row.entry, row.last) for row in told])
        client.check(history)
    return history


def apply_range(conn: Connection, history: Sequence[Ledger]) -> list[BookAlarm]:
    """Apply some ledgers at once."""
    return apply_ledgers(conn, *flat(history))


def dump(conn: Connection) -> dict[str, list[Any]]:
    """Every row of every table of the stored book, in order of key."""
    return {table.name: _rows(conn, table) for table in BOOK_TABLES}


def _rows(conn: Connection, table: Table) -> list[Any]:
    names = [column.name for column in table.columns]
    places = [names.index(column.name) for column in table.primary_key]
    rows = [
        tuple(tuple(value) if isinstance(value, list) else value for value in row)
        for row in conn.execute(select(table))
    ]
    return sorted(rows, key=lambda row: [row[place] for place in places])


def refolded(conn: Connection, history: Sequence[Ledger]) -> Refold:
    """A finished refold of these ledgers."""
    refold = Refold(conn, CHAIN)
    refold.take(history)
    refold.finish()
    return refold


def last_message(conn: Connection) -> int:
    """The id of the newest message; 0 when there is none."""
    newest = select(stream_events.c.id).order_by(stream_events.c.id.desc()).limit(1)
    return conn.scalar(newest) or 0


def stream(conn: Connection, *, after: int = 0) -> list[Any]:
    """Messages in order, from an id on."""
    query = select(stream_events).where(stream_events.c.id > after)
    return list(conn.execute(query.order_by(stream_events.c.id)))
