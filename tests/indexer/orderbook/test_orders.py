"""One order after one event, or after the clock."""

from dataclasses import fields

import pytest

from indexer.orderbook.orders import (
    end_order,
    end_problem,
    end_violations,
    expire_order,
    is_past_expiry,
    open_order,
    order_entry,
)
from tests.factories.book import (
    PROVIDER,
    TAKER,
    account,
    make_order_cancel,
    make_order_expire,
    make_order_fulfill,
    make_order_open,
    usdc,
    word,
)
from warehouse_schema.identifiers import UnixSeconds

EXPIRES = UnixSeconds(1_600)
IN_TIME = UnixSeconds(1_300)
LATE = UnixSeconds(1_601)


def test_open_order_copies_every_term():
    event = make_order_open()
    order = open_order(event)
    copied = {field.name for field in fields(event)} & {*order._fields}
    assert copied == {field.name for field in fields(event)} - {
        *("seen", "pseq", "free_after", "locked_after")
    }
    assert {name: getattr(order, name) for name in copied} == {
        name: getattr(event, name) for name in copied
    }
    assert (order.status, order.chain_status) == ("active", "open")
    assert (order.created_at, order.open_tx) == (event.seen.block_time, event.seen.tx_hash)


@pytest.mark.parametrize(
    ("now", "past"), [(EXPIRES - 1, False), (EXPIRES, False), (EXPIRES + 1, True)]
)
def test_order_is_active_at_its_expiry(now: UnixSeconds, past: bool):
    assert is_past_expiry(open_order(make_order_open()), now) is past


@pytest.mark.parametrize(
    ("event", "now", "status", "chain_status"),
    [
        (make_order_fulfill(), IN_TIME, "fulfilled", "fulfilled"),
        (make_order_fulfill(), EXPIRES, "fulfilled", "fulfilled"),
        (make_order_fulfill(), LATE, "expired", "fulfilled"),
        (make_order_cancel(), IN_TIME, "cancelled", "cancelled"),
        (make_order_cancel(), EXPIRES, "cancelled", "cancelled"),
        (make_order_cancel(), LATE, "expired", "cancelled"),
        (make_order_expire(), LATE, "expired", "expired"),
        (make_order_expire(), IN_TIME, "expired", "expired"),
    ],
)
def test_end_event_sets_status(event, now: UnixSeconds, status: str, chain_status: str):
    order = end_order(open_order(make_order_open()), event, now)
    assert (order.status, order.chain_status) == (status, chain_status)
    assert (order.end_tx, order.ended_at) == (event.seen.tx_hash, event.seen.block_time)


@pytest.mark.parametrize("now", [IN_TIME, LATE])
def test_settlement_keeps_claim_and_amounts(now: UnixSeconds):
    event = make_order_fulfill()
    order = end_order(open_order(make_order_open()), event, now)
    kept = (
        *("claim", "nullifier", "released", "fee", "net"),
        *("recipient", "fiat_paid", "paid_at"),
    )
    assert {name: getattr(order, name) for name in kept} == {
        name: getattr(event, name) for name in kept
    }


def test_clock_expires_order_still_open_on_chain():
    order = expire_order(open_order(make_order_open()))
    assert (order.status, order.chain_status, order.end_tx) == ("expired", "open", None)


def test_pruning_closes_expired_order_on_chain():
    order = end_order(expire_order(open_order(make_order_open())), make_order_expire(), LATE)
    assert (order.status, order.chain_status) == ("expired", "expired")


OPEN = open_order(make_order_open())
DONE = end_order(OPEN, make_order_fulfill(), IN_TIME)


@pytest.mark.parametrize("event", [make_order_fulfill(), make_order_cancel(), make_order_expire()])
@pytest.mark.parametrize(
    ("order", "kind"),
    [
        (None, "unknown_order"),
        (DONE, "finished_order"),
        (end_order(OPEN, make_order_cancel(), IN_TIME), "finished_order"),
        (end_order(OPEN, make_order_expire(), LATE), "finished_order"),
        (OPEN._replace(provider=account("other")), "order_mismatch"),
        (OPEN._replace(taker=account("other")), "order_mismatch"),
    ],
)
def test_end_without_matching_open_order_is_refused(order, kind: str, event):
    refused = end_problem(order, event)
    assert refused is not None
    assert refused[0] == kind
    assert word("order") in refused[1]


@pytest.mark.parametrize("order", [OPEN, expire_order(OPEN)])
def test_end_of_order_open_on_chain_is_accepted(order):
    assert end_problem(order, make_order_expire()) is None


@pytest.mark.parametrize(
    ("event", "now", "count"),
    [
        (make_order_fulfill(), EXPIRES, 0),
        (make_order_fulfill(), LATE, 1),
        (make_order_cancel(), EXPIRES, 0),
        (make_order_cancel(), LATE, 1),
        (make_order_cancel(lp_unlock=usdc(39)), IN_TIME, 1),
        (make_order_expire(), LATE, 0),
        (make_order_expire(), EXPIRES, 1),
        (make_order_fulfill(lp_unlock=usdc(39)), IN_TIME, 1),
        (make_order_fulfill(fee=usdc("0.1999999")), IN_TIME, 1),
        (make_order_fulfill(lp_free_delta=usdc(1)), IN_TIME, 1),
        (make_order_fulfill(released=usdc(25), fee=usdc("0.125")), IN_TIME, 1),
        (
            make_order_fulfill(released=usdc(25), fee=usdc("0.125"), lp_free_delta=usdc(15)),
            IN_TIME,
            0,
        ),
        # More than the order's amount, though fee and remainder follow from it.
        (
            make_order_fulfill(released=usdc(60), fee=usdc("0.3"), lp_free_delta=-usdc(20)),
            IN_TIME,
            1,
        ),
    ],
)
def test_violations_of_contract_rules_are_counted(event, now: UnixSeconds, count: int):
    assert len(end_violations(OPEN, event, now)) == count


def test_release_fee_is_rounded_down():
    order = OPEN._replace(fee_bps=33)
    event = make_order_fulfill(released=101, fee=0, lp_free_delta=OPEN.lp_lock - 101)
    assert end_violations(order, event, IN_TIME) == []


def test_offramp_credits_release_without_fee():
    order = open_order(make_order_open(direction="offramp", taker_lock=usdc(40)))
    event = make_order_fulfill(lp_free_delta=usdc("79.8"), recipient=PROVIDER)
    assert end_violations(order, event, IN_TIME) == []
    assert len(end_violations(order, make_order_fulfill(lp_free_delta=usdc(80)), IN_TIME)) == 1


def test_entry_has_amounts_as_text_and_every_field():
    entry = order_entry(DONE)
    assert entry["amount"] == "400000000"
    assert entry["fee"] == "2000000"
    assert entry["lp_lock"] == "400000000"
    assert (entry["paid_at"], entry["tier"], entry["taker"]) == (1_290, 2, TAKER)
    assert order_entry(OPEN)["released"] is None
