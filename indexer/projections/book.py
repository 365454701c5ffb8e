"""The order book as a fold over ledgers. Pure: no clock but the ledger's, no chain, no database.

`fold_ledger(state, ledger, events)` says what one ledger changes; `advance(state, changes)` takes
the change in. A ledger's events are applied in their order across both contracts, then the clock:
orders whose `expires_at` lies before the ledger's close time expire. Then each touched provider's
offers are compared with those published before, which gives the net messages of the ledger.

The cost of an event does not depend on a provider's history: counters are kept, finished orders are
never looked at, and depth moves by the difference of the touched providers' contributions.

What does not follow from what is known (a gap in a provider's numbers, balances that do not add
up, an order that ends twice or was never seen to open) raises an `Alarm` and marks the provider
stale. A stale provider's offers are no longer listed, because nobody can vouch for them. Its events
still count: `free_after` and `locked_after` are absolute, so the chain's word on balances stays
right through any gap, and freezing them would only add a second error. What is derived from its
orders (reclaimable locks) is left out, because an order may have ended unseen. Nothing heals a
stale provider but a rebuild from complete facts.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from indexer.events.common import Event
from indexer.events.escrow import (
    EscrowConfigSet,
    EscrowDeposit,
    EscrowEvent,
    EscrowPausedSet,
    EscrowUpgraded,
    EscrowWithdraw,
    OrderCancel,
    OrderExpire,
    OrderFulfill,
    OrderOpen,
)
from indexer.events.rail_terms import (
    PayeeSet,
    ProviderSet,
    RailSet,
    RailTermsEvent,
    TermsDel,
    TermsSet,
)
from indexer.projections import orders as order_rules
from indexer.projections.depth import (
    NOTHING,
    Contribution,
    RailDepth,
    Totals,
    contribution,
    shift_depth,
    shift_totals,
)
from indexer.projections.offers import (
    Offer,
    OfferChanges,
    OfferKey,
    Payee,
    Rail,
    Terms,
    TermsKey,
    compare,
    offer_entry,
    offers_of,
    published_handle,
)
from indexer.projections.orders import Order, OrderEnd, order_entry
from indexer.projections.providers import (
    ZERO,
    BalanceEvent,
    Provider,
    balance_objection,
    terms_objection,
)
from warehouse_schema.identifiers import (
    BaseUnits,
    Bytes32,
    ChainId,
    Height,
    StellarAddress,
    UnixSeconds,
)

BookEvent: TypeAlias = EscrowEvent | RailTermsEvent

ESCROW = "escrow"
"""What an alarm is about that is about the contract as a whole."""

FULL_BOND_BPS = 10_000
"""The one offramp bond under which `available` is also the largest offramp order."""

ESCROW = "escrow"
"""What an alarm is about that is about the contract as a whole."""

KNOWN_SCHEMA = 1
"""Version of the Escrow contract whose rules this fold knows."""


@dataclass(frozen=True, slots=True)
class LedgerClose:
    """A closed ledger: the order book's clock."""

    chain: ChainId
    height: Height
    close_time: UnixSeconds


@dataclass(frozen=True, slots=True)
class Alarm:
    """What an operator must look at; one row of `facts.alarms`."""

    kind: str
    subject: str
    """A provider's address, or `ESCROW`."""
    detail: str


@dataclass(frozen=True, slots=True)
class BookConfig:
    """The Escrow contract's configuration; the first six are None before `config_set`."""

    token: StellarAddress | None = None
    rail_terms: StellarAddress | None = None
    fee_to: StellarAddress | None = None
    order_ttl: int | None = None
    bond_bps: int | None = None
    max_open: int | None = None
    opens_paused: bool = False
    all_paused: bool = False

    @property
    def takes_no_orders(self) -> bool:
        """Whether the contract refuses to open orders."""
        return self.opens_paused or self.all_paused


@dataclass(frozen=True, slots=True)
class ProviderBook:
    """All that is known of one provider but its orders. Its mappings are never changed in place."""

    figures: Provider
    terms: Mapping[TermsKey, Terms] = field(default_factory=dict)
    payees: Mapping[str, Payee] = field(default_factory=dict)
    offers: Mapping[OfferKey, Offer] = field(default_factory=dict)
    """As published by the last ledger."""


