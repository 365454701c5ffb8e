"""The order book's worked examples, end to end: contracts, RPC, follower, rows, API and stream.

One provider with 100 USDC on two rails of 50 basis points and tier 2. The story is played once, on
the devnet's contracts; each example is what was to be seen at its step. Times are those of the
examples, counted from `BEGIN`.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy.engine import URL
from stellar_sdk import Keypair

from tests.devnet.stellar.chain import UNIT
from tests.devnet.stellar.market import Market
from tests.factories.book_stand import Screen, Shown, follow_up, reading
from warehouse_schema.engine import make_engine

BEGIN = 1_767_300_000
"""Later than whatever the devnet needs to get going. 2026-01-01T20:40:00Z."""
NULLIFIER = b"\x77" * 32
PAYEE_OF_TAKER = b"\x33" * 32


class Story:
    """The steps in their order; `shown` keeps what was to be seen after each."""

    def __init__(self, look: Callable[[], Shown]) -> None:
        self.market = Market()
        self.shown: dict[str, Shown] = {}
        self.orders: dict[str, str] = {}
        """Ids without `0x`, by what the order is called here."""
        self._look = look

    def step(self, name: str) -> None:
        self.shown[name] = self._look()

    def open(self, name: str, amount: int, at: int | None = None, **options: Any) -> bytes:
        order: bytes = self.market.open(amount, at=None if at is None else BEGIN + at, **options)
        self.orders[name] = order.hex()
        return order

    def play(self) -> None:
        self.lifecycle()
        self.grouping()
        self.settlement()

    def lifecycle(self) -> None:
        market = self.market
        market.chain.at(BEGIN + 900)
        market.deposit(100)
        market.set_terms(rail="venmo", rate=1.02, minimum=10, maximum=50)
        self.step("1")
        market.set_payee("venmo")
        self.step("2")
        first = self.open("first", 40, at=1_000)
        self.step("3")
        second = self.open("second", 30, at=1_005)
        self.step("4")
        market.fulfill(second, 25 * UNIT, nullifier=b"\x01" * 32, at=BEGIN + 1_300)
        self.step("6")
        market.chain.at(BEGIN + 1_600)
        self.step("7 at 1600")
        market.chain.at(BEGIN + 1_601)
        self.step("7 at 1601")
        market.end("expire", market.taker, first, at=BEGIN + 1_700)
        self.step("8")

    def grouping(self) -> None:
        market = self.market
        market.set_terms(rail="wise", rate=1.02, minimum=10, maximum=50)
        market.set_payee("wise")
        self.step("9")
        market.set_terms(rail="wise", rate=1.03, minimum=10, maximum=50)
        self.step("11")
        market.withdraw(70)
        self.step("12")

    def settlement(self) -> None:
        market = self.market
        market.deposit(70)
        one, two = (self.open(name, 20) for name in ("one", "two"))
        market.fulfill(one, 20 * UNIT, nullifier=NULLIFIER)
        self.step("13 before")
        refused = market.fulfill(two, 20 * UNIT, nullifier=NULLIFIER, run="refused")
        assert "has settled an order already" in refused
        self.step("13")
        by_hand: dict[str, Any] = {"claim": "manual", "nullifier": None}
        market.fulfill(two, 20 * UNIT, caller=market.provider, **by_hand)
        self.step("14")
        market.deposit(40)
        market.set_terms(rail="venmo", direction="offramp", rate=1.02, minimum=10, maximum=50)
        self._look()
        offramp = self.open("offramp", 40, direction="offramp", payee=PAYEE_OF_TAKER)
        self.step("15 open")
        market.fulfill(offramp, 40 * UNIT, nullifier=b"\x15" * 32)
        self.step("15 settled")


@pytest.fixture(scope="module")
def story(clone: Callable[[], URL]) -> Iterator[Story]:
    url = clone()
    engine, api_engine = make_engine(url, role="indexer"), make_engine(url, role="api")

    def look() -> Shown:
        follow_up(engine, reader)
        return screen.look()

    story = Story(look)
    screen = Screen(story.market, engine, api_engine)
    with reading(story.market) as reader:
        story.play()
        yield story
    engine.dispose()
    api_engine.dispose()


def the_offer(shown: Shown) -> dict[str, Any]:
    (offer,) = shown.offers
    return offer


def balances(shown: Shown) -> tuple[str, str]:
    """Available and locked, which the provider's page and each of its offers agree on."""
    totals = (shown.provider["availableUsdc"], shown.provider["lockedUsdc"])
    assert {(offer["availableUsdc"], offer["lockedUsdc"]) for offer in shown.offers} <= {totals}
    return totals


