"""Expected responses of the API after a scenario, computed from the scenario's acts.

It reads no event: `Deeds` records each act that succeeded, and keeps the books by the rules of the
Escrow and RailTerms contracts, independent of the indexer. Amounts and rates are 7-decimal
integers, times unix seconds; the results are JSON as the API writes it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

Direction: TypeAlias = Literal["onramp", "offramp"]
Json: TypeAlias = dict[str, Any]

UNIT = 10**7


@dataclass(frozen=True)
class Rail:
    """How payments on a rail are verified, the protocol's fee, and its currencies."""

    tier: int
    fee_bps: int
    currencies: tuple[str, ...]


@dataclass(frozen=True)
class Terms:
    """A provider's offer for a direction, rail and currency."""

    rate: int
    low: int
    high: int


@dataclass(frozen=True)
class TermsKey:
    """Key of a provider's terms."""

    direction: Direction
    rail: str
    currency: str


@dataclass
class Provider:
    """A provider's escrow and what it published."""

    free: int = 0
    locked: int = 0
    terms: dict[TermsKey, Terms] = field(default_factory=dict)
    payees: dict[str, str | None] = field(default_factory=dict)
    """Rail → handle, None where only its hash was registered."""
    fulfilment_seconds: list[int] = field(default_factory=list)
    last_active_at: int = 0


@dataclass
class Order:
    """An order and how it stands on the chain."""

    order_id: str
    provider: str
    taker: str
    key: TermsKey
    amount: int
    fiat_amount: int
    lp_lock: int
    tier: int
    fee_bps: int
    created_at: int
    expires_at: int
    state: Literal["open", "fulfilled", "cancelled", "pruned"] = "open"
    settlement: str | None = None
    nullifier: str | None = None
    released: int | None = None

    def status(self, now: int) -> str:
        """By the ledger clock: active up to and including its expiry."""
        if self.state == "open":
            return "active" if now <= self.expires_at else "expired"
        return "expired" if self.state == "pruned" else self.state


@dataclass(frozen=True)
class BookExpectation:
    """The whole order book as of one ledger, as JSON of the API."""

    ledger: int
    close_time: int
    offers: tuple[Json, ...]
    summary: Json
    providers: Mapping[str, Json]
    orders: Mapping[str, Json]
    """By order id: 64 hex digits."""


