"""RailTerms, version 1: rails, and what each provider offers on them.

Rates and limits are i128 with 7 decimals (rate: fiat per 1 USDC). Rails and currencies are
symbols: a lower-case slug, an ISO 4217 code. `tseq` counts a provider's events from 1.
"""

import re
from dataclasses import dataclass
from typing import Annotated

from stellar_sdk import scval, xdr

from devnet.stellar.host import CONSTRUCTOR, Contract, exported
from devnet.stellar.values import (
    ADDRESS,
    BOOL,
    I128,
    SYMBOL,
    U32,
    U64,
    Address,
    Bool,
    Bytes32,
    Int128,
    MaybeBytes32,
    MaybeString,
    Symbol,
    Symbols,
    Uint32,
    key,
    optional,
    sequence,
    struct,
)

VERSION = 1
MAX_BPS = 10_000
MAX_TIER = 3
_RAIL = re.compile(r"[a-z0-9_]{1,32}")
_CURRENCY = re.compile(r"[A-Z]{3}")
DIRECTIONS = ("onramp", "offramp")

UNKNOWN_RAIL = 1
UNKNOWN_CURRENCY = 2
BAD_DIRECTION = 3
BAD_TERMS = 4
NO_TERMS = 5
BAD_RAIL = 6
BAD_PAYEE = 7

_ADMIN = key("Admin")


@dataclass(frozen=True)
class Rail:
    """How payments on a rail are verified (tier 0 to 3), and the protocol fee on it."""

    currencies: Symbols
    enabled: Bool
    fee_bps: Uint32
    rail: Symbol
    tier: Uint32
    verifier: Address


@dataclass(frozen=True)
class Terms:
    """A provider's terms for one direction, rail and currency."""

    currency: Symbol
    direction: Symbol
    max: Int128
    min: Int128
    rail: Symbol
    rate: Int128


@dataclass(frozen=True)
class Payee:
    """A provider's handle for fiat on a rail: its hash, and optionally its plain text."""

    handle: MaybeString
    payee_hash: Bytes32


@dataclass(frozen=True)
class Provider:
    """Is the provider away, and how many events it has caused."""

    paused: Bool
    tseq: Annotated[int, U64]


@dataclass(frozen=True)
class Offer:
    """All that the escrow asks about before it opens an order."""

    currency_allowed: Bool
    enabled: Bool
    fee_bps: Uint32
    max: Int128
    min: Int128
    paused: Bool
    payee_hash: MaybeBytes32
    rate: Int128
    tier: Uint32


Rails = Annotated[list[Rail], sequence(struct(Rail))]
ManyTerms = Annotated[list[Terms], sequence(struct(Terms))]
MaybeTerms = Annotated[Terms | None, optional(struct(Terms))]
MaybeRail = Annotated[Rail | None, optional(struct(Rail))]
MaybePayee = Annotated[Payee | None, optional(struct(Payee))]
MaybeOffer = Annotated[Offer | None, optional(struct(Offer))]


def _terms_key(provider: str, direction: str, rail: str, currency: str) -> xdr.SCVal:
    names = (scval.to_symbol(name) for name in (direction, rail, currency))
    return key("Terms", scval.to_address(provider), *names)


def _rail_key(rail: str) -> xdr.SCVal:
    return key("Rail", scval.to_symbol(rail))


def _payee_key(provider: str, rail: str) -> xdr.SCVal:
    return key("Payee", scval.to_address(provider), scval.to_symbol(rail))


def _provider_key(provider: str) -> xdr.SCVal:
    return key("Provider", scval.to_address(provider))