def escrow(shown: Shown) -> tuple[int, int, int]:
    """The chain's free and locked, and what of the latter is reclaimable, in units of 7 digits."""
    (row,) = shown.rows["providers"]
    return row["free"], row["locked"], row["reclaimable"]


def test_01_onramp_without_payee_is_no_offer(story: Story):
    shown = story.shown["1"]
    assert (shown.offers, shown.rows["offers"], shown.messages) == ([], [], [])
    assert balances(shown) == ("100", "0")
    assert shown.provider["acceptedRails"] == []


def test_02_onramp_with_payee_is_an_offer(story: Story):
    shown = story.shown["2"]
    provider: Keypair = story.market.provider
    assert shown.offers == [
        {
            "provider": provider.public_key,
            "direction": "onramp",
            "availableUsdc": "100",
            "lockedUsdc": "0",
            "acceptedRails": ["venmo"],
            "paymentHandles": {},
            "trustTier": 2,
            "feeRateBps": 50,
            "rate": "1.02",
            "currency": "USD",
            "minAmount": "10",
            "maxAmount": "50",
            "completedOrders": 0,
            "avgFulfillmentSeconds": 0,
            "lastActiveAt": "2026-01-01T20:55:15Z",
        }
    ]
    assert shown.messages == [("orderbook", "add", ["venmo"])]
    (entry,) = shown.entries
    assert (entry["available"], entry["locked"]) == ("1000000000", "0")
    assert (entry["min"], entry["max"]) == ("100000000", "500000000")


def test_03_open_order_moves_available_to_locked(story: Story):
    shown, order_id = story.shown["3"], story.orders["first"]
    assert balances(shown) == ("60", "40")
    assert the_offer(shown)["maxAmount"] == "50"
    assert shown.orders[order_id] == {
        "intentId": order_id,
        "buyer": story.market.taker.public_key,
        "provider": story.market.provider.public_key,
        "direction": "onramp",
        "rail": "venmo",
        "currency": "USD",
        "amountUsdc": "40",
        "fiatAmount": "40.8",
        "status": "active",
        "trustTier": 2,
        "createdAt": "2026-01-01T20:56:40Z",
        "expiresAt": "2026-01-01T21:06:40Z",
    }
    assert shown.provider["activeIntents"] == 1
    assert shown.messages == [
        ("orderbook", "update", ["venmo"]),
        ("intent", None, (order_id, "active")),
    ]


def test_04_second_order_lowers_max_amount(story: Story):
    shown = story.shown["4"]
    assert balances(shown) == ("30", "70")
    assert the_offer(shown)["maxAmount"] == "30"
    assert shown.provider["activeIntents"] == 2
    assert shown.messages == [
        ("orderbook", "update", ["venmo"]),
        ("intent", None, (story.orders["second"], "active")),
    ]


def test_05_min_amount_filter_excludes_the_offer(story: Story):
    shown = story.shown["4"]
    assert [offer["maxAmount"] for offer in shown.offers] == ["30"]
    assert shown.filtered["minAmount=35"] == []
    assert shown.filtered["minAmount=30"] == shown.offers


def test_06_partial_release_keeps_the_amount(story: Story):
    shown, order_id = story.shown["6"], story.orders["second"]
    assert escrow(shown) == (35 * UNIT, 40 * UNIT, 0)
    (stored,) = (row for row in shown.rows["orders"] if row["order_id"] == f"0x{order_id}")
    assert (stored["fee"], stored["net"], stored["released"]) == (1_250_000, 248_750_000, 25 * UNIT)
    order = shown.orders[order_id]
    assert (order["status"], order["amountUsdc"]) == ("fulfilled", "30")
    assert order["nullifier"] == "01" * 32
    assert order["txHash"] == stored["end_tx"]
    assert shown.provider["completedOrders"] == 1
    assert shown.provider["avgFulfillmentSeconds"] == 295
    assert shown.messages == [
        ("orderbook", "update", ["venmo"]),
        ("intent", None, (order_id, "fulfilled")),
    ]


