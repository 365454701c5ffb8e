"""The two order-book contracts as a small machine, and a slow reader of their events.

`ContractModel` keeps the rules that make the events sufficient (an order ends once; terms, tier and
fee are copied at opening; an onramp needs a registered payee; settling only up to the expiry and
pruning only after it; a nullifier settles one order; withdrawals come from free escrow). It emits
what the contracts would. `read_book` works the book out of all events ever emitted, from nothing
and without sharing a line with the indexer. Both are for comparison: neither is fast.
"""

import random
from collections import defaultdict
from dataclasses import dataclass, field
from fractions import Fraction
from math import floor
from typing import Any

from indexer.events.escrow import (
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
from indexer.events.rail_terms import PayeeSet, ProviderSet, RailSet, TermsDel, TermsSet
from indexer.projections.book import BookEvent, LedgerClose
from tests.factories.book import (
    CHAIN,
    account,
    contract,
    payee_hash_of,
    seen_in,
    usdc,
    word,
)
from warehouse_schema.identifiers import Bytes32, Height, StellarAddress, UnixSeconds


class Refused(Exception):
    """The contract panics: no event, no change."""


@dataclass
class Account:
    """A provider in the Escrow contract."""

    free: int = 0
    locked: int = 0
    pseq: int = 0
    tseq: int = 0
    paused: bool = False


@dataclass
class Intent:
    """An order in the Escrow contract."""

    opening: OrderOpen
    state: str = "open"


@dataclass
class ContractModel:
    """Both contracts, one ledger in the making: call what transactions would, then `close`."""

    now: int = 1_000
    height: int = 10
    ttl: int = 600
    max_open: int = 1_000
    accounts: dict[StellarAddress, Account] = field(default_factory=lambda: defaultdict(Account))
    orders: dict[Bytes32, Intent] = field(default_factory=dict)
    rails: dict[str, RailSet] = field(default_factory=dict)
    terms: dict[tuple[str, str, str, str], TermsSet] = field(default_factory=dict)
    payees: dict[tuple[str, str], str] = field(default_factory=dict)
    nullifiers: set[str] = field(default_factory=set)
    opens_paused: bool = False
    fees: int = 0
    paid_out: int = 0
    paid_in: int = 0
    pending: list[BookEvent] = field(default_factory=list)
    position: int = 0

    # Ledgers

    @property
    def ledger(self) -> LedgerClose:
        return LedgerClose(CHAIN, Height(self.height), UnixSeconds(self.now))

    def close(self, seconds: int = 1) -> tuple[LedgerClose, list[BookEvent]]:
        """The ledger with its events; the next one closes `seconds` later."""
        closed, events = self.ledger, self.pending
        self.height += 1
        self.now += seconds
        self.pending, self.position = [], 0
        return closed, events

    def at(self, now: int) -> "ContractModel":
        """Let the ledger in the making close at that time."""
        assert now >= self.now
        assert not self.pending, "the ledger already holds events of another time"
        self.now = now
        return self

    def _emit(self, event: type, **fields: Any) -> Any:
        self.position += 1
        emitted = event(seen=seen_in(self.ledger, self.position), **fields)
        self.pending.append(emitted)
        return emitted

    def _balances(self, provider: StellarAddress) -> dict[str, Any]:
        account_ = self.accounts[provider]
        account_.pseq += 1
        return {
            "provider": provider,
            "free_after": account_.free,
            "locked_after": account_.locked,
            "pseq": account_.pseq,
        }

    def _numbered(self, provider: StellarAddress) -> dict[str, Any]:
        self.accounts[provider].tseq += 1
        return {"provider": provider, "tseq": self.accounts[provider].tseq}

    # Escrow

    def config_set(self, bond_bps: int = 10_000) -> None:
        self._emit(
            EscrowConfigSet,
            token=contract("usdc"),
            rail_terms=contract("rail terms"),
            admin=account("admin"),
            fee_to=account("fees"),
            order_ttl=self.ttl,
            bond_bps=bond_bps,
            max_open=self.max_open,
        )

    def deposit(self, provider: StellarAddress, amount: int) -> None:
        self.accounts[provider].free += amount
        self.paid_in += amount
        balances = self._balances(provider)
        self._emit(EscrowDeposit, amount=amount, from_address=provider, **balances)

    def withdraw(self, provider: StellarAddress, amount: int) -> None:
        if not 0 < amount <= self.accounts[provider].free:
            raise Refused("withdraw beyond free escrow")
        self.accounts[provider].free -= amount
        self.paid_out += amount
        balances = self._balances(provider)
        self._emit(EscrowWithdraw, amount=amount, to_address=provider, **balances)

    def open(
        self,
        provider: StellarAddress,
        amount: int,
        *,
        taker: StellarAddress | None = None,
        direction: str = "onramp",
        rail: str = "venmo",
        currency: str = "USD",
        prune: tuple[Bytes32, ...] = (),
    ) -> Bytes32:
        terms = self._terms_for_order(provider, direction, rail, currency)
        if not terms.min <= amount <= terms.max:
            raise Refused("outside the limits")
        reclaimed = sum(self.orders[order].opening.lp_lock for order in prune)
        if self.accounts[provider].free + reclaimed < amount:
            raise Refused("not enough free escrow")
        for order in prune:
            self.expire(order)
        order_id = word("escrow", provider, self.accounts[provider].pseq + 1)
        self.accounts[provider].free -= amount
        self.accounts[provider].locked += amount
        onramp = direction == "onramp"
        self.paid_in += 0 if onramp else amount
        fiat, rest = divmod(amount * terms.rate, 10_000_000)
        opening = self._emit(
            OrderOpen,
            taker=taker or account("taker"),
            order_id=order_id,
            direction=direction,
            rail=rail,
            currency=currency,
            amount=amount,
            rate=terms.rate,
            fiat_amount=fiat + (onramp and rest > 0),
            lp_lock=amount,
            taker_lock=0 if onramp else amount,
            payee_hash=self.payees[provider, rail] if onramp else word("taker's payee"),
            expires_at=self.now + self.ttl,
            tier=self.rails[rail].tier,
            fee_bps=self.rails[rail].fee_bps,
            **self._balances(provider),
        )
        self.orders[order_id] = Intent(opening)
        return order_id

    def _terms_for_order(
        self, provider: StellarAddress, direction: str, rail: str, currency: str
    ) -> TermsSet:
        terms = self.terms.get((provider, direction, rail, currency))
        if terms is None or self.opens_paused or self.accounts[provider].paused:
            raise Refused("no terms, or paused")
        if not self.rails[rail].enabled or currency not in self.rails[rail].currencies:
            raise Refused("rail closed")
        if direction == "onramp" and (provider, rail) not in self.payees:
            raise Refused("no payee")
        mine = [order for order in self.orders.values() if order.opening.provider == provider]
        if sum(order.state == "open" for order in mine) >= self.max_open:
            raise Refused("too many open orders")
        return terms

    def fulfil(
        self,
        order_id: Bytes32,
        released: int | None = None,
        *,
        claim: str = "proof",
        nullifier: str | None = None,
    ) -> None:
        order = self._open_order(order_id)
        released = order.amount if released is None else released
        nullifier = None if claim == "manual" else (nullifier or word("claim", order_id))
        if self.now > order.expires_at or nullifier in self.nullifiers:
            raise Refused("too late, or claimed before")
        if not 0 < released <= order.amount:
            raise Refused("release outside the order")
        self.nullifiers |= {nullifier} if nullifier else set()
        fee = released * order.fee_bps // 10_000
        onramp = order.direction == "onramp"
        back = order.lp_lock - released if onramp else order.lp_lock + released - fee
        refund = 0 if onramp else order.amount - released
        account_ = self.accounts[order.provider]
        account_.locked -= order.lp_lock
        account_.free += back
        self.fees += fee
        self.paid_out += (released - fee if onramp else refund) + fee
        self.orders[order_id].state = "fulfilled"
        self._emit(
            OrderFulfill,
            taker=order.taker,
            order_id=order_id,
            claim=claim,
            nullifier=nullifier,
            released=released,
            fee=fee,
            net=released - fee,
            recipient=order.taker if onramp else order.provider,
            lp_unlock=order.lp_lock,
            lp_free_delta=back,
            taker_refund=refund,
            fiat_paid=None if claim == "manual" else order.fiat_amount,
            paid_at=None if claim == "manual" else self.now - 10,
            **self._balances(order.provider),
        )

    def cancel(self, order_id: Bytes32, by: str = "taker") -> None:
        order = self._open_order(order_id)
        if self.now > order.expires_at:
            raise Refused("expired")
        if by != "admin" and by != ("taker" if order.direction == "onramp" else "provider"):
            raise Refused("not yours to cancel")
        self._unlock(order, "cancelled", OrderCancel, by=by)

    def expire(self, order_id: Bytes32, by: StellarAddress | None = None) -> None:
        order = self._open_order(order_id)
        if self.now <= order.expires_at:
            raise Refused("not expired")
        self._unlock(order, "expired", OrderExpire, by=by or account("anyone"))

    def _open_order(self, order_id: Bytes32) -> OrderOpen:
        if self.orders[order_id].state != "open":
            raise Refused("finished")
        return self.orders[order_id].opening

    def _unlock(self, order: OrderOpen, state: str, event: type, by: str) -> None:
        account_ = self.accounts[order.provider]
        account_.locked -= order.lp_lock
        account_.free += order.lp_lock
        self.paid_out += order.taker_lock
        self.orders[order.order_id].state = state
        self._emit(
            event,
            taker=order.taker,
            order_id=order.order_id,
            by=by,
            lp_unlock=order.lp_lock,
            taker_refund=order.taker_lock,
            **self._balances(order.provider),
        )

    def paused_set(self, opens: bool, everything: bool = False) -> None:
        self.opens_paused = opens or everything
        self._emit(EscrowPausedSet, opens=opens, all=everything)

    def upgraded(self, schema: int = 1) -> None:
        self._emit(EscrowUpgraded, wasm_hash=word("wasm"), schema=schema)

    # RailTerms

    def rail_set(
        self,
        rail: str,
        *,
        enabled: bool = True,
        tier: int = 2,
        fee_bps: int = 50,
        currencies: tuple[str, ...] = ("EUR", "USD"),
    ) -> None:
        self.rails[rail] = self._emit(
            RailSet,
            rail=rail,
            enabled=enabled,
            tier=tier,
            fee_bps=fee_bps,
            verifier=contract("verifier"),
            currencies=currencies,
        )

    def terms_set(
        self,
        provider: StellarAddress,
        rail: str = "venmo",
        currency: str = "USD",
        direction: str = "onramp",
        *,
        rate: int | None = None,
        low: int | None = None,
        high: int | None = None,
    ) -> None:
        self.terms[provider, direction, rail, currency] = self._emit(
            TermsSet,
            rail=rail,
            currency=currency,
            direction=direction,
            rate=usdc("1.02") if rate is None else rate,
            min=usdc(10) if low is None else low,
            max=usdc(50) if high is None else high,
            **self._numbered(provider),
        )

    def terms_del(
        self,
        provider: StellarAddress,
        rail: str = "venmo",
        currency: str = "USD",
        direction: str = "onramp",
    ) -> None:
        if self.terms.pop((provider, direction, rail, currency), None) is None:
            raise Refused("no terms")
        self._emit(
            TermsDel, rail=rail, currency=currency, direction=direction, **self._numbered(provider)
        )

    def payee_set(
        self,
        provider: StellarAddress,
        rail: str = "venmo",
        *,
        registered: bool = True,
        handle: str | None = None,
        payee_hash: str | None = None,
    ) -> None:
        """A handle alone is hashed as clients do it: SHA-256 over its UTF-8 bytes."""
        if payee_hash is None:
            payee_hash = payee_hash_of(handle) if handle else word("payee", provider, rail)
        if registered:
            self.payees[provider, rail] = payee_hash
        else:
            self.payees.pop((provider, rail), None)
        self._emit(
            PayeeSet,
            rail=rail,
            registered=registered,
            payee_hash=payee_hash if registered else None,
            handle=handle if registered else None,
            **self._numbered(provider),
        )

    def provider_set(self, provider: StellarAddress, paused: bool) -> None:
        self.accounts[provider].paused = paused
        self._emit(ProviderSet, paused=paused, **self._numbered(provider))

    # What must hold of the contract itself

    def custody(self) -> int:
        """USDC the escrow holds by what came in and went out."""
        return self.paid_in - self.paid_out

    def owed(self) -> int:
        """USDC the escrow owes by its own books."""
        escrow = sum(account_.free + account_.locked for account_ in self.accounts.values())
        takers = sum(o.opening.taker_lock for o in self.orders.values() if o.state == "open")
        return escrow + takers


# Random histories -----------------------------------------------------------------------------

RAILS = ("revolut", "venmo", "wise")
CURRENCIES = ("EUR", "USD")
RATES = (usdc("1.02"), usdc("1.03"))
LIMITS = ((usdc(10), usdc(50)), (usdc(5), usdc(500)))


@dataclass
class RandomHistory:
    """A stream of ledgers that a sound contract could have closed; the same for the same seed."""

    seed: int
    providers: int = 4
    model: ContractModel = field(default_factory=lambda: ContractModel(ttl=90))

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.names = [account(f"provider {n}") for n in range(self.providers)]
        self.model.config_set()
        for rail in RAILS:
            self.model.rail_set(rail)
        for name in self.names:
            self._deposit(name)
            for _ in range(4):
                self._terms_set(name)
                self._payee_set(name)

    def ledger(self, most_acts: int = 4) -> tuple[LedgerClose, list[BookEvent]]:
        """The next ledger; about one in six is empty, and many close right at an expiry."""
        for _ in range(self.random.choice([0, *range(most_acts + 1)])):
            self._act()
        return self.model.close(self._gap())

    def _gap(self) -> int:
        waiting = [
            order.opening.expires_at - self.model.now
            for order in self.model.orders.values()
            if order.state == "open"
        ]
        boundaries = sorted(gap + late for gap in waiting for late in (0, 1) if gap + late > 0)
        if boundaries and self.random.random() < 0.2:
            return self.random.choice(boundaries[:4])
        return self.random.randint(1, 12)

    def _act(self) -> None:
        if self.model.opens_paused and self.random.random() < 0.3:
            self.model.paused_set(opens=False)
        act = self.random.choices(list(ACTS), weights=list(ACTS.values()))[0]
        try:
            getattr(self, act)(self.random.choice(self.names))
        except Refused:
            return

    def _deposit(self, provider: StellarAddress) -> None:
        self.model.deposit(provider, self.random.randint(1, 400) * usdc("0.5"))

    def _withdraw(self, provider: StellarAddress) -> None:
        self.model.withdraw(provider, self.random.randint(1, 100) * usdc("0.5"))

    def _terms_set(self, provider: StellarAddress) -> None:
        low, high = self.random.choice(LIMITS)
        rate = self.random.choice(RATES)
        self.model.terms_set(provider, *self._terms_key(), rate=rate, low=low, high=high)

    def _terms_del(self, provider: StellarAddress) -> None:
        self.model.terms_del(provider, *self._terms_key())

    def _terms_key(self) -> tuple[str, str, str]:
        pick = self.random.choice
        return pick(RAILS), pick(CURRENCIES), pick(("onramp", "offramp"))

    def _payee_set(self, provider: StellarAddress) -> None:
        rail = self.random.choice(RAILS)
        handle = self.random.choice((None, "@ann", "ænn@example.org"))
        wrong = word("another") if self.random.random() < 0.2 else None
        registered = self.random.random() < 0.85
        self.model.payee_set(provider, rail, registered=registered, handle=handle, payee_hash=wrong)

    def _provider_set(self, provider: StellarAddress) -> None:
        self.model.provider_set(provider, self.random.random() < 0.2)

    def _rail_set(self, provider: StellarAddress) -> None:
        self.model.rail_set(
            self.random.choice(RAILS),
            enabled=self.random.random() < 0.8,
            tier=self.random.choice((2, 2, 3)),
            fee_bps=self.random.choice((50, 50, 30)),
            currencies=self.random.choice((CURRENCIES, CURRENCIES, ("USD",))),
        )

    def _paused_set(self, provider: StellarAddress) -> None:
        self.model.paused_set(self.random.random() < 0.6, everything=self.random.random() < 0.3)

    def _open(self, provider: StellarAddress) -> None:
        rows = [key for key in self.model.terms if key[0] == provider]
        if not rows:
            raise Refused("no terms")
        _, direction, rail, currency = self.random.choice(rows)
        prune = tuple(self._orders(provider, expired=True)) if self.random.random() < 0.3 else ()
        self.model.open(
            provider,
            self.random.randint(10, 110) * usdc("0.5") + self.random.randint(0, 9),
            taker=account(f"taker {self.random.randint(0, 5)}"),
            direction=direction,
            rail=rail,
            currency=currency,
            prune=prune,
        )

    def _fulfil(self, provider: StellarAddress) -> None:
        order = self._some_order(provider, expired=False)
        amount = self.model.orders[order].opening.amount
        partly = self.random.random() < 0.3
        released = self.random.randint(1, amount) if partly else amount
        claim = "manual" if self.random.random() < 0.3 else "proof"
        self.model.fulfil(order, released, claim=claim)

    def _cancel(self, provider: StellarAddress) -> None:
        by = self.random.choice(("taker", "provider", "admin"))
        self.model.cancel(self._some_order(provider, expired=False), by)

    def _expire(self, provider: StellarAddress) -> None:
        self.model.expire(self._some_order(provider, expired=True))

    def _some_order(self, provider: StellarAddress, *, expired: bool) -> Bytes32:
        orders = self._orders(provider, expired=expired)
        if not orders:
            raise Refused("no such order")
        return self.random.choice(orders)

    def _orders(self, provider: StellarAddress, *, expired: bool) -> list[Bytes32]:
        return [
            order_id
            for order_id, order in self.model.orders.items()
            if order.opening.provider == provider
            and order.state == "open"
            and (self.model.now > order.opening.expires_at) == expired
        ][:10]


ACTS = {
    "_open": 40,
    "_fulfil": 18,
    "_cancel": 8,
    "_expire": 6,
    "_deposit": 10,
    "_withdraw": 6,
    "_terms_set": 10,
    "_terms_del": 2,
    "_payee_set": 6,
    "_provider_set": 2,
    "_rail_set": 2,
    "_paused_set": 1,
}


# The slow reader ------------------------------------------------------------------------------


@dataclass
class SlowBook:
    """The order book as plain rows, keyed as the tables are."""

    providers: dict[str, dict[str, Any]]
    orders: dict[str, dict[str, Any]]
    offers: dict[tuple[str, str, str, tuple[str, ...]], dict[str, Any]]
    depth: dict[str, tuple[int, int]]
    totals: tuple[int, int, int]


def read_book(history: list[BookEvent], now: int) -> SlowBook:
    """The book at that time, out of every event ever emitted, each figure by its definition."""
    orders = _read_orders(history, now)
    names = {e.provider for e in history if hasattr(e, "provider")}
    providers = {name: _read_provider(name, history, orders, now) for name in sorted(names)}
    offers = {}
    for name in providers:
        for row in _read_offers(name, history, providers[name]):
            offers[name, row["direction"], row["currency"], row["rails"]] = row
    return SlowBook(providers, orders, offers, _read_depth(offers), _read_totals(providers, offers))


def _last(history: list[BookEvent], kind: Any, **fields: Any) -> Any:
    for event in reversed(history):
        if isinstance(event, kind) and all(getattr(event, k) == v for k, v in fields.items()):
            return event
    return None


def _read_orders(history: list[BookEvent], now: int) -> dict[str, dict[str, Any]]:
    ends = {
        e.order_id: e for e in history if isinstance(e, OrderFulfill | OrderCancel | OrderExpire)
    }
    words = {OrderFulfill: "fulfilled", OrderCancel: "cancelled", OrderExpire: "expired"}
    orders: dict[str, dict[str, Any]] = {}
    for opening in history:
        if not isinstance(opening, OrderOpen):
            continue
        end = ends.get(opening.order_id)
        settled = end if isinstance(end, OrderFulfill) else None
        clock = "expired" if now > opening.expires_at else "active"
        orders[opening.order_id] = {
            "provider": opening.provider,
            "direction": opening.direction,
            "amount": opening.amount,
            "lp_lock": opening.lp_lock,
            "tier": opening.tier,
            "created_at": opening.seen.block_time,
            "expires_at": opening.expires_at,
            "status": words[type(end)] if end else clock,
            "chain_status": words[type(end)] if end else "open",
            "end_tx": end.seen.tx_hash if end else None,
            "ended_at": end.seen.block_time if end else None,
            "nullifier": settled.nullifier if settled else None,
            "released": settled.released if settled else None,
        }
    return orders


def _read_provider(
    name: str, history: list[BookEvent], orders: dict[str, dict[str, Any]], now: int
) -> dict[str, Any]:
    mine = [order for order in orders.values() if order["provider"] == name]
    done = [order for order in mine if order["status"] == "fulfilled"]
    took = [order["ended_at"] - order["created_at"] for order in done]
    balance_events = [
        e for e in history if getattr(e, "provider", None) == name and hasattr(e, "pseq")
    ]
    last: Any = balance_events[-1] if balance_events else None
    paused = _last(history, ProviderSet, provider=name)
    return {
        "paused": paused.paused if paused else False,
        "free": last.free_after if last else 0,
        "locked": last.locked_after if last else 0,
        "reclaimable": sum(
            order["lp_lock"]
            for order in mine
            if order["chain_status"] == "open" and order["expires_at"] < now
        ),
        "active_orders": sum(order["status"] == "active" for order in mine),
        "completed_orders": len(done),
        "avg_fulfillment_seconds": floor(Fraction(sum(took), len(took)) + Fraction(1, 2))
        if took
        else 0,
        "last_active_at": max(
            (e.seen.block_time for e in history if _is_own_act(e, name)), default=None
        ),
    }


def _is_own_act(event: BookEvent, name: str) -> bool:
    if getattr(event, "provider", None) != name:
        return False
    if isinstance(event, OrderCancel):
        return event.by == "provider"
    return not isinstance(event, OrderOpen | OrderExpire)


def _read_offers(
    name: str, history: list[BookEvent], figures: dict[str, Any]
) -> list[dict[str, Any]]:
    available = figures["free"] + figures["reclaimable"]
    pause = _last(history, EscrowPausedSet)
    if figures["paused"] or (pause and (pause.opens or pause.all)):
        return []
    rows = []
    for terms in _standing_terms(name, history):
        rail = _last(history, RailSet, rail=terms.rail)
        payee = _last(history, PayeeSet, provider=name, rail=terms.rail)
        has_payee = payee is not None and payee.registered
        if not rail or not rail.enabled or terms.currency not in rail.currencies:
            continue
        if terms.direction == "onramp" and not has_payee:
            continue
        if available < terms.min:
            continue
        rows.append((terms, rail, payee))
    groups = defaultdict(list)
    for terms, rail, payee in rows:
        same = (terms.direction, terms.currency, terms.rate, terms.min, terms.max)
        groups[(*same, rail.tier, rail.fee_bps)].append((terms.rail, payee))
    return [_read_offer(name, key, rails, figures) for key, rails in groups.items()]


def _standing_terms(name: str, history: list[BookEvent]) -> list[TermsSet]:
    latest = {}
    for event in history:
        if isinstance(event, TermsSet | TermsDel) and event.provider == name:
            latest[event.direction, event.rail, event.currency] = event
    return [event for event in latest.values() if isinstance(event, TermsSet)]


def _read_offer(
    name: str, key: tuple[Any, ...], rails: list[tuple[str, Any]], figures: dict[str, Any]
) -> dict[str, Any]:
    direction, currency, rate, low, high, tier, fee_bps = key
    available = figures["free"] + figures["reclaimable"]
    handles = {
        rail: payee.handle
        for rail, payee in rails
        if direction == "onramp"
        and payee.handle is not None
        and payee_hash_of(payee.handle) == payee.payee_hash
    }
    return {
        "provider": name,
        "direction": direction,
        "currency": currency,
        "rails": tuple(sorted(rail for rail, _ in rails)),
        "rate": rate,
        "min": low,
        "max": high if high < available else available,
        "available": available,
        "locked": figures["locked"] - figures["reclaimable"],
        "tier": tier,
        "fee_bps": fee_bps,
        "handles": handles,
        "completed_orders": figures["completed_orders"],
        "avg_fulfillment_seconds": figures["avg_fulfillment_seconds"],
        "last_active_at": figures["last_active_at"],
    }


def _read_depth(offers: dict[Any, dict[str, Any]]) -> dict[str, tuple[int, int]]:
    depth = {}
    for rail in {rail for row in offers.values() for rail in row["rails"]}:
        on_it = [row for row in offers.values() if rail in row["rails"]]
        escrow = {row["provider"]: row["available"] for row in on_it}
        depth[rail] = (sum(escrow.values()), len(on_it))
    return depth


def _read_totals(
    providers: dict[str, dict[str, Any]], offers: dict[Any, dict[str, Any]]
) -> tuple[int, int, int]:
    listed = {row["provider"]: row["available"] for row in offers.values()}
    locked = sum(row["locked"] - row["reclaimable"] for row in providers.values())
    return sum(listed.values()), locked, len(offers)
