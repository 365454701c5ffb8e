"""The order book in Postgres: load what ledgers affect, write what they change. No rules here.

A range of ledgers is one load, one fold per ledger in memory, and one save, in the caller's
transaction; the number of statements grows neither with the range nor with a provider's history.

Every writer also writes the row of `book`: caches of readers are invalidated by it. Stream messages
are written with the rows; their ids are given under one lock that is held until commit, so a reader
that continues from its last id misses none.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any

from sqlalchemy import Connection, Table, and_, bindparam, delete, or_, select
from sqlalchemy.dialects.postgresql import insert

from indexer.chains.events import Event
from indexer.facts.row_locks import lock_names
from indexer.facts.rows import copy_into
from indexer.market.escrow_events import EscrowPausedSet
from indexer.market.rail_terms_events import RailSet
from indexer.metrics.collectors import waiting
from indexer.orderbook.depth import RailDepthRow, Totals
from indexer.orderbook.event_folds import FOLDS
from indexer.orderbook.fold import StreamEvent, advance, combine, fold_ledger, messages
from indexer.orderbook.offers import OfferKey, OfferRow, PayeeRow, RailRow, TermsKey, TermsRow
from indexer.orderbook.orders import OrderRow
from indexer.orderbook.providers import ProviderRow
from indexer.orderbook.state import (
    BookAlarm,
    BookChanges,
    BookConfig,
    BookEvent,
    BookState,
    BookTurn,
    LedgerClose,
    ProviderBook,
)
from warehouse_schema import locks
from warehouse_schema import projections as tables
from warehouse_schema.identifiers import ChainId, StellarAddress, UnixSeconds
from warehouse_schema.queries import any_of

RETAINED_LEDGERS = 20_000
"""Ledgers whose messages are retained, about a day. After a longer absence a client reads the whole
book, as on every new connection."""

PRUNE_INTERVAL = 100
"""Ledgers between two deletions of old messages."""

BOOK_TABLES: tuple[Table, ...] = (
    tables.book,
    tables.rails,
    tables.terms,
    tables.payees,
    tables.providers,
    tables.orders,
    tables.offers,
    tables.depth,
)
"""The whole book, without the outbox `stream_events`."""

Rows = dict[str, list[tuple[Any, ...]]]
"""Table name → rows of all its columns, in order of key."""


def apply_ledgers(
    conn: Connection, ledgers: Sequence[LedgerClose], events: Sequence[Event]
) -> list[BookAlarm]:
    """Fold consecutive ledgers of a chain into the stored book; returns its alarms.

    Events of other contracts are skipped. Raises `ValueError` when a ledger is not above the last
    one folded or an event lies in none of them.
    """
    if not ledgers:
        return []
    ours: list[Any] = [event for event in events if type(event) in FOLDS]
    ours.sort(key=lambda event: (event.seen.height, event.seen.position))
    by_ledger = {
        height: list(own) for height, own in groupby(ours, lambda event: event.seen.height)
    }
    if strange := by_ledger.keys() - {ledger.height for ledger in ledgers}:
        raise ValueError(f"ledger {min(strange)} of an event is not among the ledgers")
    state = load_state(conn, ledgers[0].chain, ours, ledgers[-1].close_time)
    folded: list[BookChanges] = []
    for ledger in ledgers:
        if state.as_of is not None and ledger.height <= state.as_of.height:
            raise ValueError(f"ledger {ledger.height} is folded already, to {state.as_of.height}")
        changes = fold_ledger(state, ledger, by_ledger.get(ledger.height, []))
        advance(state, changes)
        folded.append(changes)
    save(conn, folded)
    return [alarm for changes in folded for alarm in changes.alarms]


# Load.


def load_state(
    conn: Connection, chain: ChainId, events: Sequence[BookEvent], close_time: UnixSeconds
) -> BookState:
    """The part of the book that these events, and the clock up to `close_time`, can change."""
    named = [event.order_id for event in events if hasattr(event, "order_id")]
    order = tables.orders.c
    query = select(tables.orders).where(
        or_(
            order.order_id == any_of(named),
            and_(order.status == "active", order.expires_at < close_time),
        )
    )
    orders = {row.order_id: OrderRow(**row._mapping) for row in conn.execute(query)}
    state = BookState(orders=orders)
    book = conn.execute(select(tables.book).where(tables.book.c.chain == chain)).one_or_none()
    if book is not None:
        state.as_of = LedgerClose(chain, book.as_of_ledger, book.as_of)
        state.totals = Totals(book.total_available, book.total_locked, book.offer_count)
        state.config = BookConfig(**{name: getattr(book, name) for name in BookConfig.__slots__})
    if not events and not state.orders:
        return state  # Only the clock advances.
    state.rails = {row.rail: RailRow(**row._mapping) for row in conn.execute(select(tables.rails))}
    state.depth = {
        row.rail: RailDepthRow(row.available, row.offer_count)
        for row in conn.execute(select(tables.depth))
    }
    for active in state.orders.values():
        if active.status == "active":
            state.watch_expiry(active)
    state.books = _load_books(conn, _affected_providers(conn, events, state.orders.values()))
    return state


def _affected_providers(
    conn: Connection, events: Sequence[BookEvent], orders: Iterable[OrderRow]
) -> set[StellarAddress]:
    """Providers that are named, own an order that may expire, or are under a wider change."""
    names = {event.provider for event in events if hasattr(event, "provider")}
    names |= {order.provider for order in orders}
    if any(isinstance(event, EscrowPausedSet) for event in events):
        names |= set(conn.scalars(select(tables.providers.c.provider)))
    rails = {event.rail for event in events if isinstance(event, RailSet)}
    if rails:
        on_them = tables.terms.c.rail == any_of(rails)
        names |= set(conn.scalars(select(tables.terms.c.provider).where(on_them).distinct()))
    return names


def _load_books(conn: Connection, names: set[StellarAddress]) -> dict[StellarAddress, ProviderBook]:
    if not names:
        return {}
    terms: dict[StellarAddress, dict[TermsKey, TermsRow]] = {name: {} for name in names}
    payees: dict[StellarAddress, dict[str, PayeeRow]] = {name: {} for name in names}
    offers: dict[StellarAddress, dict[OfferKey, OfferRow]] = {name: {} for name in names}
    for row in _rows_of_providers(conn, tables.terms, names):
        standing = TermsRow(**row._mapping)
        terms[row.provider][standing.key] = standing
    for row in _rows_of_providers(conn, tables.payees, names):
        payees[row.provider][row.rail] = PayeeRow(**row._mapping)
    for row in _rows_of_providers(conn, tables.offers, names):
        offer = OfferRow(**row._mapping)
        offers[row.provider][offer.key] = offer
    return {
        name: ProviderBook(ProviderRow(**row._mapping), terms[name], payees[name], offers[name])
        for row in _rows_of_providers(conn, tables.providers, names)
        for name in (StellarAddress(row.provider),)
    }


def _rows_of_providers(conn: Connection, table: Table, names: set[StellarAddress]) -> Any:
    return conn.execute(select(table).where(table.c.provider == any_of(names)))


# Save.


def save(conn: Connection, ledgers: Sequence[BookChanges]) -> None:
    """Write the changes of consecutive ledgers: the last rows, and every ledger's messages."""
    changes = combine(ledgers)
    first, last = ledgers[0].ledger.height, changes.ledger.height
    _upsert(conn, tables.book, [_book_row(changes.ledger, changes)])
    _upsert(conn, tables.rails, map(_VALUES[tables.rails], changes.rails.values()))
    _save_books(conn, changes.books.values())
    _upsert(conn, tables.orders, map(_VALUES[tables.orders], changes.orders.values()))
    depth = changes.depth.items()
    _delete(conn, tables.depth, [(rail,) for rail, row in depth if not row.offer_count])
    listed = ((rail, row.available, row.offer_count) for rail, row in depth if row.offer_count)
    _upsert(conn, tables.depth, listed)
    sent = [
        (each.ledger, message)
        for each in ledgers
        for message in messages(each.offers, each.intents)
    ]
    write_messages(conn, sent, revised=False)
    if last // PRUNE_INTERVAL * PRUNE_INTERVAL >= first:
        stored = tables.stream_events.c
        old = stored.ledger < last - RETAINED_LEDGERS
        conn.execute(delete(tables.stream_events).where(stored.chain == changes.ledger.chain, old))


