"""The order book as a fold over ledgers. Pure: no clock but the ledger's, no chain, no database.

`fold_ledger` computes what one ledger changes, `advance` applies it to the state. Events are
applied in order across both contracts; then orders whose `expires_at` lies before the close time
expire; then each affected provider's offers are compared with its published ones, which gives the
ledger's net messages. The cost of an event does not grow with a provider's history: counters are
stored, finished orders are not read, depth changes by the difference of two contributions.

Contradictions (a gap in a provider's sequence numbers, balances that do not add up, an order that
ends twice or was never seen to open) raise a `BookAlarm` and mark the provider stale. Offers of a
stale provider are not listed. Its events still count: `free_after` and `locked_after` are absolute,
so balances stay right through any gap. Values derived from its orders (reclaimable locks) are 0,
because an order may have ended unseen. Only a rebuild from complete facts
(`indexer.ingest.gap_repair` completes them) clears `stale`.
"""

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from indexer.orderbook import orders as order_rules
from indexer.orderbook.depth import NO_TOTALS, Contribution, contribution, shift_depth, shift_totals
from indexer.orderbook.event_folds import FOLDS, Draft
from indexer.orderbook.offers import OfferChanges, compare, offer_entry, offers_of
from indexer.orderbook.orders import OrderRow, order_entry
from indexer.orderbook.state import (
    BookAlarm,
    BookChanges,
    BookEvent,
    BookState,
    BookTurn,
    LedgerClose,
    ProviderBook,
)
from warehouse_schema.identifiers import BaseUnits, Bytes32, StellarAddress, UnixSeconds


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One row of `projections.stream_events`, without id, chain and ledger."""

    channel: Literal["orderbook", "intent"]
    op: Literal["add", "update", "remove"] | None
    entry: Mapping[str, Any]
    """The full offer or order, members named as columns, amounts as strings of digits."""
    last: bool = False


def _expire_by_clock(draft: Draft) -> None:
    ids = {*_expired_ids(draft.state.expiries, draft.now), *draft.orders}
    due = [
        order
        for order in map(draft.order, ids)
        if order is not None
        and order.status == "active"
        and order_rules.is_past_expiry(order, draft.now)
    ]
    for order in sorted(due, key=lambda order: (order.expires_at, order.order_id)):
        draft.publish_order(order_rules.expire_order(order))
        figures = draft.book(order.provider).figures
        reclaimable = figures.reclaimable + order.lp_lock if figures.stale is None else 0
        draft.set_figures(
            figures._replace(
                active_orders=figures.active_orders - 1,
                reclaimable=BaseUnits(reclaimable),
            )
        )


def _expired_ids(
    heap: Sequence[tuple[UnixSeconds, Bytes32]], now: UnixSeconds
) -> Iterator[Bytes32]:
    """Orders of the heap that expire before `now`; the heap is not changed.

    No child of a heap entry is earlier, so only expired entries and their children are read.
    """
    open_nodes = [0]
    while open_nodes:
        node = open_nodes.pop()
        if node < len(heap) and heap[node][0] < now:
            yield heap[node][1]
            open_nodes += (2 * node + 1, 2 * node + 2)


def fold_ledger(state: BookState, ledger: LedgerClose, events: Sequence[BookEvent]) -> BookChanges:
    """Compute what a ledger changes. `events`: of both contracts, by position.

    The state is not changed. It must hold what the events name, and every order that the close time
    has passed (`store.load_state` loads both).
    """
    draft = _draft(state, ledger, events)
    for provider in _providers_under(draft):
        draft.books.setdefault(provider, state.books[provider])
    return _published(draft, ledger)


def advance(state: BookState, changes: BookChanges) -> None:
    """Apply a ledger's changes to the state they were computed from."""
    state.as_of = changes.ledger
    state.config = changes.config
    state.rails.update(changes.rails)
    state.totals = changes.totals
    state.books.update((provider, turn.after) for provider, turn in changes.books.items())
    for rail, row in changes.depth.items():
        state.depth[rail] = row
        if row.offer_count == 0:
            del state.depth[rail]
    _take_orders(state, changes.orders, changes.ledger.close_time)


def messages(offers: OfferChanges, intents: Sequence[OrderRow]) -> list[StreamEvent]:
    """The messages of one ledger: removes, adds, updates, then intents; the final one is `last`.

    Removes come first: a changed set of rails removes one offer and adds another.
    """
    sent = [
        *(StreamEvent("orderbook", "remove", offer_entry(offer)) for offer in offers.removed),
        *(StreamEvent("orderbook", "add", offer_entry(offer)) for offer in offers.added),
        *(StreamEvent("orderbook", "update", offer_entry(offer)) for offer in offers.updated),
        *(StreamEvent("intent", None, order_entry(order)) for order in intents),
    ]
    return [*sent[:-1], *(replace(final, last=True) for final in sent[-1:])]