@dataclass(slots=True)
class BookState:
    """The book, or the part of it that the next ledgers touch. Changed by `advance` alone."""

    as_of: LedgerClose | None = None
    config: BookConfig = BookConfig()
    rails: dict[str, Rail] = field(default_factory=dict)
    books: dict[StellarAddress, ProviderBook] = field(default_factory=dict)
    orders: dict[Bytes32, Order] = field(default_factory=dict)
    depth: dict[str, RailDepth] = field(default_factory=dict)
    totals: Totals = NOTHING
    expiries: list[tuple[UnixSeconds, Bytes32]] = field(default_factory=list)
    """Heap of (expires_at, order) over the active orders; may name orders that have ended."""

    def watch_expiry(self, order: Order) -> None:
        """Let the clock find an active order."""
        heapq.heappush(self.expiries, (order.expires_at, order.order_id))


@dataclass(frozen=True, slots=True)
class BookTurn:
    """A provider before and after; `before` is None for a provider never seen."""

    before: ProviderBook | None
    after: ProviderBook


@dataclass(frozen=True, slots=True)
class BookChanges:
    """What one ledger, or several in a row, change. Rows not named stay as they are."""

    ledger: LedgerClose
    config: BookConfig
    rails: Mapping[str, Rail]
    books: Mapping[StellarAddress, BookTurn]
    orders: Mapping[Bytes32, Order]
    """Orders opened or changed, as they are now."""
    depth: Mapping[str, RailDepth]
    """Rails whose depth changed; an `offer_count` of 0 means the row goes."""
    totals: Totals
    offers: OfferChanges
    intents: tuple[Order, ...]
    """Orders as clients hear of them, in order: at opening and at each final status."""
    alarms: tuple[Alarm, ...]


# One ledger in the making ---------------------------------------------------------------------


@dataclass(slots=True)
class _Draft:
    """A ledger being folded: reads through to the state, keeps every write to itself."""

    state: BookState
    now: UnixSeconds
    config: BookConfig
    rails: dict[str, Rail] = field(default_factory=dict)
    books: dict[StellarAddress, ProviderBook] = field(default_factory=dict)
    orders: dict[Bytes32, Order] = field(default_factory=dict)
    intents: list[Order] = field(default_factory=list)
    alarms: list[Alarm] = field(default_factory=list)
    pause_changed: bool = False

    def book(self, provider: StellarAddress) -> ProviderBook:
        """The provider so far; a provider first heard of starts at nothing."""
        known = self.books.get(provider) or self.state.books.get(provider)
        return known or ProviderBook(Provider(provider))

    def order(self, order_id: Bytes32) -> Order | None:
        return self.orders.get(order_id) or self.state.orders.get(order_id)

    def set_figures(self, figures: Provider) -> None:
        book = self.book(figures.provider)
        self.books[figures.provider] = ProviderBook(figures, book.terms, book.payees, book.offers)

    def publish_order(self, order: Order) -> None:
        """Keep an order whose status clients must hear of."""
        self.orders[order.order_id] = order
        self.intents.append(order)

    def distrust(self, provider: StellarAddress, kind: str, detail: str) -> None:
        """Raise an alarm, and mark the provider stale; the first reason is the one it keeps."""
        self.alarms.append(Alarm(kind, provider, detail))
        figures = self.book(provider).figures
        if figures.stale is None:
            stale = f"{kind}: {detail}"
            self.set_figures(figures._replace(stale=stale, reclaimable=ZERO))


# Escrow ---------------------------------------------------------------------------------------


def _account(draft: _Draft, event: BalanceEvent, **counters: Any) -> None:
    """Take over the balances after an Escrow event, and the provider's `counters` that it moves."""
    before = draft.book(event.provider).figures
    draft.set_figures(
        before._replace(
            pseq=event.pseq,
            free=event.free_after,
            locked=event.locked_after,
            **counters,
        )
    )
    if objection := balance_objection(before, event):
        draft.distrust(event.provider, *objection)


def _deposit(draft: _Draft, event: EscrowDeposit) -> None:
    _account(draft, event, last_active_at=draft.now)


def _withdraw(draft: _Draft, event: EscrowWithdraw) -> None:
    _account(draft, event, last_active_at=draft.now)


