"""Depth over distinct providers, updated by differences."""

import random

import pytest

from indexer.orderbook.depth import (
    Contribution,
    RailDepthRow,
    Totals,
    contribution,
    shift_depth,
    shift_totals,
)
from indexer.orderbook.offers import OfferRow
from indexer.orderbook.providers import ProviderRow
from tests.factories.book import account, usdc
from warehouse_schema.identifiers import UnixSeconds

ANN, BOB = account("ann"), account("bob")
NOBODY = Contribution(Totals(), {})


def make_offer(provider: ProviderRow, *rails: str, currency: str = "USD") -> OfferRow:
    return OfferRow(
        provider=provider.provider,
        direction="onramp",
        currency=currency,
        rails=rails,
        rate=usdc("1.02"),
        min=usdc(1),
        max=usdc(50),
        available=provider.available,
        locked=provider.committed,
        tier=2,
        fee_bps=50,
        handles={},
        completed_orders=0,
        avg_fulfillment_seconds=0,
        last_active_at=UnixSeconds(900),
    )


def part(provider: ProviderRow, *rail_sets: tuple[str, ...]) -> Contribution:
    return contribution(provider, [make_offer(provider, *rails) for rails in rail_sets])


ANN_FIGURES = ProviderRow(ANN, free=usdc(70), locked=usdc(30), reclaimable=usdc(5))


def test_provider_counts_once_per_rail():
    ours = part(ANN_FIGURES, ("venmo", "wise"), ("wise",))
    assert ours.totals == Totals(usdc(75), usdc(25), 2)
    assert ours.rails == {
        "venmo": RailDepthRow(usdc(75), 1),
        "wise": RailDepthRow(usdc(75), 2),
    }


def test_provider_without_offer_counts_locked_only():
    assert part(ANN_FIGURES) == Contribution(Totals(usdc(0), usdc(25), 0), {})


def test_depth_by_rail_never_exceeds_the_total():
    bob = ProviderRow(BOB, free=usdc(10))
    parts = [part(ANN_FIGURES, ("venmo", "wise")), part(bob, ("wise",))]
    totals = shift_totals(Totals(), [(NOBODY, ours) for ours in parts])
    depth = shift_depth({}, [(NOBODY, ours) for ours in parts])
    assert totals == Totals(usdc(85), usdc(25), 2)
    assert depth == {"venmo": RailDepthRow(usdc(75), 1), "wise": RailDepthRow(usdc(85), 2)}


def test_last_offer_of_a_rail_leaves_zero_depth():
    ours = part(ANN_FIGURES, ("venmo",))
    assert shift_depth({"venmo": RailDepthRow(usdc(75), 1)}, [(ours, NOBODY)]) == {
        "venmo": RailDepthRow(usdc(0), 0)
    }


def test_unchanged_rails_are_omitted():
    ours = part(ANN_FIGURES, ("venmo",), ("wise",))
    without_wise = part(ANN_FIGURES, ("venmo",))
    depth = {"venmo": RailDepthRow(usdc(75), 1), "wise": RailDepthRow(usdc(75), 1)}
    assert shift_depth(depth, [(ours, without_wise)]) == {"wise": RailDepthRow(usdc(0), 0)}
    assert shift_depth(depth, [(ours, ours)]) == {}


@pytest.mark.parametrize("seed", range(5))
def test_random_shifts_equal_a_full_sum(seed: int):
    randomly = random.Random(seed)
    parts = dict.fromkeys((ANN, BOB, account("cay")), NOBODY)
    depth: dict[str, RailDepthRow] = {}
    totals = Totals()
    for _ in range(200):
        name = randomly.choice(list(parts))
        figures = ProviderRow(name, free=usdc(randomly.randint(0, 99)), locked=usdc(7))
        sets = randomly.choice([(), (("venmo",),), (("venmo", "wise"), ("wise",))])
        move = (parts[name], part(figures, *sets))
        parts[name] = move[1]
        totals = shift_totals(totals, [move])
        depth |= shift_depth(depth, [move])
        depth = {rail: row for rail, row in depth.items() if row.offer_count}
        afresh = [(NOBODY, ours) for ours in parts.values()]
        assert totals == shift_totals(Totals(), afresh)
        assert depth == shift_depth({}, afresh)
