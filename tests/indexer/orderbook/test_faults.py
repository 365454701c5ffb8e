"""Faulty events raise alarms, and listed rows stay correct.

Each fault is planted at a random place of a sound history. Every other provider's rows must stay
what the formulas give for the sound one; the victim's must, or the victim is stale, unlisted and
alarmed by name.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection

from indexer.market.escrow_events import EscrowPausedSet, OrderExpire, OrderOpen
from indexer.market.rail_terms_events import RailSet
from indexer.orderbook.fold import advance, fold_ledger
from indexer.orderbook.state import BookAlarm, BookEvent, BookState
from indexer.orderbook.store import rows_of
from tests.factories.book_history import Ledger, RandomHistory
from tests.factories.book_walk import apply_range, dump, events_of, expected_rows, refolded
from tests.factories.contract_model import ContractModel
from tests.factories.effort import effort
from warehouse_schema.identifiers import StellarAddress

LEDGERS = 120
OWNED = ("providers", "offers", "orders", "terms", "payees")
"""Tables whose rows are one provider's each."""


@dataclass(frozen=True)
class Planted:
    """A history that was tampered with."""

    history: list[Ledger]
    victim: StellarAddress
    since: int
    """Index of the first ledger in which it could be noticed."""


Fault = Callable[[random.Random, list[Ledger]], Planted | None]
"""Plants itself in a sound history; None where it finds no place."""


def _numbered(history: Sequence[Ledger], number: str) -> list[tuple[Any, Any]]:
    """Each event with the next one of the same provider that has this number."""
    events = [event for event in events_of(history) if hasattr(event, number)]
    providers = {event.provider for event in events}
    return [
        pair
        for name in sorted(providers)
        for pair in pairwise(event for event in events if event.provider == name)
    ]


def _with(history: Sequence[Ledger], change: Callable[[BookEvent], list[Any]]) -> list[Ledger]:
    """The history with each event replaced by what `change` makes of it."""
    return [
        (ledger, [made for event in events for made in change(event)]) for ledger, events in history
    ]


def _index(history: Sequence[Ledger], event: Any) -> int:
    return next(n for n, (ledger, _) in enumerate(history) if ledger.height == event.seen.height)


def lost(number: str) -> Fault:
    def plant(rng: random.Random, history: list[Ledger]) -> Planted:
        victim, following = rng.choice(_numbered(history, number))
        left = _with(history, lambda event: [] if event is victim else [event])
        return Planted(left, victim.provider, _index(history, following))

    return plant


def twice(number: str) -> Fault:
    def plant(rng: random.Random, history: list[Ledger]) -> Planted:
        victim, _ = rng.choice(_numbered(history, number))
        doubled = _with(history, lambda event: [event, event] if event is victim else [event])
        return Planted(doubled, victim.provider, _index(history, victim))

    return plant


def misnumbered(number: str, by: int) -> Fault:
    def plant(rng: random.Random, history: list[Ledger]) -> Planted:
        victim, _ = rng.choice(_numbered(history, number))
        wrong = replace(victim, **{number: getattr(victim, number) + by})
        left = _with(history, lambda event: [wrong if event is victim else event])
        return Planted(left, victim.provider, _index(history, victim))

    return plant


def swapped(number: str) -> Fault:
    def plant(rng: random.Random, history: list[Ledger]) -> Planted | None:
        pairs = [(a, b) for a, b in _numbered(history, number) if a.seen.height == b.seen.height]
        if not pairs:
            return None
        one, two = rng.choice(pairs)
        exchange = {id(one): replace(two, seen=one.seen), id(two): replace(one, seen=two.seen)}
        left = _with(history, lambda event: [exchange.get(id(event), event)])
        return Planted(left, one.provider, _index(history, one))

    return plant


def changed(field: str) -> Fault:
    def plant(rng: random.Random, history: list[Ledger]) -> Planted:
        of_escrow = (event for event in events_of(history) if hasattr(event, "pseq"))
        victim: Any = rng.choice([event for event in of_escrow if hasattr(event, field)])
        wrong = replace(victim, **{field: getattr(victim, field) + rng.choice((-1, 1))})
        left = _with(history, lambda event: [wrong if event is victim else event])
        return Planted(left, victim.provider, _index(history, victim))

    return plant


