"""Refold of the order book: fold all history, compare it with the stored book, replace it.

Rows go to scratch tables of the session, each order as soon as it has ended on chain. Memory holds
the providers, the open orders and one window of events, for any length of history. Postgres
compares the tables, and only rows that differ are written.

    refold = Refold(conn, chain)
    refold.take(book_history(conn, chain))      repeat for newer ledgers, in one session
    refold.finish()
    refold.differences(table, shown) or refold.replace_stored()
    refold.drop()
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeAlias

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Delete,
    FromClause,
    MetaData,
    Table,
    and_,
    delete,
    exists,
    func,
    not_,
    or_,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import Insert, insert

from indexer.facts.alarms import clear_alarm, raise_alarm
from indexer.facts.rows import copy_rows
from indexer.facts.store import last_block, read_events
from indexer.garbage import rare_collections
from indexer.orderbook.event_folds import ESCROW, FOLDS
from indexer.orderbook.fold import BookRebuild, messages
from indexer.orderbook.offers import OfferRow, compare
from indexer.orderbook.orders import OrderRow
from indexer.orderbook.state import BookAlarm, BookEvent, LedgerClose
from indexer.orderbook.store import BOOK_TABLES, rows_of, write_messages
from warehouse_schema import projections as tables
from warehouse_schema.facts import alarms
from warehouse_schema.identifiers import MAX_HEIGHT, Bytes32, ChainId, Height
from warehouse_schema.queries import any_of

WINDOW_EVENTS = 4_000
"""Events between two removals of ended orders from memory."""

_LOWEST = Height(0)

LedgerEvents: TypeAlias = Iterable[tuple[LedgerClose, Sequence[BookEvent]]]
Row: TypeAlias = tuple[Any, ...]


def book_history(
    conn: Connection, chain: ChainId, first: Height = _LOWEST, last: Height = MAX_HEIGHT
) -> Iterator[tuple[LedgerClose, list[BookEvent]]]:
    """Each ledger of `first … last` with book events, and the last one, for the clock."""
    ledger = None
    events: Iterator[Any] = read_events(conn, FOLDS, chain, first, last)
    for _, own in groupby(events, key=lambda event: event.seen.height):
        together = list(own)
        seen = together[0].seen
        ledger = LedgerClose(chain, seen.height, seen.block_time)
        yield ledger, together
    newest = last_block(conn, chain, first, last)
    if newest is not None and (ledger is None or newest.height > ledger.height):
        yield LedgerClose(chain, newest.height, newest.time), []


@dataclass(frozen=True, slots=True)
class BookDifference:
    """Differences between a stored table and a refold: counts, and the first rows."""

    table: Table
    added: int
    removed: int
    changed: int
    first: tuple[tuple[Row | None, Row | None], ...]
    """Each as (stored, refolded); None for a missing row."""


class Refold:
    """A running fold of all history. Its scratch tables are visible to its session only."""

    def __init__(self, conn: Connection, chain: ChainId) -> None:
        """Create the scratch tables, in the caller's transaction."""
        self.book = BookRebuild()
        self.orders = 0
        """Count of the whole book, once finished."""
        self._conn, self._chain = conn, chain
        self.drop()
        for scratch in _SCRATCH.values():
            scratch.create(conn)

    def drop(self) -> None:
        """Remove the scratch tables."""
        for scratch in _SCRATCH.values():
            scratch.drop(self._conn, checkfirst=True)

    def take(self, history: LedgerEvents) -> None:
        """Fold more ledgers, all above those before."""
        with rare_collections(25 * WINDOW_EVENTS):
            for window in _windows(history):
                self._take(window)

    def _take(self, window: LedgerEvents) -> None:
        # Ended orders that are named again are reloaded; a sound contract never does that. New
        # orders of the window are not found, by one index lookup each.
        named = {
            event.order_id for _, events in window for event in events if hasattr(event, "order_id")
        }
        orders = self.book.state.orders
        if gone := named - orders.keys():
            again = delete(_ORDERS).where(_ORDERS.c.order_id == any_of(gone)).returning(_ORDERS)
            back = [OrderRow(*row) for row in self._conn.execute(again)]
            orders.update((order.order_id, order) for order in back)
            self.orders -= len(back)
        ended: dict[Bytes32, OrderRow] = {}
        for ledger, events in window:
            changed = self.book.take(ledger, events)
            ended |= {key: row for key, row in changed.items() if row.chain_status != "open"}
        self.orders += copy_rows(self._conn, _ORDERS, ended.values())
        for order_id in ended:
            del self.book.state.orders[order_id]

    def finish(self) -> None:
        """Compute offers and depth as of the last ledger, and write all remaining rows."""
        self.book.publish()
        self.orders += len(self.book.state.orders)
        rows = rows_of(self.book.state)
        for table, scratch in _SCRATCH.items():
            copy_rows(self._conn, scratch, rows[table.name])
            # Autovacuum does not analyze temporary tables; without statistics the planner would
            # join a million orders by nested loops.
            quoted = self._conn.dialect.identifier_preparer.format_table(scratch)
            self._conn.exec_driver_sql(f"ANALYZE {quoted}")

    def differences(self, table: Table, shown: int) -> BookDifference:
        """Differences of the stored table from this fold, with up to `shown` rows."""
        pair = _Pair(table, self._chain)
        gone, come = pair.fresh.c[pair.keys[0]].is_(None), pair.stored.c[pair.keys[0]].is_(None)
        counts = select(func.count(), func.count().filter(gone), func.count().filter(come))
        rows, removed, added = self._conn.execute(pair.differing(counts)).one()
        columns = select(*pair.stored.c, *pair.fresh.c)
        order = (func.coalesce(pair.stored.c[key], pair.fresh.c[key]) for key in pair.keys)
        query = pair.differing(columns).order_by(*order)
        first = (pair.split(row) for row in self._conn.execute(query.limit(shown)))
        return BookDifference(table, added, removed, rows - added - removed, tuple(first))

    def replace_stored(self) -> bool:
        """Replace the stored book and its alarms by this fold, and publish the differences.

        The caller's transaction must exclude other writers. Returns False if nothing differed.
        """
        reconcile_alarms(self._conn, self._chain, self.book.alarms.values(), self.book.state.books)
        if self.book.state.as_of is not None:
            self._publish_differences(self.book.state.as_of)
        rows = 0
        for table in BOOK_TABLES:
            pair = _Pair(table, self._chain)
            for statement in (pair.deletion(), pair.insertion()):
                rows += self._conn.execute(statement, execution_options=_COUNTED).rowcount
        if rows:
            # Readers detect a changed book by this row's transaction.
            pair = _Pair(tables.book, self._chain)
            self._conn.execute(delete(tables.book).where(tables.book.c.chain == self._chain))
            self._conn.execute(pair.insertion())
        return rows > 0

    def _publish_differences(self, ledger: LedgerClose) -> None:
        """Write the messages that turn a client's copy of the stored book into this one.

        Offers, and orders whose status differs. If nothing was stored, no client knows an order:
        only offers are sent.
        """
        stored = self._conn.execute(select(tables.offers))
        offered = (OfferRow(**row._mapping) for row in stored)
        listed = {offer.key: offer for offer in offered}
        books = self.book.state.books.values()
        offers = compare(listed, {key: row for book in books for key, row in book.offers.items()})
        is_stored = exists().where(tables.book.c.chain == self._chain)
        pair = _Pair(tables.orders, self._chain)
        joined = pair.fresh.join(pair.stored, pair.same_key, isouter=True)
        query = (
            select(pair.fresh)
            .select_from(joined)
            .where(pair.fresh.c.status.is_distinct_from(pair.stored.c.status), is_stored)
            .order_by(pair.fresh.c.created_at, pair.fresh.c.order_id)
        )
        orders = [OrderRow(*row) for row in self._conn.execute(query)]
        sent = [(ledger, message) for message in messages(offers, orders)]
        write_messages(self._conn, sent, revised=True)