def _save_books(conn: Connection, turns: Iterable[BookTurn]) -> None:
    changed: dict[Table, list[tuple[Any, ...]]] = {table: [] for table in _PROVIDER_TABLES}
    gone: dict[Table, list[tuple[Any, ...]]] = {table: [] for table in _PROVIDER_TABLES}
    for turn in turns:
        for table in _PROVIDER_TABLES:
            before = _keyed(table, turn.before)
            after = _keyed(table, turn.after)
            changed[table] += [row for key, row in after.items() if before.get(key) != row]
            gone[table] += before.keys() - after.keys()
    for table in _PROVIDER_TABLES:
        _delete(conn, table, gone[table])
        _upsert(conn, table, changed[table])


_PROVIDER_TABLES = (tables.providers, tables.terms, tables.payees, tables.offers)


def _keyed(table: Table, book: ProviderBook | None) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """The rows that a provider has in a table, by primary key."""
    if book is None:
        return {}
    things: dict[Table, Iterable[object]] = {
        tables.providers: (book.figures,),
        tables.terms: book.terms.values(),
        tables.payees: book.payees.values(),
        tables.offers: book.offers.values(),
    }
    keys = [column.name for column in table.primary_key]
    return {
        tuple(getattr(thing, name) for name in keys): _VALUES[table](thing)
        for thing in things[table]
    }