def test_07_order_expires_after_its_expiry_time(story: Story):
    order_id = story.orders["first"]
    at, after = story.shown["7 at 1600"], story.shown["7 at 1601"]
    assert (at.orders[order_id]["status"], at.messages) == ("active", [])
    assert balances(at) == ("35", "40")
    assert after.orders[order_id]["status"] == "expired"
    assert balances(after) == ("75", "0")
    assert escrow(after) == (35 * UNIT, 40 * UNIT, 40 * UNIT)
    assert after.provider["activeIntents"] == 0
    assert after.messages == [
        ("orderbook", "update", ["venmo"]),
        ("intent", None, (order_id, "expired")),
    ]


def test_08_pruning_expired_order_sends_no_message(story: Story):
    before, shown = story.shown["7 at 1601"], story.shown["8"]
    assert shown.messages == []
    assert (shown.offers, shown.orders) == (before.offers, before.orders)
    assert (shown.summary, shown.provider) == (before.summary, before.provider)
    assert escrow(shown) == (75 * UNIT, 0, 0)
    assert {row["chain_status"] for row in shown.rows["orders"]} == {"fulfilled", "expired"}


def test_09_equal_terms_on_second_rail_make_one_offer(story: Story):
    shown = story.shown["9"]
    assert the_offer(shown)["acceptedRails"] == ["venmo", "wise"]
    assert [message for message in shown.messages if message[1] != "update"] == [
        ("orderbook", "remove", ["venmo"]),
        ("orderbook", "add", ["venmo", "wise"]),
    ]


def test_10_summary_counts_escrow_once_and_once_per_rail(story: Story):
    assert story.shown["9"].summary == {
        "totalAvailableUsdc": "75",
        "totalLockedUsdc": "0",
        "offerCount": 1,
        "byRail": [
            {"rail": "venmo", "availableUsdc": "75", "offerCount": 1},
            {"rail": "wise", "availableUsdc": "75", "offerCount": 1},
        ],
    }


def test_11_repricing_one_rail_splits_the_offer(story: Story):
    shown = story.shown["11"]
    assert shown.messages == [
        ("orderbook", "remove", ["venmo", "wise"]),
        ("orderbook", "add", ["venmo"]),
        ("orderbook", "add", ["wise"]),
    ]
    rates = {tuple(offer["acceptedRails"]): offer["rate"] for offer in shown.offers}
    assert rates == {("venmo",): "1.02", ("wise",): "1.03"}
    assert (shown.summary["totalAvailableUsdc"], shown.summary["offerCount"]) == ("75", 2)


def test_12_drained_provider_has_rails_but_no_offers(story: Story):
    shown = story.shown["12"]
    assert shown.messages == [
        ("orderbook", "remove", ["venmo"]),
        ("orderbook", "remove", ["wise"]),
    ]
    assert (shown.offers, shown.summary["byRail"]) == ([], [])
    assert balances(shown) == ("5", "0")
    assert shown.provider["acceptedRails"] == ["venmo", "wise"]


def test_13_nullifier_settles_one_order_only(story: Story):
    before, shown = story.shown["13 before"], story.shown["13"]
    assert shown.ledger == before.ledger + 1, "the refused call had its ledger"
    assert shown.messages == []
    assert (shown.offers, shown.orders, shown.rows) == (before.offers, before.orders, before.rows)
    assert shown.orders[story.orders["one"]]["nullifier"] == NULLIFIER.hex()
    assert shown.orders[story.orders["two"]]["status"] == "active"


def test_14_manual_release_has_transaction_without_nullifier(story: Story):
    shown, order_id = story.shown["14"], story.orders["two"]
    order = shown.orders[order_id]
    assert (order["status"], len(order["txHash"])) == ("fulfilled", 64)
    assert "nullifier" not in order
    assert ("intent", None, (order_id, "fulfilled")) in shown.messages


def test_15_offramp_returns_bond_and_credits_release(story: Story):
    opened, settled = story.shown["15 open"], story.shown["15 settled"]
    assert balances(opened) == ("35", "40")
    assert opened.summary["totalLockedUsdc"] == "40", "the taker's USDC is not counted"
    assert escrow(settled) == (1_148_000_000, 0, 0)
    assert balances(settled) == ("114.8", "0")
    assert settled.orders[story.orders["offramp"]]["status"] == "fulfilled"
    assert {op for channel, op, _ in opened.messages if channel == "orderbook"} == {"update"}
