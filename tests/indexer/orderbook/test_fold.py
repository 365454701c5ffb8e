"""The fold of ledgers against a contract model and an independent slow reader."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

import pytest

from indexer.market.escrow_events import EscrowEvent
from indexer.market.rail_terms_events import RailTermsEvent
from indexer.orderbook import orders as order_rules
from indexer.orderbook.event_folds import FOLDS
from indexer.orderbook.fold import advance, combine, fold_ledger, messages
from indexer.orderbook.offers import OfferRow
from indexer.orderbook.state import BookAlarm, BookEvent, BookState
from tests.factories.book import (
    PROVIDER,
    account,
    ledger_close,
    make_config_set,
    make_deposit,
    make_order_cancel,
    make_order_expire,
    make_order_fulfill,
    make_order_open,
    make_payee_set,
    make_rail_set,
    make_terms_set,
    seen_in,
    usdc,
    word,
)
from tests.factories.book_history import Ledger, RandomHistory
from tests.factories.contract_model import ContractModel


def folded(
    history: Sequence[Ledger], state: BookState | None = None
) -> tuple[BookState, list[BookAlarm]]:
    """The state after every ledger, one `fold_ledger` each, and the alarms on the way."""
    state = state or BookState()
    alarms: list[BookAlarm] = []
    for ledger, events in history:
        changes = fold_ledger(state, ledger, events)
        advance(state, changes)
        alarms += changes.alarms
    return state, alarms


def listed(state: BookState) -> dict[Any, OfferRow]:
    return {tuple(key): row for book in state.books.values() for key, row in book.offers.items()}


def test_every_event_type_has_a_fold():
    assert set(FOLDS) == {*get_args(EscrowEvent), *get_args(RailTermsEvent)}


def test_combined_ledgers_change_the_same_rows():
    story = RandomHistory(11)
    history = [story.ledger() for _ in range(60)]
    start, _ = folded(history[:30])
    one_by_one, _ = folded(history[:30])
    changes_by_ledger = []
    for ledger, events in history[30:]:
        changes_by_ledger.append(fold_ledger(one_by_one, ledger, events))
        advance(one_by_one, changes_by_ledger[-1])
    advance(start, combine(changes_by_ledger))
    assert (start.books, start.orders) == (one_by_one.books, one_by_one.orders)
    assert (start.depth, start.totals) == (one_by_one.depth, one_by_one.totals)


# Single rules


def ledger_of(height: int, close_time: int, *events: BookEvent) -> Ledger:
    """A ledger and its events, each moved into it."""
    ledger = ledger_close(height, close_time)
    return ledger, [replace(event, seen=seen_in(ledger)) for event in events]


def funded(*more: BookEvent) -> list[Ledger]:
    begin = (make_rail_set(), make_deposit(), make_terms_set(), make_payee_set())
    return [ledger_of(1, 1_000, *begin, *more)]


def after_opening(*later: Ledger) -> tuple[BookState, list[BookAlarm]]:
    return folded([*funded(make_order_open()), *later])


def kinds(alarms: Sequence[BookAlarm]) -> list[str]:
    return [alarm.kind for alarm in alarms]


def test_unknown_order_is_alarmed_and_provider_stale():
    state, alarms = folded(
        [
            *funded(),
            ledger_of(
                2, 1_300, make_order_cancel(pseq=2, free_after=usdc(140), locked_after=-usdc(40))
            ),
        ]
    )
    assert kinds(alarms) == ["unknown_order"]
    assert state.orders == {}
    assert state.books[PROVIDER].figures.stale == f"unknown_order: {alarms[0].detail}"


@pytest.mark.parametrize(
    "again",
    [
        make_order_fulfill(pseq=4),
        make_order_cancel(pseq=4),
        make_order_expire(pseq=4),
    ],
    ids=lambda event: type(event).__name__,
)
def test_finished_order_does_not_end_again(again):
    history = [*funded(make_order_open()), ledger_of(2, 1_300, make_order_fulfill())]
    before, _ = folded(history)
    state, alarms = folded([*history, ledger_of(3, 1_700, again)])
    assert kinds(alarms)[0] in ("balance_mismatch", "finished_order")
    assert "finished_order" in kinds(alarms)
    assert state.orders == before.orders
    figures = state.books[PROVIDER].figures
    assert (figures.free, figures.locked) == (again.free_after, again.locked_after)
    assert figures.completed_orders == 1


def test_order_end_for_other_parties_is_ignored():
    other = make_order_cancel(taker=account("somebody else"))
    state, alarms = after_opening(ledger_of(2, 1_300, other))
    assert kinds(alarms) == ["order_mismatch"]
    assert state.orders[word("order")].chain_status == "open"


def test_reopened_order_keeps_its_first_terms():
    again = make_order_open(
        amount=usdc(20), lp_lock=usdc(20), free_after=usdc(40), locked_after=usdc(60), pseq=3
    )
    state, alarms = after_opening(ledger_of(2, 1_100, again))
    assert kinds(alarms) == ["order_reopened"]
    assert state.orders[word("order")].amount == usdc(40)
    assert state.books[PROVIDER].figures.active_orders == 1


@pytest.mark.parametrize("split", [False, True], ids=["same ledger", "later ledger"])
@pytest.mark.parametrize(
    ("late", "chain_status"),
    [(make_order_fulfill(), "fulfilled"), (make_order_cancel(), "cancelled")],
    ids=["fulfil", "cancel"],
)
def test_late_settlement_stays_expired_but_frees_its_lock(late, chain_status, split):
    clock = [ledger_of(2, 1_601)] if split else []
    state, alarms = after_opening(*clock, ledger_of(3, 1_602, late))
    assert kinds(alarms) == ["contract_rule"]
    order = state.orders[word("order")]
    assert (order.status, order.chain_status) == ("expired", chain_status)
    figures = state.books[PROVIDER].figures
    assert (figures.active_orders, figures.completed_orders) == (0, 0)
    assert (figures.available, figures.committed) == (late.free_after, 0)


def test_early_pruned_order_is_expired_and_alarmed():
    state, alarms = after_opening(ledger_of(2, 1_600, make_order_expire()))
    assert kinds(alarms) == ["contract_rule"]
    assert state.orders[word("order")].status == "expired"


def test_order_pruned_at_expiry_changes_once():
    state, _ = folded(funded(make_order_open()))
    changes = fold_ledger(state, *ledger_of(2, 1_601, make_order_expire()))
    assert changes.alarms == ()
    assert [(order.status, order.chain_status) for order in changes.intents] == [
        ("expired", "expired")
    ]


def test_order_opened_past_expiry_expires_at_once():
    state, _ = folded(funded())
    stillborn = make_order_open(expires_at=1_100)
    changes = fold_ledger(state, *ledger_of(2, 1_101, stillborn))
    assert [order.status for order in changes.intents] == ["active", "expired"]
    advance(state, changes)
    figures = state.books[PROVIDER].figures
    assert (figures.available, figures.active_orders) == (usdc(100), 0)


def test_order_opened_and_settled_in_one_ledger_changes_twice():
    state, _ = folded(funded())
    changes = fold_ledger(state, *ledger_of(2, 1_200, make_order_open(), make_order_fulfill()))
    assert [order.status for order in changes.intents] == ["active", "fulfilled"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"lp_unlock": usdc(39), "locked_after": usdc(1)},
        {"released": usdc(41), "fee": usdc("0.205")},
        {"fee": usdc("0.3")},
        {"lp_free_delta": usdc(1), "free_after": usdc(61)},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_settlement_against_contract_rules_is_alarmed(wrong):
    _, alarms = after_opening(ledger_of(2, 1_300, make_order_fulfill(**wrong)))
    assert set(kinds(alarms)) == {"contract_rule"}


def test_stale_provider_follows_balances_without_reclaimable():
    gap = make_deposit(pseq=9, free_after=usdc(500), locked_after=usdc(40))
    state, alarms = after_opening(ledger_of(2, 1_100, gap), ledger_of(3, 1_601))
    assert kinds(alarms) == ["sequence_gap"]
    figures = state.books[PROVIDER].figures
    assert (figures.available, figures.committed, figures.reclaimable) == (usdc(500), usdc(40), 0)
    assert state.orders[word("order")].status == "expired"
    later = ledger_of(4, 1_700, make_order_expire(pseq=10, free_after=usdc(540)))
    advance(state, fold_ledger(state, *later))
    figures = state.books[PROVIDER].figures
    assert (figures.available, figures.committed, figures.reclaimable) == (usdc(540), 0, 0)


def test_provider_keeps_its_first_stale_reason():
    first = make_deposit(pseq=9, free_after=usdc(200))
    second = make_deposit(pseq=20, free_after=usdc(300))
    state, alarms = folded([*funded(), ledger_of(2, 1_100, first), ledger_of(3, 1_200, second)])
    assert kinds(alarms) == ["sequence_gap", "sequence_gap"]
    assert state.books[PROVIDER].figures.stale == f"sequence_gap: {alarms[0].detail}"


def test_history_without_its_start_is_a_gap():
    _, alarms = folded([ledger_of(1, 1_000, make_deposit(pseq=2))])
    assert kinds(alarms) == ["sequence_gap"]


def test_partial_bond_is_alarmed():
    _, alarms = folded([ledger_of(1, 1_000, make_config_set(bond_bps=5_000))])
    assert alarms == [BookAlarm("unsupported_bond", "escrow", alarms[0].detail)]


@pytest.mark.parametrize(("schema", "expected"), [(1, []), (2, ["unknown_schema"])])
def test_upgrade_to_unknown_schema_is_alarmed(schema: int, expected: list[str]):
    model = ContractModel()
    model.upgraded(schema)
    _, alarms = folded([model.close()])
    assert kinds(alarms) == expected


def test_ledger_changes_only_providers_it_names():
    model = ContractModel()
    names = [account(f"provider {n}") for n in range(5)]
    for rail in ("venmo", "wise"):
        model.rail_set(rail)
    for n, name in enumerate(names):
        model.deposit(name, usdc(100))
        model.terms_set(name, "venmo" if n < 2 else "wise", direction="offramp")
    state, _ = folded([model.close()])

    model.deposit(names[3], usdc(1))
    changes = fold_ledger(state, *model.close())
    assert set(changes.books) == {names[3]}

    model.rail_set("venmo", fee_bps=10)
    changes = fold_ledger(state, *model.close())
    assert set(changes.books) == set(names[:2])
    assert len(changes.offers.updated) == 2

    model.paused_set(opens=True)
    changes = fold_ledger(state, *model.close())
    assert set(changes.books) == set(names)
    assert len(changes.offers.removed) == 5


def test_ledger_without_events_moves_only_the_clock():
    state, _ = folded(funded())
    changes = fold_ledger(state, ledger_close(2, 1_005), [])
    assert (changes.books, changes.orders, changes.depth, changes.rails) == ({}, {}, {}, {})
    assert messages(changes.offers, changes.intents) == []
    advance(state, changes)
    assert state.as_of == ledger_close(2, 1_005)


def test_last_message_of_a_ledger_is_marked():
    story = RandomHistory(1)
    state = BookState()
    for _ in range(100):
        changes = fold_ledger(state, *story.ledger())
        advance(state, changes)
        changes_by_ledger = messages(changes.offers, changes.intents)
        assert [message.last for message in changes_by_ledger] == [False] * (
            len(changes_by_ledger) - 1
        ) + [True] * bool(changes_by_ledger)
        order = {"remove": 0, "add": 1, "update": 2, None: 3}
        assert [order[m.op] for m in changes_by_ledger] == sorted(
            order[m.op] for m in changes_by_ledger
        )


def test_messages_have_amounts_as_text_counts_as_numbers():
    state, _ = folded(funded())
    model_changes = fold_ledger(state, *ledger_of(2, 1_005, make_order_open(direction="offramp")))
    (intent,) = model_changes.intents
    entry = order_rules.order_entry(intent)
    assert (entry["amount"], entry["fiat_amount"]) == ("400000000", "408000000")
    assert (entry["created_at"], entry["tier"], entry["released"]) == (1_005, 2, None)
    assert list(entry) == [*intent._fields]


# What a stranger can make every client receive


def test_small_deposit_updates_at_most_64_offers():
    model = ContractModel()
    currencies = tuple(f"{letter}UR" for letter in "ABCDEFGHIJKLMNOPQRST")
    rails = [f"rail_{number}" for number in range(10)]
    model.deposit(PROVIDER, usdc(1))
    for number, rail in enumerate(rails):
        model.rail_set(rail, currencies=currencies)
        model.payee_set(PROVIDER, rail, handle="x" * 14_000)
        for currency in currencies:
            model.terms_set(PROVIDER, rail, currency, rate=usdc(1) + number, low=1)
    state, _ = folded([model.close()])
    assert len(listed(state)) == 64
    model.deposit(PROVIDER, 1)
    changes = fold_ledger(state, *model.close())
    changes_by_ledger = messages(changes.offers, changes.intents)
    assert [message.op for message in changes_by_ledger] == ["update"] * 64
    assert sum(len(json.dumps(message.entry)) for message in changes_by_ledger) < 64 * 1_000
