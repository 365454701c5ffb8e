"""Conditions that make a provider's terms an offer, and differences of offers."""

from dataclasses import replace
from itertools import permutations
from string import ascii_uppercase
from typing import Any

import pytest

from indexer.orderbook.offers import (
    OfferRow,
    PayeeRow,
    RailRow,
    TermsRow,
    accepted_rails,
    canonical_payee_hash,
    compare,
    live_terms,
    offer_entry,
    offers_of,
    published_handle,
)
from indexer.orderbook.providers import ProviderRow
from tests.factories.book import PROVIDER, contract, usdc, word
from warehouse_schema.identifiers import UnixSeconds


def make_provider(**fields: Any) -> ProviderRow:
    defaults: dict[str, Any] = {"free": usdc(100), "last_active_at": 900}
    return ProviderRow(PROVIDER, **defaults | fields)


def make_terms(rail: str = "venmo", **fields: Any) -> TermsRow:
    defaults: dict[str, Any] = {
        "direction": "onramp",
        "currency": "USD",
        "rate": usdc("1.02"),
        "min": usdc(10),
        "max": usdc(50),
    }
    return TermsRow(PROVIDER, rail=rail, **defaults | fields)


def make_rail(rail: str = "venmo", **fields: Any) -> RailRow:
    defaults: dict[str, Any] = {
        "enabled": True,
        "tier": 2,
        "fee_bps": 50,
        "verifier": contract("verifier"),
        "currencies": ("EUR", "USD"),
    }
    return RailRow(rail, **defaults | fields)


def make_payee(rail: str = "venmo", handle: str | None = None) -> PayeeRow:
    return PayeeRow(PROVIDER, rail, word("payee"), handle)


RAILS = ("revolut", "venmo", "wise")
ALL_PAYEES = tuple(map(make_payee, RAILS))
ALL_RAILS = tuple(map(make_rail, RAILS))


def offers(
    *terms: TermsRow,
    provider: ProviderRow | None = None,
    payees: tuple[PayeeRow, ...] = ALL_PAYEES,
    rails: tuple[RailRow, ...] = ALL_RAILS,
    opens_paused: bool = False,
) -> list[OfferRow]:
    found = offers_of(
        provider or make_provider(),
        terms or (make_terms(),),
        {payee.rail: payee for payee in payees},
        {rail.rail: rail for rail in rails},
        opens_paused,
    )
    assert all(key == offer.key for key, offer in found.items())
    return sorted(found.values(), key=lambda offer: offer.key)


# Listed or not


def test_terms_with_every_condition_are_an_offer():
    (offer,) = offers()
    assert offer == OfferRow(
        provider=PROVIDER,
        direction="onramp",
        currency="USD",
        rails=("venmo",),
        rate=usdc("1.02"),
        min=usdc(10),
        max=usdc(50),
        available=usdc(100),
        locked=usdc(0),
        tier=2,
        fee_bps=50,
        handles={},
        completed_orders=0,
        avg_fulfillment_seconds=0,
        last_active_at=UnixSeconds(900),
    )


@pytest.mark.parametrize(
    "circumstances",
    [
        {"provider": make_provider(paused=True)},
        {"provider": make_provider(stale="sequence_gap: 3 after 1")},
        {"provider": make_provider(free=usdc("9.9999999"))},
        {"rails": ()},
        {"rails": (make_rail(enabled=False),)},
        {"rails": (make_rail(currencies=("EUR",)),)},
        {"opens_paused": True},
        {"payees": ()},
        {"payees": (make_payee("wise"),)},
    ],
    ids=str,
)
def test_missing_condition_removes_the_offer(circumstances: dict[str, Any]):
    assert offers(**circumstances) == []


def test_offramp_needs_no_payee():
    (offer,) = offers(make_terms(direction="offramp"), payees=())
    assert offer.direction == "offramp"


def test_min_above_max_is_no_offer():
    assert offers(make_terms(min=usdc(51))) == []