def write_messages(
    conn: Connection, sent: Sequence[tuple[LedgerClose, StreamEvent]], *, revised: bool
) -> None:
    """Write messages with their ledgers; `revised`: of a refolded book."""
    if not sent:
        return
    with waiting("lock"):
        lock_names(conn, locks.STREAM, [""])
    names = ("chain", "ledger", "channel", "op", "entry", "last", "revised")
    rows = (
        (ledger.chain, ledger.height, each.channel, each.op, each.entry, each.last, revised)
        for ledger, each in sent
    )
    copy_into(conn, [tables.stream_events.c[name] for name in names], rows)


def _upsert(conn: Connection, table: Table, rows: Iterable[tuple[Any, ...]]) -> None:
    """Insert full rows, or replace those with the same key."""
    values = [dict(zip(table.columns.keys(), row, strict=True)) for row in rows]
    if not values:
        return
    statement = insert(table)
    keys = table.primary_key.columns.keys()
    new = {name: value for name, value in statement.excluded.items() if name not in keys}
    conn.execute(statement.on_conflict_do_update(index_elements=keys, set_=new), values)


def _delete(conn: Connection, table: Table, keys: Sequence[tuple[Any, ...]]) -> None:
    if not keys:
        return
    columns = list(table.primary_key)
    match = [column == bindparam(f"key_{column.name}", type_=column.type) for column in columns]
    names = [f"key_{column.name}" for column in columns]
    values = [dict(zip(names, key, strict=True)) for key in keys]
    conn.execute(delete(table).where(*match), values)


_VALUES: Mapping[Table, Callable[[object], tuple[Any, ...]]] = {
    table: attrgetter(*(column.name for column in table.columns)) for table in BOOK_TABLES
}
"""Table → the fields of an object that its columns name, in their order."""


def _book_row(ledger: LedgerClose, book: BookChanges | BookState) -> tuple[Any, ...]:
    config = (getattr(book.config, name) for name in BookConfig.__slots__)
    totals = book.totals
    figures = (totals.available, totals.locked, totals.offer_count)
    return (ledger.chain, ledger.height, ledger.close_time, *config, *figures)


def rows_of(state: BookState) -> Rows:
    """The state as rows of every table, in order of key."""
    books = state.books.values()
    rows: dict[Table, Iterable[tuple[Any, ...]]] = {
        tables.book: [] if state.as_of is None else [_book_row(state.as_of, state)],
        tables.rails: map(_VALUES[tables.rails], state.rails.values()),
        tables.orders: map(_VALUES[tables.orders], state.orders.values()),
        tables.depth: ((rail, row.available, row.offer_count) for rail, row in state.depth.items()),
    }
    for table in _PROVIDER_TABLES:
        rows[table] = [row for book in books for row in _keyed(table, book).values()]
    ordered: Rows = {}
    for table in BOOK_TABLES:
        key = itemgetter(*(list(table.columns).index(column) for column in table.primary_key))
        ordered[table.name] = sorted(rows[table], key=key)
    return ordered