class RailTerms(Contract):
    """The registry of rails, terms and payees."""

    CODE = "rail terms"

    @exported(CONSTRUCTOR)
    def construct(self, admin: Address, rails: Rails) -> None:
        """Start with an admin and the rails that it allows."""
        self.env.store(_ADMIN, ADDRESS, admin)
        for rail in rails:
            self._put_rail(rail)

    @exported("set_rail")
    def set_rail(
        self,
        rail: Symbol,
        enabled: Bool,
        tier: Uint32,
        fee_bps: Uint32,
        verifier: Address,
        currencies: Symbols,
    ) -> None:
        """Replace a rail's settings (admin)."""
        self.env.require_auth(self.env.load(_ADMIN, ADDRESS))
        self._put_rail(Rail(currencies, enabled, fee_bps, rail, tier, verifier))

    @exported("set_terms")
    def set_terms(
        self,
        provider: Address,
        rail: Symbol,
        currency: Symbol,
        direction: Symbol,
        rate: Int128,
        min: Int128,  # noqa: A002 - the event's own name
        max: Int128,  # noqa: A002
    ) -> None:
        """Replace a provider's terms for one direction, rail and currency."""
        self.env.require_auth(provider)
        self._put_terms(provider, Terms(currency, direction, max, min, rail, rate))

    @exported("set_terms_many")
    def set_terms_many(self, provider: Address, terms: ManyTerms) -> None:
        """Replace several terms at once, so that rails which agree keep one offer."""
        self.env.require_auth(provider)
        for each in terms:
            self._put_terms(provider, each)

    @exported("del_terms")
    def del_terms(
        self, provider: Address, rail: Symbol, currency: Symbol, direction: Symbol
    ) -> None:
        """Withdraw terms; orders that are open keep their own copy."""
        self.env.require_auth(provider)
        place = _terms_key(provider, direction, rail, currency)
        if self.env.load(place, struct(Terms)) is None:
            raise self.env.fail(NO_TERMS, "no such terms")
        self.env.remove(place)
        topics = [
            scval.to_address(provider),
            scval.to_symbol(rail),
            scval.to_symbol(currency),
        ]
        self._emit(provider, "terms_del", topics, {"direction": scval.to_symbol(direction)})

    @exported("set_payee")
    def set_payee(
        self,
        provider: Address,
        rail: Symbol,
        registered: Bool,
        payee_hash: MaybeBytes32,
        handle: MaybeString,
    ) -> None:
        """Register where the provider takes fiat on a rail, or withdraw that."""
        self.env.require_auth(provider)
        self._known_rail(rail)
        if registered != (payee_hash is not None) or (handle is not None and not registered):
            raise self.env.fail(BAD_PAYEE, "a registered payee has a hash, another has nothing")
        place = _payee_key(provider, rail)
        if payee_hash is None:
            self.env.remove(place)
        else:
            self.env.store(place, struct(Payee), Payee(handle, payee_hash))
        data = {
            "registered": scval.to_bool(registered),
            "payee_hash": _bytes_or_void(payee_hash),
            "handle": scval.to_void() if handle is None else scval.to_string(handle),
        }
        topics = [scval.to_address(provider), scval.to_symbol(rail)]
        self._emit(provider, "payee_set", topics, data)

    @exported("set_provider")
    def set_provider(self, provider: Address, paused: Bool) -> None:
        """Pause all of a provider's offers, or take them up again."""
        self.env.require_auth(provider)
        known = self._provider(provider)
        place = _provider_key(provider)
        self.env.store(place, struct(Provider), Provider(paused, known.tseq))
        data = {"paused": scval.to_bool(paused)}
        self._emit(provider, "provider_set", [scval.to_address(provider)], data)

    @exported("rail")
    def rail(self, rail: Symbol) -> MaybeRail:
        """A rail's settings."""
        return self._rail(rail)

    @exported("terms")
    def terms(
        self, provider: Address, rail: Symbol, currency: Symbol, direction: Symbol
    ) -> MaybeTerms:
        """A provider's terms."""
        return self._terms(provider, rail, currency, direction)

    @exported("payee")
    def payee(self, provider: Address, rail: Symbol) -> MaybePayee:
        """A provider's payee on a rail."""
        return self._payee(provider, rail)

    @exported("verifier")
    def verifier(self, rail: Symbol) -> Address:
        """Attestors of payments on a rail."""
        return self._known_rail(rail).verifier

    @exported("offer")
    def offer(
        self, provider: Address, rail: Symbol, currency: Symbol, direction: Symbol
    ) -> MaybeOffer:
        """Terms, rail and payee together; None without terms."""
        terms = self._terms(provider, rail, currency, direction)
        if terms is None:
            return None
        known, payee = self._known_rail(rail), self._payee(provider, rail)
        return Offer(
            currency_allowed=currency in known.currencies,
            enabled=known.enabled,
            fee_bps=known.fee_bps,
            max=terms.max,
            min=terms.min,
            paused=self._provider(provider).paused,
            payee_hash=None if payee is None else payee.payee_hash,
            rate=terms.rate,
            tier=known.tier,
        )

    def _rail(self, rail: str) -> Rail | None:
        found: Rail | None = self.env.load(_rail_key(rail), struct(Rail))
        return found

    def _known_rail(self, rail: str) -> Rail:
        known = self._rail(rail)
        if known is None:
            raise self.env.fail(UNKNOWN_RAIL, f"no rail {rail}")
        return known

    def _terms(self, provider: str, rail: str, currency: str, direction: str) -> Terms | None:
        place = _terms_key(provider, direction, rail, currency)
        found: Terms | None = self.env.load(place, struct(Terms))
        return found

    def _payee(self, provider: str, rail: str) -> Payee | None:
        found: Payee | None = self.env.load(_payee_key(provider, rail), struct(Payee))
        return found

    def _provider(self, provider: str) -> Provider:
        known: Provider | None = self.env.load(_provider_key(provider), struct(Provider))
        return known or Provider(paused=False, tseq=0)

    def _put_rail(self, rail: Rail) -> None:
        if not _RAIL.fullmatch(rail.rail) or rail.tier > MAX_TIER or rail.fee_bps > MAX_BPS:
            raise self.env.fail(BAD_RAIL, f"bad rail {rail}")
        if not all(_CURRENCY.fullmatch(currency) for currency in rail.currencies):
            raise self.env.fail(UNKNOWN_CURRENCY, f"bad currencies {rail.currencies}")
        self.env.store(_rail_key(rail.rail), struct(Rail), rail)
        data = {
            "v": scval.to_uint32(VERSION),
            "enabled": BOOL.encode(rail.enabled),
            "tier": U32.encode(rail.tier),
            "fee_bps": U32.encode(rail.fee_bps),
            "verifier": ADDRESS.encode(rail.verifier),
            "currencies": sequence(SYMBOL).encode(rail.currencies),
        }
        topics = [scval.to_symbol("rail_set"), scval.to_symbol(rail.rail)]
        self.env.emit(topics, scval.to_struct(data))

    def _put_terms(self, provider: str, terms: Terms) -> None:
        if terms.direction not in DIRECTIONS:
            raise self.env.fail(BAD_DIRECTION, f"no direction {terms.direction}")
        if terms.currency not in self._known_rail(terms.rail).currencies:
            raise self.env.fail(UNKNOWN_CURRENCY, f"{terms.rail} does not carry {terms.currency}")
        if terms.rate <= 0 or not 0 < terms.min <= terms.max:
            raise self.env.fail(BAD_TERMS, "rate and minimum are positive, maximum not below")
        place = _terms_key(provider, terms.direction, terms.rail, terms.currency)
        self.env.store(place, struct(Terms), terms)
        data = {
            "direction": scval.to_symbol(terms.direction),
            "rate": I128.encode(terms.rate),
            "min": I128.encode(terms.min),
            "max": I128.encode(terms.max),
        }
        topics = [
            scval.to_address(provider),
            scval.to_symbol(terms.rail),
            scval.to_symbol(terms.currency),
        ]
        self._emit(provider, "terms_set", topics, data)

    def _emit(
        self, provider: str, name: str, topics: list[xdr.SCVal], data: dict[str, xdr.SCVal]
    ) -> None:
        """Emit one of the provider's events, with its next `tseq`."""
        known = self._provider(provider)
        tseq = known.tseq + 1
        self.env.store(_provider_key(provider), struct(Provider), Provider(known.paused, tseq))
        whole = {**data, "v": scval.to_uint32(VERSION), "tseq": scval.to_uint64(tseq)}
        self.env.emit([scval.to_symbol(name), *topics], scval.to_struct(whole))


def _bytes_or_void(raw: bytes | None) -> xdr.SCVal:
    return scval.to_void() if raw is None else scval.to_bytes(raw)
