"""The order book's worked examples, one after the other on one provider with 100 USDC.

Rail fee 50 bps, tier 2. Each test stands alone: it plays the story up to its own step.
"""

import pytest

from indexer.projections.book import BookChanges, BookState, advance, fold_ledger, messages
from indexer.projections.offers import Offer, accepted_rails, live_terms
from indexer.projections.orders import Order
from indexer.projections.providers import Provider
from tests.factories.book import PROVIDER, usdc
from tests.factories.contract_model import ContractModel, Refused


class Story:
    """The contract, and the book that follows it ledger by ledger."""

    def __init__(self) -> None:
        self.contract = ContractModel(now=900)
        self.state = BookState()
        self.contract.config_set()
        self.contract.rail_set("venmo")
        self.contract.rail_set("wise")
        self.close()

    def close(self) -> BookChanges:
        changes = fold_ledger(self.state, *self.contract.close())
        advance(self.state, changes)
        assert changes.alarms == ()
        return changes

    def close_at(self, now: int) -> BookChanges:
        self.contract.at(now)
        return self.close()

    @property
    def figures(self) -> Provider:
        return self.state.books[PROVIDER].figures

    @property
    def offers(self) -> list[Offer]:
        return list(self.state.books[PROVIDER].offers.values())

    def rails_shown(self) -> tuple[str, ...]:
        book = self.state.books[PROVIDER]
        live = live_terms(
            book.figures, book.terms.values(), book.payees, self.state.rails, opens_paused=False
        )
        return accepted_rails(live)

    # The steps, by their number.

    def terms_without_payee(self) -> BookChanges:
        self.contract.deposit(PROVIDER, usdc(100))
        self.contract.terms_set(PROVIDER, rate=usdc("1.02"), low=usdc(10), high=usdc(50))
        return self.close()

    def with_payee(self) -> BookChanges:
        self.terms_without_payee()
        self.contract.payee_set(PROVIDER)
        return self.close()

    def first_open(self) -> BookChanges:
        self.with_payee()
        self.contract.at(1_000)
        self.first = self.contract.open(PROVIDER, usdc(40))
        return self.close()

    def second_open(self) -> BookChanges:
        self.first_open()
        self.contract.at(1_005)
        self.second = self.contract.open(PROVIDER, usdc(30))
        return self.close()

    def partial_release(self) -> BookChanges:
        self.second_open()
        self.contract.at(1_300).fulfil(self.second, usdc(25))
        return self.close()

    def clock_passes_first(self) -> BookChanges:
        self.partial_release()
        self.close_at(1_600)
        return self.close_at(1_601)

    def pruned(self) -> BookChanges:
        self.clock_passes_first()
        self.contract.at(1_700).expire(self.first)
        return self.close()

    def second_rail(self) -> BookChanges:
        self.pruned()
        self.contract.terms_set(PROVIDER, "wise", rate=usdc("1.02"), low=usdc(10), high=usdc(50))
        self.contract.payee_set(PROVIDER, "wise")
        return self.close()

    def wise_repriced(self) -> BookChanges:
        self.second_rail()
        self.contract.terms_set(PROVIDER, "wise", rate=usdc("1.03"), low=usdc(10), high=usdc(50))
        return self.close()


@pytest.fixture
def story() -> Story:
    return Story()


def said(changes: BookChanges) -> list[tuple[str, str | None, object]]:
    """Each message as (channel, op, rails or order)."""
    return [
        (m.channel, m.op, m.entry["rails"] if m.channel == "orderbook" else m.entry["order_id"])
        for m in messages(changes.offers, changes.intents)
    ]


def test_01_an_onramp_without_a_payee_is_no_offer(story: Story):
    changes = story.terms_without_payee()
    assert story.offers == []
    assert said(changes) == []


def test_02_a_payee_makes_it_an_offer(story: Story):
    changes = story.with_payee()
    (offer,) = story.offers
    assert (offer.available, offer.locked) == (usdc(100), 0)
    assert (offer.min, offer.max) == (usdc(10), usdc(50))
    assert (offer.rate, offer.tier, offer.fee_bps) == (usdc("1.02"), 2, 50)
    assert said(changes) == [("orderbook", "add", ["venmo"])]


def test_03_an_open_order_moves_available_to_locked(story: Story):
    changes = story.first_open()
    (offer,) = story.offers
    assert (offer.available, offer.locked, offer.max) == (usdc(60), usdc(40), usdc(50))
    order = story.state.orders[story.first]
    assert (order.fiat_amount, order.created_at, order.expires_at) == (usdc("40.8"), 1_000, 1_600)
    assert story.figures.active_orders == 1
    assert said(changes) == [("orderbook", "update", ["venmo"]), ("intent", None, story.first)]


def test_04_a_second_order_lowers_the_largest_order(story: Story):
    story.second_open()
    (offer,) = story.offers
    assert (offer.available, offer.locked, offer.max) == (usdc(30), usdc(70), usdc(30))