FAULTS: dict[str, tuple[Fault, set[str]]] = {
    "an Escrow event is lost": (lost("pseq"), {"sequence_gap"}),
    "a RailTerms event is lost": (lost("tseq"), {"sequence_gap", "contract_rule"}),
    "an Escrow event comes twice": (twice("pseq"), {"sequence_gap"}),
    "a RailTerms event comes twice": (twice("tseq"), {"sequence_gap"}),
    "two Escrow events change places": (swapped("pseq"), {"sequence_gap"}),
    "two RailTerms events change places": (swapped("tseq"), {"sequence_gap"}),
    "a pseq is too high": (misnumbered("pseq", 1), {"sequence_gap"}),
    "a pseq is too low": (misnumbered("pseq", -1), {"sequence_gap"}),
    "a tseq is too high": (misnumbered("tseq", 1), {"sequence_gap"}),
    "a tseq is too low": (misnumbered("tseq", -1), {"sequence_gap"}),
    "a free balance is changed": (changed("free_after"), {"balance_mismatch"}),
    "a locked balance is changed": (changed("locked_after"), {"balance_mismatch"}),
    "a lock is changed": (changed("lp_lock"), {"balance_mismatch"}),
    "an unlock is changed": (changed("lp_unlock"), {"balance_mismatch"}),
    "a credit is changed": (changed("lp_free_delta"), {"balance_mismatch"}),
    "a fee is changed": (changed("fee"), {"contract_rule"}),
    "a fiat amount is changed": (changed("fiat_amount"), {"contract_rule"}),
    "a taker's lock is changed": (changed("taker_lock"), {"contract_rule"}),
    "an order's rate is changed": (changed("rate"), {"contract_rule"}),
}
"""Fault → where it is planted, and the alarms that may tell of it first."""


def _watch(
    planted: Planted, sound: list[Ledger], kinds: set[str]
) -> tuple[BookState, list[BookAlarm]]:
    """Fold what was tampered with; nothing that is wrong may be shown without being said."""
    state, alarms = BookState(), list[BookAlarm]()
    for n, ledger in enumerate(planted.history):
        changes = fold_ledger(state, *ledger)
        advance(state, changes)
        alarms += changes.alarms
        rows = rows_of(state)
        truth = expected_rows(sound[: n + 1])
        assert _of_others(rows, planted.victim) == _of_others(truth, planted.victim)
        figures = state.books[planted.victim].figures
        if figures.stale is None:
            assert n < planted.since, "it was noticed as soon as it could be"
        else:
            assert alarms[0].kind in kinds
            assert figures.stale == f"{alarms[0].kind}: {alarms[0].detail}"
            assert planted.victim not in {row[0] for row in rows["offers"]}
    assert {alarm.subject for alarm in alarms} == {planted.victim}
    return state, alarms


def _of_others(rows: dict[str, list[Any]], victim: str) -> dict[str, list[Any]]:
    owner = {name: 1 if name == "orders" else 0 for name in OWNED}
    return {name: [row for row in rows[name] if row[owner[name]] != victim] for name in OWNED}


@pytest.mark.parametrize("name", FAULTS)
@effort(2)
@given(seed=st.integers(0, 2**32))
def test_fault_is_alarmed_and_never_listed(name: str, seed: int):
    plant, kinds = FAULTS[name]
    sound = RandomHistory(seed, providers=3).ledgers(LEDGERS)
    planted = plant(random.Random(seed), sound)
    assert planted is not None, "the history is long enough for every fault"
    # The rest of the story is the same as what has been seen.
    until = planted.since + 15
    _watch(replace(planted, history=planted.history[:until]), sound[:until], kinds)


@pytest.mark.parametrize("name", FAULTS)
def test_stored_book_alarms_the_same_for_any_ranges(name: str, connection: Connection):
    sound = RandomHistory(11, providers=3).ledgers(LEDGERS)
    planted = FAULTS[name][0](random.Random(11), sound)
    assert planted is not None
    state, expected = _watch(planted, sound, FAULTS[name][1])
    alarms, rest = [], planted.history
    while rest:
        alarms += apply_range(connection, rest[:17])
        rest = rest[17:]
    assert alarms == expected
    assert dump(connection) == rows_of(state)
    refold = refolded(connection, [ledger for ledger in planted.history if ledger[1]])
    assert refold.replace_stored() is False, "nor does a fold from nothing believe it"
    assert set(refold.book.alarms) == {(alarm.kind, alarm.subject) for alarm in alarms}


