"""Random histories: fold and store equal the formulas after every ledger.

And the same with a bug planted in the fold or in the store, which must be found: a check that
passes whatever the code does would prove nothing.
"""

import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection

from indexer.market.escrow_events import (
    EscrowEvent,
    EscrowUpgraded,
    OrderExpire,
    OrderFulfill,
    OrderOpen,
)
from indexer.market.rail_terms_events import RailTermsEvent
from indexer.orderbook import depth, event_folds, fold, offers, store
from indexer.orderbook import orders as order_rules
from indexer.orderbook.depth import Contribution, Totals
from indexer.orderbook.fold import advance, combine, fold_ledger
from indexer.orderbook.offers import OfferChanges
from indexer.orderbook.providers import ProviderRow
from indexer.orderbook.state import BookState
from indexer.orderbook.store import rows_of
from tests.factories.book_history import Ledger, RandomHistory, rebuild
from tests.factories.book_walk import (
    apply_range,
    dump,
    events_of,
    last_message,
    refolded,
    stream,
    walk_pure,
    walk_stored,
)
from tests.factories.effort import effort

SEEDS = st.integers(0, 2**32)


@effort(16)
@given(seed=SEEDS, providers=st.integers(1, 4))
def test_fold_equals_formulas_after_every_ledger(seed: int, providers: int):
    walk_pure(RandomHistory(seed, providers), 100)


@effort(2)
@given(seed=SEEDS)
def test_many_offers_equal_formulas(seed: int):
    walk_pure(RandomHistory(seed, providers=2, crowded=True), 15)


@effort(4)
@given(seed=SEEDS, providers=st.integers(1, 4))
def test_rows_and_stream_equal_formulas_after_every_ledger(
    connection: Connection, seed: int, providers: int
):
    with connection.begin_nested() as example:
        walk_stored(connection, RandomHistory(seed, providers), 40)
        example.rollback()


@effort(2)
@given(seed=SEEDS, cuts=st.integers(0, 2**32))
def test_any_ranges_and_a_rebuild_give_equal_rows_and_messages(
    connection: Connection, seed: int, cuts: int
):
    history = RandomHistory(seed).ledgers(90)
    one_by_one = _in_ranges(connection, [[ledger] for ledger in history])
    assert _in_ranges(connection, _cut(history, cuts)) == one_by_one
    assert _in_ranges(connection, [history]) == one_by_one
    with connection.begin_nested() as example:
        for part in _cut(history, cuts):
            apply_range(connection, part)
        refolded(connection, history).replace_stored()
        assert _everything(connection, last_message(connection) - len(one_by_one[1])) == one_by_one
        example.rollback()


def _in_ranges(connection: Connection, ranges: list[list[Ledger]]) -> tuple[Any, Any]:
    """Rows and messages after history came in these ranges."""
    with connection.begin_nested() as example:
        before = last_message(connection)
        for part in ranges:
            assert apply_range(connection, part) == []
        found = _everything(connection, before)
        example.rollback()
    return found


def _everything(connection: Connection, after: int) -> tuple[Any, Any]:
    messages = [tuple(row)[1:] for row in stream(connection, after=after)]
    return dump(connection), messages


def _cut(history: list[Ledger], seed: int) -> list[list[Ledger]]:
    """The history in ranges of one to forty ledgers."""
    randomly, ranges = random.Random(seed), []
    while history:
        size = randomly.choice([1, 1, 2, 5, 40])
        ranges.append(history[:size])
        history = history[size:]
    return ranges


@pytest.mark.parametrize("seed", range(4))
def test_rebuild_from_ledgers_with_events_equals_full_fold(seed: int):
    history = RandomHistory(seed).ledgers(300)
    state = BookState()
    for ledger in history:
        advance(state, fold_ledger(state, *ledger))
    with_events = [ledger for ledger in history[:-1] if ledger[1]] + history[-1:]
    for rebuilt in (rebuild(history).state, rebuild(with_events).state):
        assert rows_of(rebuilt) == rows_of(state)
        assert rebuilt.books == state.books


def test_random_history_covers_events_and_outcomes():
    history = events_of(RandomHistory(7).ledgers(1_200))
    kinds = {type(event) for event in history}
    assert {*get_args(EscrowEvent), *get_args(RailTermsEvent)} - kinds == {EscrowUpgraded}
    fulfilled = [event for event in history if isinstance(event, OrderFulfill)]
    assert {event.claim for event in fulfilled} == {"proof", "manual"}
    amounts = {event.order_id: event.amount for event in history if isinstance(event, OrderOpen)}
    assert any(event.released < amounts[event.order_id] for event in fulfilled)
    assert any(
        isinstance(a, OrderExpire)
        and isinstance(b, OrderOpen)
        and (a.seen.height, a.provider) == (b.seen.height, b.provider)
        for a, b in pairwise(history)
    )


