"""The effect of each event of the two contracts on a ledger's draft: `FOLDS`. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from indexer.chains.events import Event
from indexer.market.escrow_events import (
    EscrowConfigSet,
    EscrowDeposit,
    EscrowPausedSet,
    EscrowUpgraded,
    EscrowWithdraw,
    OrderCancel,
    OrderExpire,
    OrderFulfill,
    OrderOpen,
)
from indexer.market.rail_terms_events import PayeeSet, ProviderSet, RailSet, TermsDel, TermsSet
from indexer.orderbook import orders as order_rules
from indexer.orderbook.offers import PayeeRow, RailRow, TermsKey, TermsRow, published_handle
from indexer.orderbook.orders import OrderEnd, OrderRow
from indexer.orderbook.providers import (
    ZERO,
    BalanceEvent,
    ProviderRow,
    balance_objection,
    terms_objection,
)
from indexer.orderbook.state import BookAlarm, BookConfig, BookState, ProviderBook
from warehouse_schema.identifiers import Bytes32, StellarAddress, UnixSeconds

ESCROW = "escrow"
"""Subject of an alarm about the contract as a whole."""

FULL_BOND_BPS = 10_000
"""The only offramp bond at which `available` is also the largest offramp order."""

KNOWN_SCHEMA = 1
"""Schema version of the Escrow contract that this fold supports."""


@dataclass(slots=True)
class Draft:
    """A ledger being folded: reads fall through to the state, writes stay in the draft."""

    state: BookState
    now: UnixSeconds
    config: BookConfig
    rails: dict[str, RailRow] = field(default_factory=dict)
    books: dict[StellarAddress, ProviderBook] = field(default_factory=dict)
    orders: dict[Bytes32, OrderRow] = field(default_factory=dict)
    intents: list[OrderRow] = field(default_factory=list)
    alarms: list[BookAlarm] = field(default_factory=list)
    pause_changed: bool = False

    def book(self, provider: StellarAddress) -> ProviderBook:
        """The provider so far; an unknown provider starts empty."""
        known = self.books.get(provider) or self.state.books.get(provider)
        return known or ProviderBook(ProviderRow(provider))

    def order(self, order_id: Bytes32) -> OrderRow | None:
        """The order so far; None if its opening was never seen."""
        return self.orders.get(order_id) or self.state.orders.get(order_id)

    def set_figures(self, figures: ProviderRow) -> None:
        """Replace a provider's figures; the rest of its book stays."""
        book = self.book(figures.provider)
        self.books[figures.provider] = ProviderBook(figures, book.terms, book.payees, book.offers)

    def publish_order(self, order: OrderRow) -> None:
        """Write an order, and the message about its status."""
        self.orders[order.order_id] = order
        self.intents.append(order)

    def mark_stale(self, provider: StellarAddress, kind: str, detail: str) -> None:
        """Raise an alarm and mark the provider stale; it keeps its first reason."""
        self.alarms.append(BookAlarm(kind, provider, detail))
        figures = self.book(provider).figures
        if figures.stale is None:
            stale = f"{kind}: {detail}"
            self.set_figures(figures._replace(stale=stale, reclaimable=ZERO))


# Escrow ---------------------------------------------------------------------------------------


def _account(draft: Draft, event: BalanceEvent, **counters: Any) -> None:
    """Set the balances after an Escrow event, and the `counters` it changes."""
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
        draft.mark_stale(event.provider, *objection)


def _deposit_or_withdraw(draft: Draft, event: EscrowDeposit | EscrowWithdraw) -> None:
    _account(draft, event, last_active_at=draft.now)


def _open(draft: Draft, event: OrderOpen) -> None:
    if draft.order(event.order_id) is not None:
        _account(draft, event)
        detail = f"order {event.order_id} opened twice"
        draft.mark_stale(event.provider, "order_reopened", detail)
        return
    book, config = draft.book(event.provider), draft.config
    _account(draft, event, active_orders=book.figures.active_orders + 1)
    if draft.book(event.provider).figures.stale is None:
        basis = order_rules.OrderBasis(
            bond_bps=FULL_BOND_BPS if config.bond_bps is None else config.bond_bps,
            takes_orders=not (config.takes_no_orders or book.figures.paused),
            rail=draft.rails.get(event.rail) or draft.state.rails.get(event.rail),
            terms=book.terms.get(TermsKey(event.direction, event.rail, event.currency)),
            payee=book.payees.get(event.rail),
        )
        for detail in order_rules.opening_violations(event, basis):
            draft.mark_stale(event.provider, "contract_rule", detail)
    draft.publish_order(order_rules.open_order(event))