@pytest.mark.parametrize("least", ["0", "0.5", "1"])
def test_smallest_order_is_one_usdc(least: str):
    terms = make_terms(min=usdc(least))
    assert offers(terms, provider=make_provider(free=usdc(0))) == []
    assert offers(terms, provider=make_provider(free=usdc("0.9999999"))) == []
    assert len(offers(terms, provider=make_provider(free=usdc(1)))) == 1
    assert offers(make_terms(min=usdc(least), max=usdc("0.9999999"))) == []


def test_listed_offers_are_the_first_by_identity():
    # 26 + 26 + 26 currencies, on one rail: ISO 4217 has fewer, but a rail is the admin's.
    codes = [f"{first}{last}A" for first in "ABC" for last in ascii_uppercase]
    terms = [make_terms(currency=code) for code in reversed(codes)]
    rails = (make_rail(currencies=tuple(codes)),)
    for free in (usdc(100), usdc(20)):
        listed = offers(*terms, rails=rails, provider=make_provider(free=free))
        assert [offer.currency for offer in listed] == codes[:64]


@pytest.mark.parametrize(
    ("free", "largest"), [(10, 10), (49, 49), (50, 50), (51, 50)], ids=lambda n: str(n)
)
def test_max_is_limited_by_terms_and_escrow(free: int, largest: int):
    (offer,) = offers(provider=make_provider(free=usdc(free)))
    assert (offer.max, offer.available) == (usdc(largest), usdc(free))


def test_locks_of_expired_orders_are_available():
    provider = make_provider(free=usdc(5), locked=usdc(40), reclaimable=usdc(30))
    (offer,) = offers(provider=provider)
    assert (offer.available, offer.locked, offer.max) == (usdc(35), usdc(10), usdc(35))


# Grouping


def test_rails_with_equal_terms_share_an_offer():
    for order in permutations(RAILS):
        (offer,) = offers(*(make_terms(rail) for rail in order))
        assert offer.rails == RAILS


@pytest.mark.parametrize(
    "other",
    [
        {"rate": usdc("1.03")},
        {"min": usdc(11)},
        {"max": usdc(49)},
        {"currency": "EUR"},
        {"direction": "offramp"},
    ],
    ids=str,
)
def test_unequal_terms_are_separate_offers(other: dict[str, Any]):
    found = offers(make_terms("venmo"), make_terms("wise", **other))
    assert sorted(offer.rails for offer in found) == [("venmo",), ("wise",)]


@pytest.mark.parametrize("other", [{"tier": 3}, {"fee_bps": 30}], ids=str)
def test_rails_of_other_tier_or_fee_are_separate_offers(other: dict[str, Any]):
    rails = (make_rail("venmo"), make_rail("wise", **other))
    found = offers(make_terms("venmo"), make_terms("wise"), rails=rails)
    assert [(offer.rails, offer.tier, offer.fee_bps) for offer in found] == [
        (("venmo",), 2, 50),
        (("wise",), other.get("tier", 2), other.get("fee_bps", 50)),
    ]


def test_rail_without_payee_is_left_out_of_the_offer():
    (offer,) = offers(make_terms("venmo"), make_terms("wise"), payees=(make_payee("wise"),))
    assert offer.rails == ("wise",)


def test_max_above_escrow_still_separates_offers():
    found = offers(
        make_terms("venmo", max=usdc(500)),
        make_terms("wise", max=usdc(600)),
        provider=make_provider(free=usdc(100)),
    )
    assert [(offer.rails, offer.max) for offer in found] == [
        (("venmo",), usdc(100)),
        (("wise",), usdc(100)),
    ]


# Statistics and handles