def _open(draft: _Draft, event: OrderOpen) -> None:
    if draft.order(event.order_id) is not None:
        _account(draft, event)
        detail = f"order {event.order_id} opened twice"
        draft.distrust(event.provider, "order_reopened", detail)
        return
    book = draft.book(event.provider)
    _account(draft, event, active_orders=book.figures.active_orders + 1)
    if draft.book(event.provider).figures.stale is None:
        for detail in order_rules.opening_breaches(event, _standing(draft, book, event)):
            draft.distrust(event.provider, "contract_rule", detail)
    draft.publish_order(order_rules.opened(event))


def _standing(draft: _Draft, book: ProviderBook, event: OrderOpen) -> order_rules.Standing:
    config = draft.config
    return order_rules.Standing(
        bond_bps=FULL_BOND_BPS if config.bond_bps is None else config.bond_bps,
        takes_orders=not (config.takes_no_orders or book.figures.paused),
        rail=draft.rails.get(event.rail) or draft.state.rails.get(event.rail),
        terms=book.terms.get(TermsKey(event.direction, event.rail, event.currency)),
        payee=book.payees.get(event.rail),
    )


def _end(draft: _Draft, event: OrderEnd) -> None:
    order = draft.order(event.order_id)
    if refused := order_rules.refusal(order, event):
        _account(draft, event)
        draft.distrust(event.provider, *refused)
        return
    assert order is not None, "refusal() names an unknown order"  # noqa: S101
    ended = order_rules.ended(order, event, draft.now)
    _account(
        draft, event, **_counters_after(draft.book(event.provider).figures, order, ended, event)
    )
    for detail in order_rules.breaches(order, event, draft.now):
        draft.distrust(event.provider, "contract_rule", detail)
    if ended.status == order.status:
        draft.orders[ended.order_id] = ended
    else:
        draft.publish_order(ended)


def _counters_after(
    figures: Provider, order: Order, ended: Order, event: OrderEnd
) -> dict[str, int | None]:
    """The provider's counters and statistics that the end of an order moves."""
    moved: dict[str, int | None] = {}
    if order.status == "active":
        moved["active_orders"] = figures.active_orders - 1
    elif figures.stale is None:
        moved["reclaimable"] = figures.reclaimable - order.lp_lock
    if ended.status == "fulfilled":
        moved["completed_orders"] = figures.completed_orders + 1
        seconds = event.seen.block_time - order.created_at
        moved["fulfillment_seconds"] = figures.fulfillment_seconds + seconds
    if isinstance(event, OrderFulfill) or (
        isinstance(event, OrderCancel) and event.by == "provider"
    ):
        moved["last_active_at"] = event.seen.block_time
    return moved


def _config_set(draft: _Draft, event: EscrowConfigSet) -> None:
    draft.config = replace(
        draft.config,
        token=event.token,
        rail_terms=event.rail_terms,
        fee_to=event.fee_to,
        order_ttl=event.order_ttl,
        bond_bps=event.bond_bps,
        max_open=event.max_open,
    )
    if event.bond_bps != FULL_BOND_BPS:
        detail = f"offramp bond set to {event.bond_bps} bps; offers are right for 10000 only"
        draft.alarms.append(Alarm("unsupported_bond", ESCROW, detail))


def _paused_set(draft: _Draft, event: EscrowPausedSet) -> None:
    draft.config = replace(draft.config, opens_paused=event.opens, all_paused=event.all)
    draft.pause_changed = True


def _upgraded(draft: _Draft, event: EscrowUpgraded) -> None:
    if event.schema != KNOWN_SCHEMA:
        detail = f"Escrow upgraded to schema {event.schema}; this build knows {KNOWN_SCHEMA}"
        draft.alarms.append(Alarm("unknown_schema", ESCROW, detail))


# RailTerms ------------------------------------------------------------------------------------


def _own_act(
    draft: _Draft, event: TermsSet | TermsDel | PayeeSet | ProviderSet, **fields: Any
) -> None:
    """Count a RailTerms event of a provider and take over the parts of its book that it sets.

    `fields` are `terms` or `payees` of the book, or `paused` of the figures.
    """
    book = draft.book(event.provider)
    figures = book.figures._replace(tseq=event.tseq, last_active_at=draft.now)
    if "paused" in fields:
        figures = figures._replace(paused=fields.pop("paused"))
    draft.books[event.provider] = replace(book, figures=figures, **fields)
    if objection := terms_objection(book.figures, event.tseq):
        draft.distrust(event.provider, *objection)