@dataclass(slots=True)
class BookRebuild:
    """A fold of all history: the state so far, and the newest alarm per kind and subject.

    Ledgers without events may be skipped, except the last: an expiry that is found later gives the
    same state. Offers and depth are computed once, after the last ledger.
    """

    state: BookState = field(default_factory=BookState)
    alarms: dict[tuple[str, str], BookAlarm] = field(default_factory=dict)
    """By kind and subject."""
    events: int = 0

    def take(self, ledger: LedgerClose, events: Sequence[BookEvent]) -> Mapping[Bytes32, OrderRow]:
        """Fold one ledger; returns the orders it opened or changed."""
        state = self.state
        draft = _draft(state, ledger, events)
        self.alarms.update(((alarm.kind, alarm.subject), alarm) for alarm in draft.alarms)
        self.events += len(events)
        state.as_of, state.config = ledger, draft.config
        state.rails.update(draft.rails)
        state.books.update(draft.books)
        _take_orders(state, draft.orders, ledger.close_time)
        return draft.orders

    def publish(self) -> None:
        """Compute offers and depth as of the last ledger, if there was one."""
        state = self.state
        if state.as_of is not None:
            everyone = Draft(state, state.as_of.close_time, state.config, books=dict(state.books))
            advance(state, _published(everyone, state.as_of, first=True))


def combine(ledgers: Sequence[BookChanges]) -> BookChanges:
    """Merge the row changes of consecutive ledgers.

    Offers and intents are empty: messages belong to their ledger.
    """
    books: dict[StellarAddress, BookTurn] = {}
    for changes in ledgers:
        for provider, turn in changes.books.items():
            first = books.get(provider, turn).before
            books[provider] = BookTurn(first, turn.after)
    last = ledgers[-1]
    return BookChanges(
        ledger=last.ledger,
        config=last.config,
        rails={name: rail for changes in ledgers for name, rail in changes.rails.items()},
        books=books,
        orders={key: order for changes in ledgers for key, order in changes.orders.items()},
        depth={rail: row for changes in ledgers for rail, row in changes.depth.items()},
        totals=last.totals,
        offers=OfferChanges(),
        intents=(),
        alarms=tuple(alarm for changes in ledgers for alarm in changes.alarms),
    )


def _draft(state: BookState, ledger: LedgerClose, events: Sequence[BookEvent]) -> Draft:
    draft = Draft(state, ledger.close_time, state.config)
    for event in events:
        FOLDS[type(event)](draft, event)
    _expire_by_clock(draft)
    return draft


def _providers_under(draft: Draft) -> list[StellarAddress]:
    """Known providers whose offers a contract-wide event may change."""
    books = draft.state.books
    if draft.pause_changed:
        return list(books)
    if not draft.rails:
        return []
    return [
        name for name, book in books.items() if any(key.rail in draft.rails for key in book.terms)
    ]


def _published(draft: Draft, ledger: LedgerClose, *, first: bool = False) -> BookChanges:
    """Compute the offers of every provider in the draft, and the changes.

    `first`: nothing was published before, as after a rebuild.
    """
    state = draft.state
    rails = {**state.rails, **draft.rails} if draft.rails else state.rails
    paused = draft.config.takes_no_orders
    books = {
        provider: BookTurn(
            None if first else state.books.get(provider),
            replace(
                book,
                offers=offers_of(book.figures, book.terms.values(), book.payees, rails, paused),
            ),
        )
        for provider, book in draft.books.items()
    }
    moves = [(_part(turn.before), _part(turn.after)) for turn in books.values()]
    return BookChanges(
        ledger=ledger,
        config=draft.config,
        rails=draft.rails,
        books=books,
        orders=draft.orders,
        depth=shift_depth(state.depth, moves),
        totals=shift_totals(state.totals, moves),
        offers=compare(
            {
                key: row
                for turn in books.values()
                if turn.before
                for key, row in turn.before.offers.items()
            },
            {key: row for turn in books.values() for key, row in turn.after.offers.items()},
        ),
        intents=tuple(draft.intents),
        alarms=tuple(draft.alarms),
    )


def _part(book: ProviderBook | None) -> Contribution:
    if book is None:
        return Contribution(NO_TOTALS, {})
    return contribution(book.figures, book.offers.values())


def _take_orders(
    state: BookState, changed: Mapping[Bytes32, OrderRow], close_time: UnixSeconds
) -> None:
    for order_id, order in changed.items():
        if order.status == "active" and order_id not in state.orders:
            state.watch_expiry(order)
        state.orders[order_id] = order
    while state.expiries and state.expiries[0][0] < close_time:
        heapq.heappop(state.expiries)
