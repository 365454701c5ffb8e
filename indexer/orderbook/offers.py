"""Rail terms × escrow → offers. Pure.

One offer is one (provider, direction, currency, set of rails with identical terms): live terms are
grouped by (direction, currency, rate, min, max, tier, fee), and a group's sorted rails are part of
its identity. A changed set of rails removes the offer and adds another.

Anyone can become a provider, and each change of a provider's balance publishes its offers again.
Handle length, smallest offer and number of offers per provider are therefore limited here.

Amounts and rates are 7-decimal integers; rates are fiat per 1 USDC.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from indexer.market.escrow_events import OrderDirection
from indexer.orderbook.providers import ProviderRow
from warehouse_schema.identifiers import BaseUnits, Bytes32, StellarAddress, UnixSeconds, bytes32

MIN_OFFER = BaseUnits(10_000_000)
"""1 USDC: terms that allow no order of this size now are not listed."""

MAX_OFFERS = 64
"""Listed offers per provider: the first by identity. Balances do not affect the choice, or an order
or deposit would swap offers in and out of the list."""

MAX_HANDLE_LENGTH = 256
"""Characters."""


class TermsKey(NamedTuple):
    """Key of a provider's terms."""

    direction: OrderDirection
    rail: str
    currency: str


class OfferKey(NamedTuple):
    """Identity of an offer. Sorts removes, adds and updates of one ledger."""

    provider: StellarAddress
    direction: OrderDirection
    currency: str
    rails: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RailRow:
    """One row of `projections.rails`: the last `rail_set`."""

    rail: str
    enabled: bool
    tier: int
    fee_bps: int
    verifier: StellarAddress
    currencies: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TermsRow:
    """One row of `projections.terms`: set and not deleted."""

    provider: StellarAddress
    direction: OrderDirection
    rail: str
    currency: str
    rate: BaseUnits
    min: BaseUnits
    max: BaseUnits

    @property
    def key(self) -> TermsKey:
        """Key among the provider's terms."""
        return TermsKey(self.direction, self.rail, self.currency)


@dataclass(frozen=True, slots=True)
class PayeeRow:
    """One row of `projections.payees`: the provider's fiat payee on a rail."""

    provider: StellarAddress
    rail: str
    payee_hash: Bytes32
    handle: str | None
    """Only if `payee_hash` is its canonical hash and it can be published."""


@dataclass(frozen=True, slots=True)
class OfferRow:
    """One row of `projections.offers`, field for column."""

    provider: StellarAddress
    direction: OrderDirection
    currency: str
    rails: tuple[str, ...]
    rate: BaseUnits
    min: BaseUnits
    max: BaseUnits
    """The largest order that would succeed now: the provider's limit or the available balance."""
    available: BaseUnits
    locked: BaseUnits
    tier: int
    fee_bps: int
    handles: Mapping[str, str]
    completed_orders: int
    avg_fulfillment_seconds: int
    last_active_at: UnixSeconds

    @property
    def key(self) -> OfferKey:
        """The offer's identity."""
        return OfferKey(self.provider, self.direction, self.currency, self.rails)


AMOUNTS = frozenset({"rate", "min", "max", "available", "locked"})
"""Fields that are 7-decimal integers; JSON carries them as digit strings."""


def canonical_payee_hash(handle: str) -> Bytes32:
    """The convention of the RailTerms contract: SHA-256 of the handle's UTF-8 bytes, as given."""
    return bytes32(hashlib.sha256(handle.encode()).digest())


def published_handle(handle: str | None, payee_hash: Bytes32) -> str | None:
    """The handle, if its hash is the registered one and it can be shown.

    At most 256 printable characters: no control characters, and none by which one text imitates
    another. Any other handle counts as not given; hash and fact stay.
    """
    if handle is None or len(handle) > MAX_HANDLE_LENGTH or not handle.isprintable():
        return None
    return handle if canonical_payee_hash(handle) == payee_hash else None