def _rail_set(draft: _Draft, event: RailSet) -> None:
    draft.rails[event.rail] = Rail(
        event.rail, event.enabled, event.tier, event.fee_bps, event.verifier, event.currencies
    )


def _terms_set(draft: _Draft, event: TermsSet) -> None:
    row = Terms(
        event.provider,
        event.direction,
        event.rail,
        event.currency,
        event.rate,
        event.min,
        event.max,
    )
    _own_act(draft, event, terms={**draft.book(event.provider).terms, row.key: row})


def _terms_del(draft: _Draft, event: TermsDel) -> None:
    gone = TermsKey(event.direction, event.rail, event.currency)
    _own_act(draft, event, terms=_without(draft.book(event.provider).terms, gone))


def _payee_set(draft: _Draft, event: PayeeSet) -> None:
    payees = _without(draft.book(event.provider).payees, event.rail)
    if event.registered and event.payee_hash is not None:
        handle = published_handle(event.handle, event.payee_hash)
        payees[event.rail] = Payee(event.provider, event.rail, event.payee_hash, handle)
    _own_act(draft, event, payees=payees)
    if event.registered and event.payee_hash is None:
        detail = f"payee on {event.rail} registered without a hash"
        draft.distrust(event.provider, "contract_rule", detail)


def _provider_set(draft: _Draft, event: ProviderSet) -> None:
    _own_act(draft, event, paused=event.paused)


def _without(rows: Mapping[Any, Any], key: Any) -> dict[Any, Any]:
    return {name: row for name, row in rows.items() if name != key}


FOLDS: dict[type[Event], Callable[[_Draft, Any], None]] = {
    EscrowConfigSet: _config_set,
    EscrowDeposit: _deposit,
    EscrowWithdraw: _withdraw,
    OrderOpen: _open,
    OrderFulfill: _end,
    OrderCancel: _end,
    OrderExpire: _end,
    EscrowPausedSet: _paused_set,
    EscrowUpgraded: _upgraded,
    RailSet: _rail_set,
    TermsSet: _terms_set,
    TermsDel: _terms_del,
    PayeeSet: _payee_set,
    ProviderSet: _provider_set,
}
"""Every event of the two contracts → what it does to a draft."""


# The clock ------------------------------------------------------------------------------------


def _expire_by_clock(draft: _Draft) -> None:
    for order in _due(draft):
        draft.publish_order(order_rules.expired_by_clock(order))
        figures = draft.book(order.provider).figures
        reclaimable = figures.reclaimable + order.lp_lock if figures.stale is None else 0
        draft.set_figures(
            figures._replace(
                active_orders=figures.active_orders - 1,
                reclaimable=BaseUnits(reclaimable),
            )
        )


def _due(draft: _Draft) -> list[Order]:
    """Active orders that the ledger's close time has passed, oldest expiry first."""
    ids = {*_expired_ids(draft.state.expiries, draft.now), *draft.orders}
    found = (draft.order(order_id) for order_id in ids)
    due = (
        order
        for order in found
        if order is not None
        and order.status == "active"
        and order_rules.is_past_expiry(order, draft.now)
    )
    return sorted(due, key=lambda order: (order.expires_at, order.order_id))


def _expired_ids(
    heap: Sequence[tuple[UnixSeconds, Bytes32]], now: UnixSeconds
) -> Iterator[Bytes32]:
    """Orders of the heap that expire before `now`, without taking them out.

    Below a heap's entry nothing is earlier, so only expired entries and their children are read.
    """
    open_nodes = [0]
    while open_nodes:
        node = open_nodes.pop()
        if node < len(heap) and heap[node][0] < now:
            yield heap[node][1]
            open_nodes += (2 * node + 1, 2 * node + 2)


# The ledger -----------------------------------------------------------------------------------


def fold_ledger(state: BookState, ledger: LedgerClose, events: Sequence[BookEvent]) -> BookChanges:
    """What a ledger changes. `events` are its events of both contracts, in order of position.

    The state is read, not changed. It must hold what the events name and every order that the
    ledger's close time has passed (`book_store.load` sees to it).
    """
    draft = _draft(state, ledger, events)
    for provider in _providers_under(draft):
        draft.books.setdefault(provider, state.books[provider])
    return _published(draft, ledger)


def advance(state: BookState, changes: BookChanges) -> None:
    """Take a ledger's changes into the state they were computed from."""
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