def reconcile_alarms(
    conn: Connection, chain: ChainId, folded: Iterable[BookAlarm], providers: Collection[str]
) -> None:
    """Clear the book's alarms that a fold of all facts does not raise; raise the new ones.

    An alarm that an operator cleared stays cleared.
    """
    raised = {(alarm.kind, alarm.subject): alarm for alarm in folded}
    columns = (alarms.c.kind, alarms.c.subject, alarms.c.cleared_at)
    known = conn.execute(select(*columns).where(alarms.c.chain == chain)).all()
    for kind, subject, cleared_at in known:
        is_ours = subject == ESCROW or subject in providers
        if cleared_at is None and is_ours and (kind, subject) not in raised:
            clear_alarm(conn, chain, kind, subject)
    for key in raised.keys() - {(row.kind, row.subject) for row in known}:
        raise_alarm(conn, chain, *key, raised[key].detail)


def _windows(history: LedgerEvents) -> Iterator[list[tuple[LedgerClose, Sequence[BookEvent]]]]:
    """Ledgers in groups of about `WINDOW_EVENTS` events."""
    window, held = [], 0
    for ledger, events in history:
        window.append((ledger, events))
        held += len(events)
        if held >= WINDOW_EVENTS:
            yield window
            window, held = [], 0
    if window:
        yield window


