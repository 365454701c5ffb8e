"""The order book's history: providers whose rates drift, and the orders of each day.

Amounts and rates have 7 decimals, times are unix seconds. At the end every provider has withdrawn
its escrow and its terms, so that a scenario after it begins with an empty book.
"""

import random
from dataclasses import dataclass, field
from hashlib import sha256
from heapq import heappop, heappush
from itertools import count
from math import exp
from typing import Any

from stellar_sdk import scval, xdr

from devnet.history.emitting import Emitter, address, stellar_event
from devnet.order_book import payee_hash
from devnet.stellar.accounts import ADMIN, PROTOCOL_FEES, RAIL_VERIFIER
from devnet.stellar.accounts import address as account
from devnet.stellar.contracts.escrow import order_id
from devnet.stellar.genesis import BOND_BPS, MAX_OPEN, ORDER_TTL, RAILS
from indexer.config.networks import StellarChain

UNIT = 10**7
DAY = 86_400
PIX = ("pix", 1, 25, ("BRL",))
_RAILS = (*RAILS, PIX)
_RULES = {name: (tier, fee_bps) for name, tier, fee_bps, _ in _RAILS}

_MID = {"USD": 1.0, "EUR": 0.92, "GBP": 0.79, "BRL": 5.4}
"""Fiat per USDC on the first day."""
_DAILY_DRIFT = {"USD": 0.0006, "EUR": 0.004, "GBP": 0.004, "BRL": 0.008}
"""Standard deviation of a day's change, as a fraction."""
_MEDIAN_SECONDS = {
    "manual": 290,
    "monzo": 95,
    "pix": 60,
    "revolut": 110,
    "venmo": 130,
    "wise": 240,
    "zelle_citi": 175,
}
"""From opening to settlement, by rail."""

_MARKETS: tuple[tuple[str, str, str, str, float, float], ...] = (
    # provider, direction, rail, currency, orders a day, margin on the mid rate
    ("pilar", "onramp", "venmo", "USD", 3.0, 0.012),
    ("pilar", "onramp", "wise", "USD", 1.5, 0.014),
    ("quinn", "onramp", "zelle_citi", "USD", 2.5, 0.017),
    ("quinn", "offramp", "venmo", "USD", 2.0, 0.011),
    ("rosa", "onramp", "revolut", "EUR", 3.0, 0.010),
    ("rosa", "offramp", "wise", "EUR", 2.0, 0.013),
    ("sven", "onramp", "monzo", "GBP", 1.5, 0.012),
    ("sven", "onramp", "revolut", "GBP", 1.0, 0.015),
    ("tala", "onramp", "pix", "BRL", 4.0, 0.018),
    ("tala", "offramp", "pix", "BRL", 3.0, 0.020),
    ("yuri", "offramp", "revolut", "GBP", 1.0, 0.014),
    ("yuri", "onramp", "manual", "USD", 0.6, 0.006),
)
_TAKERS = tuple(f"history taker {number}" for number in range(40))
_FULFILLED, _CANCELLED = 0.8, 0.1
"""Shares of the orders; the rest expires."""
_PARTIAL, _MANUAL = 0.05, 0.03
"""Shares of the fulfilled ones."""
_CLOSING_SECONDS = 3_600
"""Before the end of the last day: no order opens, and the providers leave."""


@dataclass
class _Provider:
    strkey: str
    free: int = 0
    locked: int = 0
    pseq: int = 0
    tseq: int = 0
    rates: dict[tuple[str, str, str], int] = field(default_factory=dict)
    """Direction, rail and currency → rate of the terms."""


@dataclass(frozen=True)
class _Order:
    provider: _Provider
    taker: str
    id: bytes
    direction: str
    rail: str
    amount: int
    fiat: int
    lp_lock: int
    taker_lock: int
    opened_at: int


