"""Offers → market depth. Pure.

A provider's escrow backs all its offers at once, so sums go over distinct providers: each provider
contributes its balances once to the totals and once to each rail it has an offer on. Depth is not
additive over rails. A change of one provider costs the difference of its two contributions, not a
scan of the book. Amounts are 7-decimal integers.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from indexer.orderbook.offers import OfferRow
from indexer.orderbook.providers import ZERO, ProviderRow
from warehouse_schema.identifiers import BaseUnits


@dataclass(frozen=True, slots=True)
class Totals:
    """The order book in three figures."""

    available: BaseUnits = ZERO
    """Over distinct providers with a listed offer."""
    locked: BaseUnits = ZERO
    """Over all providers: orders stay open without an offer. Takers' locks are not included."""
    offer_count: int = 0


@dataclass(frozen=True, slots=True)
class RailDepthRow:
    """One row of `projections.depth`."""

    available: BaseUnits = ZERO
    offer_count: int = 0


NO_TOTALS = Totals()


@dataclass(frozen=True, slots=True)
class Contribution:
    """Summands of one provider in the totals and in each rail."""

    totals: Totals
    rails: Mapping[str, RailDepthRow]


def contribution(provider: ProviderRow, offers: Collection[OfferRow]) -> Contribution:
    """The provider's contribution, from its figures and listed offers."""
    counts: dict[str, int] = {}
    for offer in offers:
        for rail in offer.rails:
            counts[rail] = counts.get(rail, 0) + 1
    available = provider.available
    return Contribution(
        Totals(available if offers else ZERO, provider.committed, len(offers)),
        {rail: RailDepthRow(available, count) for rail, count in counts.items()},
    )


def shift_totals(totals: Totals, moves: Iterable[tuple[Contribution, Contribution]]) -> Totals:
    """Totals after each provider's contribution changed from the first to the second."""
    available, locked, count = totals.available, totals.locked, totals.offer_count
    for before, after in moves:
        available = BaseUnits(available + after.totals.available - before.totals.available)
        locked = BaseUnits(locked + after.totals.locked - before.totals.locked)
        count += after.totals.offer_count - before.totals.offer_count
    return Totals(available, locked, count)


def shift_depth(
    depth: Mapping[str, RailDepthRow], moves: Iterable[tuple[Contribution, Contribution]]
) -> dict[str, RailDepthRow]:
    """Rails whose depth changed, with the new depth; a count of 0 deletes the row."""
    shifted: dict[str, RailDepthRow] = {}
    for before, after in moves:
        for rail in before.rails.keys() | after.rails.keys():
            now = shifted.get(rail) or depth.get(rail) or RailDepthRow()
            was, is_ = before.rails.get(rail, RailDepthRow()), after.rails.get(rail, RailDepthRow())
            shifted[rail] = RailDepthRow(
                BaseUnits(now.available + is_.available - was.available),
                now.offer_count + is_.offer_count - was.offer_count,
            )
    return {rail: row for rail, row in shifted.items() if row != depth.get(rail, RailDepthRow())}