@dataclass(slots=True)
class Rebuilt:
    """The book from nothing: what was folded so far, and the newest alarm about each thing.

    Ledgers without events may be left out, except the last: an expiry that is found later ends in
    the same state. Offers and depth are worked out once, after the last ledger.
    """

    state: BookState = field(default_factory=BookState)
    alarms: dict[tuple[str, str], Alarm] = field(default_factory=dict)
    """By kind and subject."""
    events: int = 0

    def take(self, ledger: LedgerClose, events: Sequence[BookEvent]) -> Mapping[Bytes32, Order]:
        """Fold one ledger; the orders it opened or changed."""
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
        """Work out offers and depth as of the last ledger; nothing if there was none."""
        state = self.state
        if state.as_of is not None:
            everyone = _Draft(state, state.as_of.close_time, state.config, books=dict(state.books))
            advance(state, _published(everyone, state.as_of, first=True))


def rebuild(history: Iterable[tuple[LedgerClose, Sequence[BookEvent]]]) -> Rebuilt:
    """The book from nothing, all of it in memory."""
    rebuilt = Rebuilt()
    for ledger, events in history:
        rebuilt.take(ledger, events)
    rebuilt.publish()
    return rebuilt


def combine(ledgers: Sequence[BookChanges]) -> BookChanges:
    """The changes of ledgers in a row as one, for the rows they leave behind.

    Offers and intents are left empty: what each ledger said stays with that ledger.
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


def _draft(state: BookState, ledger: LedgerClose, events: Sequence[BookEvent]) -> _Draft:
    draft = _Draft(state, ledger.close_time, state.config)
    for event in events:
        FOLDS[type(event)](draft, event)
    _expire_by_clock(draft)
    return draft


def _providers_under(draft: _Draft) -> list[StellarAddress]:
    """Known providers whose offers a contract-wide event of the ledger may change."""
    books = draft.state.books
    if draft.pause_changed:
        return list(books)
    if not draft.rails:
        return []
    return [
        name for name, book in books.items() if any(key.rail in draft.rails for key in book.terms)
    ]


def _published(draft: _Draft, ledger: LedgerClose, *, first: bool = False) -> BookChanges:
    """Work out the offers of every provider in the draft, and what they change.

    `first`: nothing was published before, as after a rebuild.
    """
    state = draft.state
    rails = {**state.rails, **draft.rails} if draft.rails else state.rails
    books = {
        provider: BookTurn(
            None if first else state.books.get(provider),
            _with_offers(book, rails, draft.config.takes_no_orders),
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


def _with_offers(book: ProviderBook, rails: Mapping[str, Rail], paused: bool) -> ProviderBook:
    offers = offers_of(book.figures, book.terms.values(), book.payees, rails, paused)
    return replace(book, offers=offers)


def _part(book: ProviderBook | None) -> Contribution:
    if book is None:
        return Contribution(NOTHING, {})
    return contribution(book.figures, book.offers.values())


def _take_orders(
    state: BookState, changed: Mapping[Bytes32, Order], close_time: UnixSeconds
) -> None:
    for order_id, order in changed.items():
        if order.status == "active" and order_id not in state.orders:
            state.watch_expiry(order)
        state.orders[order_id] = order
    while state.expiries and state.expiries[0][0] < close_time:
        heapq.heappop(state.expiries)


# What clients hear ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Message:
    """One row of `projections.stream_events`, but its id, chain and ledger."""

    channel: Literal["orderbook", "intent"]
    op: Literal["add", "update", "remove"] | None
    entry: Mapping[str, Any]
    """The full offer or order, members named as columns, amounts as strings of digits."""
    last: bool = False


def messages(offers: OfferChanges, intents: Sequence[Order]) -> list[Message]:
    """The messages of one ledger: removes, adds, updates, then intents; the final one is `last`.

    Removes come first because a changed set of rails is one offer's end and another's beginning.
    """
    said = [
        *(Message("orderbook", "remove", offer_entry(offer)) for offer in offers.removed),
        *(Message("orderbook", "add", offer_entry(offer)) for offer in offers.added),
        *(Message("orderbook", "update", offer_entry(offer)) for offer in offers.updated),
        *(Message("intent", None, order_entry(order)) for order in intents),
    ]
    return [*said[:-1], *(replace(final, last=True) for final in said[-1:])]