def _end(draft: Draft, event: OrderEnd) -> None:
    order = draft.order(event.order_id)
    if problem := order_rules.end_problem(order, event):
        _account(draft, event)
        draft.mark_stale(event.provider, *problem)
        return
    assert order is not None, "end_problem() reports an unknown order"  # noqa: S101
    ended = order_rules.end_order(order, event, draft.now)
    figures = draft.book(event.provider).figures
    _account(draft, event, **_counters_after(figures, order, ended, event))
    for detail in order_rules.end_violations(order, event, draft.now):
        draft.mark_stale(event.provider, "contract_rule", detail)
    if ended.status == order.status:
        draft.orders[ended.order_id] = ended
    else:
        draft.publish_order(ended)


def _counters_after(
    figures: ProviderRow, order: OrderRow, ended: OrderRow, event: OrderEnd
) -> dict[str, int | None]:
    """The provider's counters and statistics that the end of an order changes."""
    changed: dict[str, int | None] = {}
    if order.status == "active":
        changed["active_orders"] = figures.active_orders - 1
    elif figures.stale is None:
        changed["reclaimable"] = figures.reclaimable - order.lp_lock
    if ended.status == "fulfilled":
        changed["completed_orders"] = figures.completed_orders + 1
        seconds = event.seen.block_time - order.created_at
        changed["fulfillment_seconds"] = figures.fulfillment_seconds + seconds
    if isinstance(event, OrderFulfill) or (
        isinstance(event, OrderCancel) and event.by == "provider"
    ):
        changed["last_active_at"] = event.seen.block_time
    return changed


def _config_set(draft: Draft, event: EscrowConfigSet) -> None:
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
        draft.alarms.append(BookAlarm("unsupported_bond", ESCROW, detail))


def _paused_set(draft: Draft, event: EscrowPausedSet) -> None:
    draft.config = replace(draft.config, opens_paused=event.opens, all_paused=event.all)
    draft.pause_changed = True


def _upgraded(draft: Draft, event: EscrowUpgraded) -> None:
    if event.schema != KNOWN_SCHEMA:
        detail = f"Escrow upgraded to schema {event.schema}; this build knows {KNOWN_SCHEMA}"
        draft.alarms.append(BookAlarm("unknown_schema", ESCROW, detail))


# RailTerms ------------------------------------------------------------------------------------


def _set_book(
    draft: Draft, event: TermsSet | TermsDel | PayeeSet | ProviderSet, book: ProviderBook
) -> None:
    """Set a provider's book after a RailTerms event, and count the event."""
    figures = book.figures._replace(tseq=event.tseq, last_active_at=draft.now)
    draft.books[event.provider] = replace(book, figures=figures)
    if objection := terms_objection(book.figures, event.tseq):
        draft.mark_stale(event.provider, *objection)


def _rail_set(draft: Draft, event: RailSet) -> None:
    draft.rails[event.rail] = RailRow(
        event.rail, event.enabled, event.tier, event.fee_bps, event.verifier, event.currencies
    )


def _terms_set(draft: Draft, event: TermsSet) -> None:
    row = TermsRow(
        event.provider,
        event.direction,
        event.rail,
        event.currency,
        event.rate,
        event.min,
        event.max,
    )
    book = draft.book(event.provider)
    _set_book(draft, event, replace(book, terms={**book.terms, row.key: row}))


def _terms_del(draft: Draft, event: TermsDel) -> None:
    book = draft.book(event.provider)
    gone = TermsKey(event.direction, event.rail, event.currency)
    _set_book(draft, event, replace(book, terms=_without(book.terms, gone)))


def _payee_set(draft: Draft, event: PayeeSet) -> None:
    book = draft.book(event.provider)
    payees = _without(book.payees, event.rail)
    if event.registered and event.payee_hash is not None:
        handle = published_handle(event.handle, event.payee_hash)
        payees[event.rail] = PayeeRow(event.provider, event.rail, event.payee_hash, handle)
    _set_book(draft, event, replace(book, payees=payees))
    if event.registered and event.payee_hash is None:
        detail = f"payee on {event.rail} registered without a hash"
        draft.mark_stale(event.provider, "contract_rule", detail)


def _provider_set(draft: Draft, event: ProviderSet) -> None:
    book = draft.book(event.provider)
    _set_book(draft, event, replace(book, figures=book.figures._replace(paused=event.paused)))


def _without(rows: Mapping[Any, Any], key: Any) -> dict[Any, Any]:
    return {name: row for name, row in rows.items() if name != key}


FOLDS: dict[type[Event], Callable[[Draft, Any], None]] = {
    EscrowConfigSet: _config_set,
    EscrowDeposit: _deposit_or_withdraw,
    EscrowWithdraw: _deposit_or_withdraw,
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
"""Event of the two contracts → its effect on a draft."""