class MarketHistory:
    """Emits the whole history of `days` days from `begin`, a midnight, into the emitter."""

    def __init__(self, chain: StellarChain, emitter: Emitter, seed: int) -> None:
        self._chain = chain
        self._emitter = emitter
        self._random = random.Random(f"market {seed}")
        self._mid = dict(_MID)
        self._providers = {name: _Provider(account(name)) for name, *_ in _MARKETS}
        self._due: list[tuple[int, int, Any]] = []
        self._ties = count()

    def play(self, begin: int, days: int) -> None:
        """Everything, in order of time."""
        self._configure(begin + 60)
        for place, provider in enumerate(self._providers.values()):
            self._at(begin + 600 + place * 60, self._join, provider)
        for number in range(days):
            self._at(
                begin + number * DAY + 1_800, self._plan_day, begin + number * DAY, number, days
            )
        end = begin + days * DAY
        for place, provider in enumerate(self._providers.values()):
            self._at(end - 600 + place * 60, self._leave, provider)
        while self._due:
            time, _, call = heappop(self._due)
            call(time)

    def _at(self, time: int, act: Any, *arguments: Any) -> None:
        heappush(self._due, (time, next(self._ties), lambda now: act(now, *arguments)))

    # Days

    def _plan_day(self, now: int, midnight: int, number: int, days: int) -> None:
        for currency, drift in _DAILY_DRIFT.items():
            self._mid[currency] *= exp(self._random.gauss(0, drift))
        weekend = (midnight // DAY + 3) % 7 >= 5
        activity = (0.7 + 0.6 * number / days) * (0.6 if weekend else 1.0)
        last = midnight + DAY - _CLOSING_SECONDS if number == days - 1 else midnight + DAY - 1
        for name, direction, rail, currency, orders, margin in _MARKETS:
            provider = self._providers[name]
            self._set_terms(now, provider, direction, rail, currency, margin)
            for _ in range(_poisson(self._random, orders * activity)):
                at = self._random.randint(now + 1, last)
                self._at(at, self._open, provider, direction, rail, currency)

    def _open(
        self, now: int, provider: _Provider, direction: str, rail: str, currency: str
    ) -> None:
        amount = min(int(self._random.lognormvariate(3.6, 0.8) * UNIT), 400 * UNIT)
        amount = max(amount, 5 * UNIT)
        onramp = direction == "onramp"
        lp_lock = amount if onramp else amount * BOND_BPS // 10_000
        if provider.free < lp_lock:
            self._deposit(now, provider, 1_500 * UNIT)
        rate = provider.rates[direction, rail, currency]
        fiat = -(-amount * rate // UNIT) if onramp else amount * rate // UNIT
        provider.free -= lp_lock
        provider.locked += lp_lock
        taker = account(self._random.choice(_TAKERS))
        identifier = order_id(self._escrow, provider.strkey, provider.pseq + 1)
        order = _Order(
            *(provider, taker, identifier, direction, rail, amount, fiat),
            lp_lock,
            0 if onramp else amount,
            now,
        )
        tier, fee_bps = _RULES[rail]
        self._order_event(
            *(now, "order_open", order),
            direction=scval.to_symbol(direction),
            rail=scval.to_symbol(rail),
            currency=scval.to_symbol(currency),
            amount=scval.to_int128(amount),
            rate=scval.to_int128(rate),
            fiat_amount=scval.to_int128(fiat),
            lp_lock=scval.to_int128(lp_lock),
            taker_lock=scval.to_int128(order.taker_lock),
            payee_hash=scval.to_bytes(payee_hash(f"{provider.strkey} {rail}")),
            expires_at=scval.to_uint64(now + ORDER_TTL),
            tier=scval.to_uint32(tier),
            fee_bps=scval.to_uint32(fee_bps),
        )
        self._decide(now, order)

    def _decide(self, now: int, order: _Order) -> None:
        chance = self._random.random()
        if chance < _FULFILLED:
            took = self._random.lognormvariate(0, 0.45) * _MEDIAN_SECONDS[order.rail]
            self._at(now + max(15, min(int(took), ORDER_TTL - 5)), self._fulfill, order)
        elif chance < _FULFILLED + _CANCELLED:
            self._at(now + self._random.randint(20, ORDER_TTL - 60), self._end, order, "taker")
        else:
            self._at(now + ORDER_TTL + self._random.randint(30, 600), self._end, order, None)

    def _fulfill(self, now: int, order: _Order) -> None:
        provider, fee_bps = order.provider, _RULES[order.rail][1]
        is_partial = self._random.random() < _PARTIAL
        is_manual = self._random.random() < _MANUAL
        released = (
            order.amount * self._random.randint(50, 95) // 100 if is_partial else order.amount
        )
        fee = released * fee_bps // 10_000
        onramp = order.direction == "onramp"
        free_delta = order.lp_lock - released if onramp else order.lp_lock + released - fee
        provider.free += free_delta
        provider.locked -= order.lp_lock
        proof = sha256(b"payment for " + order.id).digest()
        nothing = scval.to_void()
        self._order_event(
            *(now, "order_fulfill", order),
            claim=scval.to_symbol("manual" if is_manual else "proof"),
            nullifier=nothing if is_manual else scval.to_bytes(proof),
            released=scval.to_int128(released),
            fee=scval.to_int128(fee),
            net=scval.to_int128(released - fee),
            recipient=address(order.taker if onramp else provider.strkey),
            lp_unlock=scval.to_int128(order.lp_lock),
            lp_free_delta=scval.to_int128(free_delta),
            taker_refund=scval.to_int128(0 if onramp else order.amount - released),
            fiat_paid=nothing
            if is_manual
            else scval.to_int128(order.fiat * released // order.amount),
            paid_at=nothing if is_manual else scval.to_uint64(now - 5),
        )

    def _end(self, now: int, order: _Order, cancelled_by: str | None) -> None:
        """A cancellation, or without `cancelled_by` an expiry that the taker records on chain."""
        order.provider.free += order.lp_lock
        order.provider.locked -= order.lp_lock
        self._order_event(
            *(now, "order_expire" if cancelled_by is None else "order_cancel", order),
            by=address(order.taker) if cancelled_by is None else scval.to_symbol(cancelled_by),
            lp_unlock=scval.to_int128(order.lp_lock),
            taker_refund=scval.to_int128(order.taker_lock),
        )

    # Providers

    def _join(self, now: int, provider: _Provider) -> None:
        self._deposit(now, provider, self._random.randint(1_500, 3_000) * UNIT)
        markets = [market for market in _MARKETS if self._providers[market[0]] is provider]
        for _, direction, rail, currency, _, margin in markets:
            self._terms_event(
                *(now, provider, "payee_set", [scval.to_symbol(rail)]),
                registered=scval.to_bool(True),
                payee_hash=scval.to_bytes(payee_hash(f"{provider.strkey} {rail}")),
                handle=scval.to_void(),
            )
            self._set_terms(now, provider, direction, rail, currency, margin)

    def _set_terms(
        self, now: int, provider: _Provider, direction: str, rail: str, currency: str, margin: float
    ) -> None:
        sign = 1 if direction == "onramp" else -1
        rate = self._mid[currency] * (1 + sign * margin * self._random.uniform(0.8, 1.2))
        provider.rates[direction, rail, currency] = round(rate * 10_000) * UNIT // 10_000
        self._terms_event(
            *(now, provider, "terms_set", [scval.to_symbol(rail), scval.to_symbol(currency)]),
            direction=scval.to_symbol(direction),
            rate=scval.to_int128(provider.rates[direction, rail, currency]),
            min=scval.to_int128(5 * UNIT),
            max=scval.to_int128(400 * UNIT),
        )

    def _deposit(self, now: int, provider: _Provider, amount: int) -> None:
        provider.free += amount
        data = {"amount": scval.to_int128(amount), "from": address(provider.strkey)}
        self._escrow_event(now, "deposit", provider, [], data)

    def _leave(self, now: int, provider: _Provider) -> None:
        assert provider.locked == 0, "an order is still open"
        amount, provider.free = provider.free, 0
        data = {"amount": scval.to_int128(amount), "to": address(provider.strkey)}
        self._escrow_event(now, "withdraw", provider, [], data)
        for direction, rail, currency in provider.rates:
            self._terms_event(
                *(now, provider, "terms_del", [scval.to_symbol(rail), scval.to_symbol(currency)]),
                direction=scval.to_symbol(direction),
            )

    # Events

    @property
    def _escrow(self) -> str:
        assert self._chain.escrow is not None
        return self._chain.escrow

    def _configure(self, now: int) -> None:
        """What the contracts emit when they are deployed."""
        config = {
            "token": address(self._chain.usdc_contract),
            "rail_terms": address(str(self._chain.rail_terms)),
            "admin": address(account(ADMIN)),
            "fee_to": address(account(PROTOCOL_FEES)),
            "order_ttl": scval.to_uint64(ORDER_TTL),
            "bond_bps": scval.to_uint32(BOND_BPS),
            "max_open": scval.to_uint32(MAX_OPEN),
        }
        self._emitter.send(now, stellar_event(self._escrow, "config_set", [], _data(config)))
        for name, tier, fee_bps, currencies in _RAILS:
            rail = {
                "enabled": scval.to_bool(True),
                "tier": scval.to_uint32(tier),
                "fee_bps": scval.to_uint32(fee_bps),
                "verifier": address(account(RAIL_VERIFIER)),
                "currencies": scval.to_vec([scval.to_symbol(each) for each in currencies]),
            }
            topics = [scval.to_symbol(name)]
            event = stellar_event(self._chain.rail_terms, "rail_set", topics, _data(rail))
            self._emitter.send(now, event)

    def _order_event(self, now: int, name: str, order: _Order, **data: xdr.SCVal) -> None:
        topics = [address(order.taker), scval.to_bytes(order.id)]
        self._escrow_event(now, name, order.provider, topics, data)

    def _escrow_event(
        self,
        now: int,
        name: str,
        provider: _Provider,
        topics: list[xdr.SCVal],
        data: dict[str, xdr.SCVal],
    ) -> None:
        provider.pseq += 1
        data |= {
            "free_after": scval.to_int128(provider.free),
            "locked_after": scval.to_int128(provider.locked),
            "pseq": scval.to_uint64(provider.pseq),
        }
        topics = [address(provider.strkey), *topics]
        self._emitter.send(now, stellar_event(self._escrow, name, topics, _data(data)))

    def _terms_event(
        self, now: int, provider: _Provider, name: str, topics: list[xdr.SCVal], **data: xdr.SCVal
    ) -> None:
        provider.tseq += 1
        data["tseq"] = scval.to_uint64(provider.tseq)
        topics = [address(provider.strkey), *topics]
        self._emitter.send(now, stellar_event(self._chain.rail_terms, name, topics, _data(data)))


def _data(members: dict[str, xdr.SCVal]) -> xdr.SCVal:
    return scval.to_struct({**members, "v": scval.to_uint32(1)})


def _poisson(chance: random.Random, mean: float) -> int:
    """Events of a Poisson process in one unit of time."""
    number, passed = 0, chance.expovariate(mean)
    while passed < 1:
        number, passed = number + 1, passed + chance.expovariate(mean)
    return number
