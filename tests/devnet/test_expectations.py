"""Expected order book of a scenario, on worked examples of the contracts' rules."""

import pytest

from devnet.expectations import UNIT, Deeds, Direction, Rail, Terms, TermsKey, decimal
from devnet.verify import differences, table

ANA, TOM = "ana", "tom"
VENMO = TermsKey("onramp", "venmo", "USD")
WISE = TermsKey("onramp", "wise", "USD")


def usdc(text: str) -> int:
    whole, _, fraction = text.partition(".")
    return int(whole + fraction.ljust(7, "0"))


def make_deeds(*, ttl: int = 600) -> Deeds:
    deeds = Deeds(order_ttl=ttl, bond_bps=10_000)
    for name in ("venmo", "wise"):
        deeds.rail(name, Rail(tier=2, fee_bps=50, currencies=("USD",)))
    deeds.deposit(ANA, 100 * UNIT, at=900)
    deeds.terms(ANA, VENMO, Terms(usdc("1.02"), 10 * UNIT, 50 * UNIT), at=910)
    return deeds


def with_payee() -> Deeds:
    deeds = make_deeds()
    deeds.payee(ANA, "venmo", "@ana", at=920)
    return deeds


def test_onramp_without_payee_is_not_offered() -> None:
    assert make_deeds().expected(5, 1_000).offers == ()


def test_offer_has_terms_escrow_and_published_handle() -> None:
    [offer] = with_payee().expected(5, 1_000).offers
    assert offer == {
        "provider": ANA,
        "direction": "onramp",
        "availableUsdc": "100",
        "lockedUsdc": "0",
        "acceptedRails": ["venmo"],
        "paymentHandles": {"venmo": "@ana"},
        "trustTier": 2,
        "feeRateBps": 50,
        "rate": "1.02",
        "currency": "USD",
        "minAmount": "10",
        "maxAmount": "50",
        "completedOrders": 0,
        "avgFulfillmentSeconds": 0,
        "lastActiveAt": "1970-01-01T00:15:20Z",
    }


def test_orders_lock_escrow_and_limit_the_largest_order() -> None:
    deeds = with_payee()
    deeds.opened("a", ANA, TOM, VENMO, 40 * UNIT, at=1_000)
    deeds.opened("b", ANA, TOM, VENMO, 30 * UNIT, at=1_005)
    book = deeds.expected(5, 1_006)
    [offer] = book.offers
    assert (offer["availableUsdc"], offer["lockedUsdc"], offer["maxAmount"]) == ("30", "70", "30")
    assert book.orders["a"]["fiatAmount"] == "40.8"
    assert book.providers[ANA]["activeIntents"] == 2


def test_partial_release_returns_rest_counts_as_completed() -> None:
    deeds = with_payee()
    deeds.opened("a", ANA, TOM, VENMO, 40 * UNIT, at=1_000)
    deeds.opened("b", ANA, TOM, VENMO, 30 * UNIT, at=1_005)
    deeds.fulfilled("b", 25 * UNIT, "tx", "ab", at=1_300)
    book = deeds.expected(5, 1_300)
    assert book.providers[ANA] == {
        "provider": ANA,
        "availableUsdc": "35",
        "lockedUsdc": "40",
        "completedOrders": 1,
        "avgFulfillmentSeconds": 295,
        "acceptedRails": ["venmo"],
        "activeIntents": 1,
    }
    assert book.orders["b"]["amountUsdc"] == "30"
    assert (book.orders["b"]["nullifier"], book.orders["b"]["txHash"]) == ("ab", "tx")


@pytest.mark.parametrize(
    ("now", "status", "available"), [(1_600, "active", "60"), (1_601, "expired", "100")]
)
def test_order_expires_by_time_alone(now: int, status: str, available: str) -> None:
    deeds = with_payee()
    deeds.opened("a", ANA, TOM, VENMO, 40 * UNIT, at=1_000)
    book = deeds.expected(5, now)
    assert book.orders["a"]["status"] == status
    assert book.providers[ANA]["availableUsdc"] == available


def test_pruned_order_changes_no_visible_row() -> None:
    deeds = with_payee()
    deeds.opened("a", ANA, TOM, VENMO, 40 * UNIT, at=1_000)
    before = deeds.expected(5, 1_700)
    deeds.pruned("a")
    assert deeds.expected(5, 1_700) == before