def test_05_the_offer_stays_listed_though_35_no_longer_fit(story: Story):
    story.second_open()
    (offer,) = story.offers
    assert offer.min <= usdc(30) <= offer.max < usdc(35)


def test_06_a_partial_release_is_fulfilled_with_its_amount_unchanged(story: Story):
    changes = story.partial_release()
    order = story.state.orders[story.second]
    assert (order.fee, order.net, order.released) == (usdc("0.125"), usdc("24.875"), usdc(25))
    assert (order.status, order.amount) == ("fulfilled", usdc(30))
    assert (story.figures.free, story.figures.locked) == (usdc(35), usdc(40))
    assert story.figures.completed_orders == 1
    assert story.figures.avg_fulfillment_seconds == 295
    assert changes.intents == (order,)


def test_07_an_order_is_active_at_its_expiry_and_expired_after_it(story: Story):
    story.partial_release()
    at_expiry = story.close_at(1_600)
    assert story.state.orders[story.first].status == "active"
    assert said(at_expiry) == []
    after = story.close_at(1_601)
    order = story.state.orders[story.first]
    assert (order.status, order.chain_status) == ("expired", "open")
    assert (story.figures.available, story.figures.committed) == (usdc(75), 0)
    assert story.figures.active_orders == 0
    assert said(after) == [("orderbook", "update", ["venmo"]), ("intent", None, story.first)]


def test_08_pruning_an_expired_order_says_nothing_new(story: Story):
    changes = story.pruned()
    assert said(changes) == []
    assert (story.figures.available, story.figures.committed) == (usdc(75), 0)
    assert (story.figures.free, story.figures.reclaimable) == (usdc(75), 0)
    order = story.state.orders[story.first]
    assert (order.status, order.chain_status, order.ended_at) == ("expired", "expired", 1_700)


def test_09_equal_terms_on_a_second_rail_make_a_new_offer_of_both(story: Story):
    changes = story.second_rail()
    assert said(changes) == [
        ("orderbook", "remove", ["venmo"]),
        ("orderbook", "add", ["venmo", "wise"]),
    ]


def test_10_the_summary_counts_the_escrow_once_in_all_and_once_a_rail(story: Story):
    story.second_rail()
    assert (story.state.totals.available, story.state.totals.offer_count) == (usdc(75), 1)
    depth = {rail: (row.available, row.offer_count) for rail, row in story.state.depth.items()}
    assert depth == {"venmo": (usdc(75), 1), "wise": (usdc(75), 1)}


def test_11_repricing_one_rail_splits_the_offer(story: Story):
    changes = story.wise_repriced()
    assert said(changes) == [
        ("orderbook", "remove", ["venmo", "wise"]),
        ("orderbook", "add", ["venmo"]),
        ("orderbook", "add", ["wise"]),
    ]
    rates = {offer.rails: offer.rate for offer in story.offers}
    assert rates == {("venmo",): usdc("1.02"), ("wise",): usdc("1.03")}
    assert (story.state.totals.available, story.state.totals.offer_count) == (usdc(75), 2)


def test_12_a_drained_provider_has_no_offers_but_still_shows_its_rails(story: Story):
    story.wise_repriced()
    story.contract.withdraw(PROVIDER, usdc(70))
    changes = story.close()
    assert [message[1] for message in said(changes)] == ["remove", "remove"]
    assert story.offers == []
    assert story.rails_shown() == ("venmo", "wise")


def test_13_a_nullifier_settles_one_order_alone(story: Story):
    story.second_rail()
    one, two = (story.contract.open(PROVIDER, usdc(20)) for _ in range(2))
    story.contract.fulfil(one, nullifier="0x" + "77" * 32)
    with pytest.raises(Refused):
        story.contract.fulfil(two, nullifier="0x" + "77" * 32)
    story.close()
    assert story.state.orders[one].status == "fulfilled"
    assert story.state.orders[two].status == "active"


def test_14_a_manual_release_has_a_transaction_but_no_nullifier(story: Story):
    story.second_rail()
    order_id = story.contract.open(PROVIDER, usdc(20))
    story.contract.fulfil(order_id, claim="manual")
    story.close()
    order: Order = story.state.orders[order_id]
    assert (order.status, order.claim, order.nullifier) == ("fulfilled", "manual", None)
    assert order.end_tx is not None


def test_15_a_fulfilled_offramp_returns_the_bond_and_credits_the_release(story: Story):
    story.second_rail()
    story.contract.terms_set(PROVIDER, direction="offramp", low=usdc(10), high=usdc(50))
    order_id = story.contract.open(PROVIDER, usdc(40), direction="offramp")
    story.close()
    assert (story.figures.free, story.figures.locked) == (usdc(35), usdc(40))
    assert story.state.totals.locked == usdc(40)
    story.contract.fulfil(order_id)
    story.close()
    assert (story.figures.free, story.figures.locked) == (usdc("114.8"), 0)