def _scratch(table: Table) -> Table:
    columns = (
        Column(column.name, column.type, primary_key=column.primary_key, nullable=column.nullable)
        for column in table.columns
    )
    return Table(f"refolded_{table.name}", MetaData(), *columns, prefixes=["TEMPORARY"])


_SCRATCH: Mapping[Table, Table] = {table: _scratch(table) for table in BOOK_TABLES}
_ORDERS = _SCRATCH[tables.orders]
_COUNTED = {"preserve_rowcount": True}


class _Pair:
    """A stored table of one chain and its scratch."""

    def __init__(self, table: Table, chain: ChainId) -> None:
        self.table = table
        self.names = table.columns.keys()
        self.keys = [column.name for column in table.primary_key]
        # Most tables of the one order book have no chain column.
        self.is_ours = table.c.chain == chain if "chain" in table.c else true()
        self.fresh = _SCRATCH[table]
        self.stored = select(table).where(self.is_ours).subquery("stored")
        self.same_key = _same(self.keys, self.stored, self.fresh)

    def differing(self, query: Any) -> Any:
        """The query over both tables, on rows that differ."""
        unlike = (self.stored.c[name].is_distinct_from(self.fresh.c[name]) for name in self.names)
        joined = self.stored.join(self.fresh, self.same_key, full=True)
        return query.select_from(joined).where(or_(*unlike))

    def split(self, row: Sequence[Any]) -> tuple[Row | None, Row | None]:
        """Columns of both tables as (stored, fresh); None for a missing row."""
        width, key = len(self.names), self.names.index(self.keys[0])
        stored, fresh = tuple(row[:width]), tuple(row[width:])
        return (None if stored[key] is None else stored, None if fresh[key] is None else fresh)

    def deletion(self) -> Delete:
        """Deletes stored rows that differ from the fold or are missing in it."""
        same = _same(self.keys, self.table, self.fresh)
        alike = (self.table.c[name].is_not_distinct_from(self.fresh.c[name]) for name in self.names)
        return delete(self.table).where(self.is_ours, not_(exists().where(same, *alike)))

    def insertion(self) -> Insert:
        """Inserts the rows that are not stored.

        `ON CONFLICT` checks by key: with an anti-join, the statistics of a table that was empty
        would give a plan that scans it for each row.
        """
        rows = insert(self.table).from_select(self.names, select(self.fresh))
        return rows.on_conflict_do_nothing()


def _same(names: Iterable[str], one: FromClause, other: FromClause) -> ColumnElement[bool]:
    return and_(*(one.c[name] == other.c[name] for name in names))