def live_terms(
    provider: ProviderRow,
    terms: Iterable[TermsRow],
    payees: Mapping[str, PayeeRow],
    rails: Mapping[str, RailRow],
    opens_paused: bool,
) -> Iterator[TermsRow]:
    """Terms on which an order could open, if the escrow balance allows it.

    Provider and contract are not paused, the rail is enabled and carries the currency, and an
    onramp has a registered payee (the taker pays fiat to it).
    """
    if provider.paused or opens_paused:
        return
    for row in terms:
        rail = rails.get(row.rail)
        if rail is None or not rail.enabled or row.currency not in rail.currencies:
            continue
        if row.direction == "offramp" or row.rail in payees:
            yield row


def accepted_rails(live: Iterable[TermsRow]) -> tuple[str, ...]:
    """Sorted rails of a provider's live terms in both directions, whatever its balance."""
    return tuple(sorted({row.rail for row in live}))


def offers_of(
    provider: ProviderRow,
    terms: Iterable[TermsRow],
    payees: Mapping[str, PayeeRow],
    rails: Mapping[str, RailRow],
    opens_paused: bool,
) -> dict[OfferKey, OfferRow]:
    """The provider's offers that can be taken now, at most `MAX_OFFERS`; none while it is stale."""
    if provider.stale is not None:
        return {}
    groups: dict[tuple[OrderDirection, str, BaseUnits, BaseUnits, BaseUnits, int, int], list[str]]
    groups = defaultdict(list)
    for row in live_terms(provider, terms, payees, rails, opens_paused):
        if min(row.max, provider.available) >= max(row.min, MIN_OFFER):
            rail = rails[row.rail]
            groups[
                row.direction, row.currency, row.rate, row.min, row.max, rail.tier, rail.fee_bps
            ].append(row.rail)
    active_at = provider.last_active_at
    if not groups:
        return {}
    if active_at is None:
        raise ValueError(f"{provider.provider} has terms but no act of its own")
    offers: list[OfferRow] = []
    for (direction, currency, rate, low, high, tier, fee), names in groups.items():
        known = ((rail, payees[rail].handle) for rail in sorted(names) if direction == "onramp")
        offers.append(
            OfferRow(
                provider=provider.provider,
                direction=direction,
                currency=currency,
                rails=tuple(sorted(names)),
                rate=rate,
                min=low,
                max=min(high, provider.available),
                available=provider.available,
                locked=provider.committed,
                tier=tier,
                fee_bps=fee,
                handles={rail: handle for rail, handle in known if handle is not None},
                completed_orders=provider.completed_orders,
                avg_fulfillment_seconds=provider.avg_fulfillment_seconds,
                last_active_at=active_at,
            )
        )
    listed = sorted(offers, key=lambda offer: offer.key)[:MAX_OFFERS]
    return {offer.key: offer for offer in listed}


@dataclass(frozen=True, slots=True)
class OfferChanges:
    """Net difference of two books, each part by identity; `removed` as last published."""

    removed: tuple[OfferRow, ...] = ()
    added: tuple[OfferRow, ...] = ()
    updated: tuple[OfferRow, ...] = ()


def compare(
    before: Mapping[OfferKey, OfferRow], after: Mapping[OfferKey, OfferRow]
) -> OfferChanges:
    """The changes from one set of offers to the other."""
    return OfferChanges(
        removed=tuple(before[key] for key in sorted(before.keys() - after.keys())),
        added=tuple(after[key] for key in sorted(after.keys() - before.keys())),
        updated=tuple(
            after[key] for key in sorted(after.keys() & before.keys()) if after[key] != before[key]
        ),
    )


OfferEntry: TypeAlias = dict[str, str | int | list[str] | dict[str, str]]


def offer_entry(offer: OfferRow) -> OfferEntry:
    """The offer as JSON members named as its columns; amounts are strings of digits."""
    entry: OfferEntry = {}
    for name in OfferRow.__slots__:
        value = getattr(offer, name)
        entry[name] = str(value) if name in AMOUNTS else value
    return entry | {"rails": list(offer.rails), "handles": dict(offer.handles)}


def offer_from_entry(entry: Mapping[str, Any]) -> OfferRow:
    """Inverse of `offer_entry`."""
    fields = {name: int(entry[name]) if name in AMOUNTS else entry[name] for name in entry}
    return OfferRow(**fields | {"rails": tuple(entry["rails"])})