# A contract that breaks its rules: its numbers and balances add up all the same.


class Broken(ContractModel):
    """Ends orders whatever their state and whatever the time."""

    def _open_order(self, order_id):
        return self.orders[order_id].opening

    def end_early(self, order_id):
        self._unlock(self.orders[order_id].opening, "expired", OrderExpire, by="G")


def _after(story: RandomHistory, act: Callable[[OrderOpen], None], state: str) -> list[BookAlarm]:
    """The alarms of a ledger in which `act` is done to an order in that state, and afterwards."""
    book, alarms, ledgers = BookState(), list[BookAlarm](), 0
    while not (found := _orders(story.model, state)) or ledgers < 40:
        advance(book, fold_ledger(book, *story.ledger()))
        ledgers += 1
    act(found[0])
    for _ in range(10):
        changes = fold_ledger(book, *story.ledger())
        advance(book, changes)
        alarms += changes.alarms
        assert found[0].provider not in {key[0] for key in _listed(book)}
    assert book.books[found[0].provider].figures.stale is not None
    assert {alarm.subject for alarm in alarms} == {found[0].provider}
    return alarms


def _orders(model: ContractModel, state: str) -> list[OrderOpen]:
    return [
        order.opening
        for order in model.orders.values()
        if order.state == state and (state != "open" or model.now < order.opening.expires_at)
    ]


def _listed(state: BookState) -> list[Any]:
    return [key for book in state.books.values() for key in book.offers]


@pytest.mark.parametrize("seed", range(3))
def test_early_expiry_is_alarmed(seed: int):
    model = Broken(ttl=90)
    story = RandomHistory(seed, model=model)
    alarms = _after(story, lambda order: model.end_early(order.order_id), "open")
    assert alarms[0].kind == "contract_rule"
    assert "before" in alarms[0].detail


@pytest.mark.parametrize("state", ["fulfilled", "cancelled", "expired"])
def test_order_that_ends_twice_is_alarmed(state: str):
    model = Broken(ttl=90)
    story = RandomHistory(2, model=model)
    alarms = _after(story, lambda order: model.end_early(order.order_id), state)
    assert "finished_order" in {alarm.kind for alarm in alarms}


# Events without a number: an order that opens otherwise than they let it tells of them.


def _first_alarm(history: Sequence[Ledger]) -> BookAlarm | None:
    state = BookState()
    for ledger in history:
        changes = fold_ledger(state, *ledger)
        advance(state, changes)
        if changes.alarms:
            return changes.alarms[0]
    return None


@pytest.mark.parametrize("seed", range(4))
def test_missing_rail_event_is_alarmed_by_next_order(seed: int):
    history = RandomHistory(seed).ledgers(500)
    settings: dict[str, RailSet] = {}
    candidates = []
    for event in events_of(history):
        if isinstance(event, RailSet):
            before = settings.get(event.rail)
            differs = before and (before.tier, before.fee_bps) != (event.tier, event.fee_bps)
            settings[event.rail] = event
            candidates += [event] if differs and event.enabled else []
        elif isinstance(event, OrderOpen):
            lost_one = next((each for each in candidates if each.rail == event.rail), None)
            if lost_one is not None and settings[event.rail] is lost_one:
                break
            candidates = [each for each in candidates if each is settings[each.rail]]
    left = _with(history, lambda each: [] if each is lost_one else [each])
    alarm = _first_alarm(left)
    assert alarm is not None
    assert (alarm.kind, alarm.subject) == ("contract_rule", event.provider)
    assert f"order {event.order_id} opened at tier" in alarm.detail


def test_missing_unpause_is_alarmed_by_next_order():
    history = RandomHistory(1).ledgers(400)
    ends = [e for e in events_of(history) if isinstance(e, EscrowPausedSet) and not e.opens]
    left = _with(history, lambda event: [] if event in ends else [event])
    alarm = _first_alarm(left)
    assert alarm is not None
    assert alarm.kind == "contract_rule"
    assert alarm.detail.endswith("opened during a pause")