def test_rails_with_equal_terms_share_an_offer() -> None:
    deeds = with_payee()
    deeds.payee(ANA, "wise", None, at=930)
    deeds.terms(ANA, WISE, Terms(usdc("1.02"), 10 * UNIT, 50 * UNIT), at=940)
    [offer] = deeds.expected(5, 1_000).offers
    assert offer["acceptedRails"] == ["venmo", "wise"]
    assert offer["paymentHandles"] == {"venmo": "@ana"}
    deeds.terms(ANA, WISE, Terms(usdc("1.03"), 10 * UNIT, 50 * UNIT), at=950)
    book = deeds.expected(5, 1_000)
    assert [each["acceptedRails"] for each in book.offers] == [["venmo"], ["wise"]]
    assert book.summary == {
        "totalAvailableUsdc": "100",
        "totalLockedUsdc": "0",
        "offerCount": 2,
        "byRail": [
            {"rail": "venmo", "availableUsdc": "100", "offerCount": 1},
            {"rail": "wise", "availableUsdc": "100", "offerCount": 1},
        ],
    }


def test_provider_without_escrow_has_rails_but_no_offer() -> None:
    deeds = with_payee()
    deeds.withdraw(ANA, 95 * UNIT, at=1_000)
    book = deeds.expected(5, 1_001)
    assert book.offers == ()
    assert book.providers[ANA]["acceptedRails"] == ["venmo"]


def test_offramp_locks_bond_and_pays_provider_on_settlement() -> None:
    deeds = make_deeds()
    key = TermsKey("offramp", "venmo", "USD")
    deeds.terms(ANA, key, Terms(usdc("0.98"), 10 * UNIT, 50 * UNIT), at=950)
    deeds.opened("a", ANA, TOM, key, 40 * UNIT, at=1_000)
    assert deeds.expected(5, 1_001).providers[ANA]["lockedUsdc"] == "40"
    deeds.fulfilled("a", 40 * UNIT, "tx", "ab", at=1_100)
    shown = deeds.expected(5, 1_101).providers[ANA]
    assert (shown["availableUsdc"], shown["lockedUsdc"]) == ("139.8", "0")


@pytest.mark.parametrize(("direction", "fiat"), [("onramp", "0.0000002"), ("offramp", "0.0000001")])
def test_fiat_is_rounded_in_favour_of_the_provider(direction: Direction, fiat: str) -> None:
    deeds = with_payee()
    key = TermsKey(direction, "venmo", "USD")
    deeds.terms(ANA, key, Terms(usdc("1.5"), 1, 50 * UNIT), at=950)
    deeds.opened("a", ANA, TOM, key, 1, at=1_000)
    assert deeds.expected(5, 1_001).orders["a"]["fiatAmount"] == fiat


def test_only_cancel_by_provider_counts_as_its_activity() -> None:
    for by_provider, last_active in (
        (True, "1970-01-01T00:16:50Z"),
        (False, "1970-01-01T00:15:20Z"),
    ):
        deeds = with_payee()
        deeds.opened("a", ANA, TOM, VENMO, 40 * UNIT, at=1_000)
        deeds.cancelled("a", by_provider=by_provider, at=1_010)
        [offer] = deeds.expected(5, 1_011).offers
        assert (offer["availableUsdc"], offer["lastActiveAt"]) == ("100", last_active)


@pytest.mark.parametrize(
    ("amount", "text"), [(0, "0"), (1, "0.0000001"), (10 * UNIT, "10"), (408_000_000, "40.8")]
)
def test_decimals_have_no_exponent_or_trailing_zeros(amount: int, text: str) -> None:
    assert decimal(amount) == text


def test_differences_have_path_and_both_values() -> None:
    shown = {"a": 1, "b": [1, {"c": 2}], "extra": 0}
    wanted = {"a": 1, "b": [1, {"c": 3}], "missing": 0}
    assert differences("it", shown, wanted) == [
        "it: b[1]: c is 2, and must be 3",
        "it: extra is 0, and must be absent",
        "it: missing is absent, and must be 0",
    ]
    assert differences("it", [1], [1, 2]) == ["it is [1], and must be [1, 2]"]
    assert differences("it", wanted, wanted) == []


def test_table_shortens_ids_and_joins_lists() -> None:
    rows = [{"id": "0x" + "ab" * 32, "rails": ["a", "b"], "fee": None}]
    assert table(rows, ("id", "rails", "fee")).splitlines() == [
        "  id               rails  fee",
        "  0xababab…ababab  a,b    -",
    ]