# Planted bugs

Plant = Callable[[pytest.MonkeyPatch], None]


def _boundary(off_by: int) -> Plant:
    real = order_rules.is_past_expiry
    return lambda patch: patch.setattr(
        order_rules, "is_past_expiry", lambda order, now: real(order, now + off_by)
    )


def _figure(name: str, wrong: Callable[[ProviderRow], int]) -> Plant:
    return lambda patch: patch.setattr(ProviderRow, name, property(wrong))


def _counted_per_offer(patch: pytest.MonkeyPatch) -> None:
    def contribution(provider, listed):
        real = depth.contribution(provider, listed)
        totals = Totals(
            sum(offer.available for offer in listed), real.totals.locked, real.totals.offer_count
        )
        return Contribution(totals, real.rails)

    patch.setattr(fold, "contribution", contribution)


def _locked_only_of_listed(patch: pytest.MonkeyPatch) -> None:
    def contribution(provider, listed):
        real = depth.contribution(provider, listed)
        return real if listed else Contribution(Totals(), real.rails)

    patch.setattr(fold, "contribution", contribution)


def _quiet_about_statistics(patch: pytest.MonkeyPatch) -> None:
    def compare(before, after):
        real = offers.compare(before, after)
        moved = [new for new in real.updated if new.available != before[new.key].available]
        return OfferChanges(real.removed, real.added, tuple(moved))

    patch.setattr(fold, "compare", compare)


def _everybody_is_active(patch: pytest.MonkeyPatch) -> None:
    real = event_folds._counters_after
    patch.setattr(
        event_folds,
        "_counters_after",
        lambda figures, order, ended, event: {
            **real(figures, order, ended, event),
            "last_active_at": event.seen.block_time,
        },
    )


def _set(module: Any, name: str, value: Any) -> Plant:
    return lambda patch: patch.setattr(module, name, value, raising=name not in ("min", "sorted"))


FOLD_BUGS: dict[str, Plant] = {
    "an order expires a second early": _boundary(1),
    "an order expires a second late": _boundary(-1),
    "no order expires by the clock": _set(fold, "_expire_by_clock", lambda draft: None),
    "expired locks are not available": _figure("available", lambda figures: figures.free),
    "expired locks count as locked": _figure("committed", lambda figures: figures.locked),
    "the mean rounds down": _figure(
        "avg_fulfillment_seconds",
        lambda it: it.fulfillment_seconds // it.completed_orders if it.completed_orders else 0,
    ),
    "depth counts a provider once an offer": _counted_per_offer,
    "locked is that of listed providers": _locked_only_of_listed,
    "the largest order ignores the escrow": _set(offers, "min", lambda first, second: first),
    "dust is listed": _set(offers, "MIN_OFFER", 1),
    "a handle is published unchecked": _set(
        event_folds, "published_handle", lambda handle, _: handle
    ),
    "a pause touches nobody": _set(fold, "_providers_under", lambda draft: []),
    "an update tells balances only": _quiet_about_statistics,
    "whoever ends an order was active": _everybody_is_active,
}

STORE_BUGS: dict[str, Plant] = {
    "what is gone stays in its table": _set(store, "_delete", lambda *_: None),
    "an expired order is not loaded": _set(order_rules, "is_past_expiry", lambda *_: False),
    "a provider under a changed rail is not loaded": _set(
        store,
        "_affected_providers",
        lambda _, events, __: {e.provider for e in events if hasattr(e, "provider")},
    ),
    "the last message is not marked": _set(store, "messages", lambda *_: []),
}


def _walk_several() -> None:
    for seed in range(6):
        walk_pure(RandomHistory(seed), 80)


@pytest.mark.parametrize("bug", FOLD_BUGS)
def test_bug_in_the_fold_is_found(bug: str, monkeypatch: pytest.MonkeyPatch):
    FOLD_BUGS[bug](monkeypatch)
    with pytest.raises(AssertionError):
        _walk_several()


@pytest.mark.parametrize("bug", STORE_BUGS)
def test_bug_in_the_store_is_found(
    bug: str, monkeypatch: pytest.MonkeyPatch, connection: Connection
):
    STORE_BUGS[bug](monkeypatch)
    with connection.begin_nested() as example:
        with pytest.raises((AssertionError, KeyError)):
            walk_stored(connection, RandomHistory(3), 60)
        example.rollback()


def test_bug_in_combining_ledgers_is_found(monkeypatch: pytest.MonkeyPatch, connection: Connection):
    history = RandomHistory(5).ledgers(60)
    sound = _in_ranges(connection, [history])
    monkeypatch.setattr(store, "combine", lambda ledgers: combine(ledgers[-1:]))
    assert _in_ranges(connection, [history]) != sound