class Deeds:
    """The books of one scenario, kept act by act. Only acts that succeeded are recorded."""

    def __init__(self, *, order_ttl: int, bond_bps: int) -> None:
        self.order_ttl = order_ttl
        self.bond_bps = bond_bps
        self.rails: dict[str, Rail] = {}
        self.providers: dict[str, Provider] = defaultdict(Provider)
        self.orders: dict[str, Order] = {}

    def rail(self, name: str, rail: Rail) -> None:
        """The admin set a rail."""
        self.rails[name] = rail

    def deposit(self, provider: str, amount: int, at: int) -> None:
        """USDC went into a provider's escrow."""
        self._active(provider, at).free += amount

    def withdraw(self, provider: str, amount: int, at: int) -> None:
        """USDC left a provider's free escrow."""
        self._active(provider, at).free -= amount

    def terms(self, provider: str, key: TermsKey, terms: Terms, at: int) -> None:
        """A provider set terms, or changed them."""
        self._active(provider, at).terms[key] = terms

    def terms_deleted(self, provider: str, key: TermsKey, at: int) -> None:
        """A provider took terms back."""
        del self._active(provider, at).terms[key]

    def payee(self, provider: str, rail: str, handle: str | None, at: int) -> None:
        """A provider registered where it takes fiat; `handle` only if it published it."""
        self._active(provider, at).payees[rail] = handle

    def opened(
        self, order_id: str, provider: str, taker: str, key: TermsKey, amount: int, at: int
    ) -> Order:
        """A taker opened an order."""
        books, rail = self.providers[provider], self.rails[key.rail]
        onramp = key.direction == "onramp"
        lock = amount if onramp else amount * self.bond_bps // 10_000
        fiat = amount * books.terms[key].rate
        order = Order(
            order_id=order_id,
            provider=provider,
            taker=taker,
            key=key,
            amount=amount,
            # The provider is never the one who loses the fraction.
            fiat_amount=-(-fiat // UNIT) if onramp else fiat // UNIT,
            lp_lock=lock,
            tier=rail.tier,
            fee_bps=rail.fee_bps,
            created_at=at,
            expires_at=at + self.order_ttl,
        )
        books.free -= lock
        books.locked += lock
        self.orders[order_id] = order
        return order

    def fulfilled(
        self, order_id: str, released: int, settlement: str, nullifier: str | None, at: int
    ) -> None:
        """An order was settled for `released` of its amount in the transaction `settlement`."""
        order = self._ended(order_id, "fulfilled")
        books = self._active(order.provider, at)
        fee = released * order.fee_bps // 10_000
        onramp = order.key.direction == "onramp"
        books.free += order.lp_lock + (-released if onramp else released - fee)
        books.fulfilment_seconds.append(at - order.created_at)
        order.settlement, order.nullifier, order.released = settlement, nullifier, released

    def cancelled(self, order_id: str, *, by_provider: bool, at: int) -> None:
        """An order was cancelled; by its taker unless `by_provider`."""
        order = self._ended(order_id, "cancelled")
        books = self._active(order.provider, at) if by_provider else self.providers[order.provider]
        books.free += order.lp_lock

    def pruned(self, order_id: str) -> None:
        """An expired order was expired on chain too."""
        order = self._ended(order_id, "pruned")
        self.providers[order.provider].free += order.lp_lock

    def _ended(self, order_id: str, state: Literal["fulfilled", "cancelled", "pruned"]) -> Order:
        order = self.orders[order_id]
        order.state = state
        self.providers[order.provider].locked -= order.lp_lock
        return order

    def _active(self, provider: str, at: int) -> Provider:
        books = self.providers[provider]
        books.last_active_at = at
        return books

    # Expected responses

    def expected(self, ledger: int, now: int) -> BookExpectation:
        """The book after `ledger`, which closed at `now`."""
        offers = sorted(self._offers(now), key=_offer_rank)
        return BookExpectation(
            ledger=ledger,
            close_time=now,
            offers=tuple(_offer_json(offer) for offer in offers),
            summary=self._summary(offers, now),
            providers={name: self._provider_json(name, now) for name in self.providers},
            orders={each: self._order_json(order, now) for each, order in self.orders.items()},
        )

    def _available(self, provider: str, now: int) -> int:
        return self.providers[provider].free + self._reclaimable(provider, now)

    def _locked(self, provider: str, now: int) -> int:
        return self.providers[provider].locked - self._reclaimable(provider, now)

    def _reclaimable(self, provider: str, now: int) -> int:
        """Locked by expired orders that are not pruned."""
        return sum(
            order.lp_lock
            for order in self.orders.values()
            if order.provider == provider and order.state == "open" and now > order.expires_at
        )

    def _live(self, provider: str) -> Iterator[tuple[TermsKey, Terms]]:
        books = self.providers[provider]
        for key, terms in books.terms.items():
            if key.direction == "offramp" or key.rail in books.payees:
                yield key, terms

    def _offers(self, now: int) -> Iterator[_Offer]:
        for provider in self.providers:
            available = self._available(provider, now)
            groups: dict[tuple[Direction, str, Terms, int, int], list[str]] = defaultdict(list)
            for key, terms in self._live(provider):
                rail = self.rails[key.rail]
                if min(terms.high, available) >= terms.low:
                    same = (key.direction, key.currency, terms, rail.tier, rail.fee_bps)
                    groups[same].append(key.rail)
            for (direction, currency, terms, tier, fee_bps), rails in groups.items():
                yield _Offer(
                    provider=provider,
                    books=self.providers[provider],
                    direction=direction,
                    currency=currency,
                    terms=terms,
                    rails=tuple(sorted(rails)),
                    tier=tier,
                    fee_bps=fee_bps,
                    available=available,
                    locked=self._locked(provider, now),
                )

    def _summary(self, offers: list[_Offer], now: int) -> Json:
        rails = sorted({rail for offer in offers for rail in offer.rails})
        return {
            "totalAvailableUsdc": decimal(_available_once(offers)),
            "totalLockedUsdc": decimal(sum(self._locked(name, now) for name in self.providers)),
            "offerCount": len(offers),
            "byRail": [
                {
                    "rail": rail,
                    "availableUsdc": decimal(
                        _available_once([each for each in offers if rail in each.rails])
                    ),
                    "offerCount": sum(rail in offer.rails for offer in offers),
                }
                for rail in rails
            ],
        }

    def _provider_json(self, name: str, now: int) -> Json:
        books = self.providers[name]
        mine = [order for order in self.orders.values() if order.provider == name]
        return {
            "provider": name,
            "availableUsdc": decimal(self._available(name, now)),
            "lockedUsdc": decimal(self._locked(name, now)),
            "completedOrders": len(books.fulfilment_seconds),
            "avgFulfillmentSeconds": _mean(books.fulfilment_seconds),
            "acceptedRails": sorted({key.rail for key, _ in self._live(name)}),
            "activeIntents": sum(order.status(now) == "active" for order in mine),
        }

    def _order_json(self, order: Order, now: int) -> Json:
        shaped = {
            "intentId": order.order_id,
            "buyer": order.taker,
            "provider": order.provider,
            "direction": order.key.direction,
            "rail": order.key.rail,
            "currency": order.key.currency,
            "amountUsdc": decimal(order.amount),
            "fiatAmount": decimal(order.fiat_amount),
            "status": order.status(now),
            "trustTier": order.tier,
            "createdAt": iso_time(order.created_at),
            "expiresAt": iso_time(order.expires_at),
        }
        if order.nullifier is not None:
            shaped["nullifier"] = order.nullifier
        if order.settlement is not None:
            shaped["txHash"] = order.settlement
        if order.released not in (None, order.amount):
            shaped["releasedUsdc"] = decimal(order.released)
        return shaped


@dataclass(frozen=True)
class _Offer:
    provider: str
    books: Provider
    direction: Direction
    currency: str
    terms: Terms
    rails: tuple[str, ...]
    tier: int
    fee_bps: int
    available: int
    locked: int


def _offer_rank(offer: _Offer) -> tuple[Any, ...]:
    """Best rate for the taker first within a direction and currency."""
    cost = offer.terms.rate if offer.direction == "onramp" else -offer.terms.rate
    return (
        offer.direction,
        offer.currency,
        cost,
        -offer.available,
        offer.provider,
        offer.rails,
    )


def _offer_json(offer: _Offer) -> Json:
    books = offer.books
    published = {rail: books.payees.get(rail) for rail in offer.rails}
    return {
        "provider": offer.provider,
        "direction": offer.direction,
        "availableUsdc": decimal(offer.available),
        "lockedUsdc": decimal(offer.locked),
        "acceptedRails": list(offer.rails),
        "paymentHandles": {
            rail: handle
            for rail, handle in published.items()
            if handle is not None and offer.direction == "onramp"
        },
        "trustTier": offer.tier,
        "feeRateBps": offer.fee_bps,
        "rate": decimal(offer.terms.rate),
        "currency": offer.currency,
        "minAmount": decimal(offer.terms.low),
        "maxAmount": decimal(min(offer.terms.high, offer.available)),
        "completedOrders": len(books.fulfilment_seconds),
        "avgFulfillmentSeconds": _mean(books.fulfilment_seconds),
        "lastActiveAt": iso_time(books.last_active_at),
    }


def _available_once(offers: list[_Offer]) -> int:
    """A provider's escrow counts once, however many offers stand on it."""
    return sum({offer.provider: offer.available for offer in offers}.values())


def _mean(seconds: list[int]) -> int:
    """Rounded to a whole second, halves up; 0 of nothing."""
    return (2 * sum(seconds) + len(seconds)) // (2 * len(seconds)) if seconds else 0


def decimal(amount: int) -> str:
    """A 7-decimal integer as the API writes it: no exponent, no trailing zeros."""
    digits = f"{amount // UNIT}.{amount % UNIT:07d}"
    return digits.rstrip("0").rstrip(".")


def iso_time(seconds: int) -> str:
    """As the API writes times."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