@pytest.mark.parametrize(
    ("seconds", "orders", "mean"), [(0, 0, 0), (295, 1, 295), (5, 2, 3), (7, 3, 2), (8, 3, 3)]
)
def test_mean_fulfillment_is_rounded_half_up(seconds: int, orders: int, mean: int):
    provider = make_provider(fulfillment_seconds=seconds, completed_orders=orders)
    (offer,) = offers(provider=provider)
    assert (offer.completed_orders, offer.avg_fulfillment_seconds) == (orders, mean)


def test_onramp_shows_published_handles():
    payees = (make_payee("venmo", "@ann"), make_payee("wise"))
    (offer,) = offers(make_terms("venmo"), make_terms("wise"), payees=payees)
    assert offer.handles == {"venmo": "@ann"}


def test_offramp_shows_no_handle():
    (offer,) = offers(make_terms(direction="offramp"), payees=(make_payee("venmo", "@ann"),))
    assert offer.handles == {}


def test_handle_must_match_its_hash():
    another = canonical_payee_hash("@bob")
    assert published_handle("@ann", canonical_payee_hash("@ann")) == "@ann"
    assert published_handle("@Ann", canonical_payee_hash("@ann")) is None
    assert published_handle(" @ann", canonical_payee_hash("@ann")) is None
    assert published_handle("@ann", another) is None
    assert published_handle(None, canonical_payee_hash("@ann")) is None


@pytest.mark.parametrize("handle", ["a" * 256, "é" * 256, "@änn 漢字", "Zahl'", "€"])
def test_printable_handle_up_to_256_is_published(handle: str):
    assert published_handle(handle, canonical_payee_hash(handle)) == handle


@pytest.mark.parametrize(
    "handle",
    ["a" * 257, "@ann\n", "\t@ann", "@\u202enna", "@an\u200bn", "@ann\x7f", "\ud7ff\ue000"],
)
def test_long_or_unprintable_handle_is_not_published(handle: str):
    assert published_handle(handle, canonical_payee_hash(handle)) is None


def test_canonical_hash_is_sha256_of_utf8():
    # FIPS 180-2, appendix B.1: SHA-256("abc").
    assert canonical_payee_hash("abc") == (
        "0xba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    )


# Rails of a provider


def test_accepted_rails_are_distinct_sorted_of_both_directions():
    terms = (make_terms("wise"), make_terms("venmo", direction="offramp"), make_terms("venmo"))
    payees = {"wise": make_payee("wise")}
    rails = {rail: make_rail(rail) for rail in RAILS}
    drained = make_provider(free=usdc(0))
    assert accepted_rails(live_terms(drained, terms, payees, rails, False)) == ("venmo", "wise")
    paused = make_provider(paused=True)
    assert accepted_rails(live_terms(paused, terms, payees, rails, False)) == ()


# Differences


def test_offers_are_compared_by_identity():
    (kept,) = offers(make_terms("venmo"))
    (gone,) = offers(make_terms("wise"))
    (new,) = offers(make_terms("revolut"))
    dearer = replace(kept, rate=usdc("1.05"))
    changes = compare({o.key: o for o in (kept, gone)}, {o.key: o for o in (dearer, new)})
    assert (changes.removed, changes.added, changes.updated) == ((gone,), (new,), (dearer,))


def test_equal_books_have_no_changes():
    before = {offer.key: offer for offer in offers()}
    changes = compare(before, dict(before))
    assert (changes.removed, changes.added, changes.updated) == ((), (), ())


def test_entry_has_amounts_as_text_and_arrays_as_lists():
    (offer,) = offers(payees=(make_payee("venmo", "@ann"),))
    assert offer_entry(offer) == {
        "provider": PROVIDER,
        "direction": "onramp",
        "currency": "USD",
        "rails": ["venmo"],
        "rate": "10200000",
        "min": "100000000",
        "max": "500000000",
        "available": "1000000000",
        "locked": "0",
        "tier": 2,
        "fee_bps": 50,
        "handles": {"venmo": "@ann"},
        "completed_orders": 0,
        "avg_fulfillment_seconds": 0,
        "last_active_at": 900,
    }
