"""Escrow contract: deposits, orders, settlement, cancellation and expiry, with worked examples.

The figures: the provider has 100 USDC in escrow, the rail takes 50 basis points at tier 2.
"""

import pytest
from stellar_sdk import scval

from devnet.stellar.accounts import PROTOCOL_FEES, USDC, keypair
from devnet.stellar.contracts import escrow
from devnet.stellar.contracts.escrow import fiat_for, order_id
from tests.devnet.stellar.chain import UNIT, codes, events, value
from tests.devnet.stellar.market import (
    ADMIN_KEY,
    AT,
    PAYEE,
    VERIFIER,
    Market,
    address,
    event,
    quoted,
    terms,
)

FEES = keypair(PROTOCOL_FEES).public_key


@pytest.fixture
def market():
    return quoted()


def code(number):
    return f"contract error {number})"


def open_row(market, **options):
    row = market.open(run="call", **options)
    assert row.succeeded
    return value(row), row


# Deposits and withdrawals


def test_deposit_moves_usdc_into_the_contract():
    market = Market()
    row = market.deposit(100, run="call")
    provider = market.provider.public_key
    transfer, deposit = events(row)
    assert transfer[0] == AT.usdc_sac
    assert transfer[1][:3] == ["transfer", provider, AT.escrow]
    assert deposit == (
        AT.escrow,
        ["deposit", provider],
        {
            "amount": 100 * UNIT,
            "free_after": 100 * UNIT,
            "from": provider,
            "locked_after": 0,
            "pseq": 1,
            "v": 1,
        },
    )
    assert market.custody() == 100 * UNIT
    assert market.chain.balance(provider) == 900 * UNIT


def test_deposit_above_balance_changes_no_state():
    market = Market()
    assert code(10) in market.deposit(1001, run="refused")
    assert market.balances == (0, 0)


def test_withdrawal_pays_the_destination_of_the_provider(market):
    row = market.withdraw(30, to=market.taker, run="call")
    topics, data = event(row, "withdraw")
    assert topics == ["withdraw", market.provider.public_key]
    assert data["to"] == market.taker.public_key
    assert (data["free_after"], data["locked_after"], data["pseq"]) == (70 * UNIT, 0, 2)
    assert market.chain.balance(market.taker.public_key) == 130 * UNIT


def test_only_free_balance_can_be_withdrawn(market):
    market.open(40)
    assert code(escrow.INSUFFICIENT_FREE) in market.withdraw(61, run="refused")
    market.withdraw(60)
    assert market.balances == (0, 40)


# Opening


def test_open_locks_provider_usdc_and_copies_terms(market):
    order, row = open_row(market)
    topics, data = event(row, "order_open")
    now = market.chain.now
    assert topics == [
        "order_open",
        market.provider.public_key,
        market.taker.public_key,
        order,
    ]
    assert data == {
        "amount": 40 * UNIT,
        "currency": "USD",
        "direction": "onramp",
        "expires_at": now + 600,
        "fee_bps": 50,
        "fiat_amount": 408_000_000,
        "free_after": 60 * UNIT,
        "locked_after": 40 * UNIT,
        "lp_lock": 40 * UNIT,
        "payee_hash": PAYEE,
        "pseq": 2,
        "rail": "venmo",
        "rate": 10_200_000,
        "taker_lock": 0,
        "tier": 2,
        "v": 1,
    }
    assert order == order_id(AT.escrow, market.provider.public_key, 2)


def test_two_orders_of_one_provider_share_its_balance(market):
    market.open(40)
    market.open(30)
    assert market.balances == (30, 70)
    assert code(escrow.INSUFFICIENT_FREE) in market.open(31, run="refused")


def test_fiat_is_rounded_in_favour_of_the_provider():
    assert fiat_for("onramp", 1, 10_200_000) == 2
    assert fiat_for("offramp", 1, 10_200_000) == 1
    assert fiat_for("onramp", 40 * UNIT, 10_200_000) == fiat_for("offramp", 40 * UNIT, 10_200_000)


def test_open_needs_a_payee_only_on_onramp():
    market = Market()
    market.deposit()
    market.set_terms()
    market.set_terms(direction="offramp")
    assert code(escrow.NO_PAYEE) in market.open(run="refused")
    assert code(escrow.NO_PAYEE) in market.open(direction="offramp", run="refused")
    market.open(direction="offramp", payee=PAYEE)
    market.set_payee()
    assert code(escrow.NO_PAYEE) in market.open(payee=PAYEE, run="refused")
    market.open(10)


@pytest.mark.parametrize(
    ("prepare", "options", "expected"),
    [
        (lambda m: m.del_terms(), {}, escrow.NO_TERMS),
        (lambda m: None, {"rail": "wise"}, escrow.NO_TERMS),
        (lambda m: m.set_provider(True), {}, escrow.PROVIDER_PAUSED),
        (lambda m: m.set_rail(enabled=False), {}, escrow.RAIL_DISABLED),
        (lambda m: m.set_rail(currencies=("EUR",)), {}, escrow.CURRENCY_NOT_ON_RAIL),
        (lambda m: m.set_payee(payee_hash=None), {}, escrow.NO_PAYEE),
        (lambda m: None, {"amount": 9}, escrow.OUTSIDE_LIMITS),
        (lambda m: None, {"amount": 51}, escrow.OUTSIDE_LIMITS),
        (lambda m: m.withdraw(70), {}, escrow.INSUFFICIENT_FREE),
        (lambda m: (m.set_config(max_open=1), m.open(10)), {}, escrow.TOO_MANY_OPEN),
        (lambda m: m.pause(opens=True), {}, escrow.PAUSED),
        (lambda m: m.pause(everything=True), {}, escrow.PAUSED),
    ],
)
def test_open_without_a_requirement_is_refused(market, prepare, options, expected):
    prepare(market)
    before = market.balances
    assert code(expected) in market.open(run="refused", **options)
    assert market.balances == before


def test_later_changes_do_not_affect_an_open_order(market):
    order = market.open(40)
    market.set_terms(rate=2)
    market.set_rail(fee_bps=500, tier=0)
    market.set_payee(payee_hash=b"\xff" * 32)
    copied = market.order(order)
    assert (copied["rate"], copied["fee_bps"], copied["tier"]) == (10_200_000, 50, 2)
    assert copied["payee_hash"] == PAYEE
    market.fulfill(order, 40 * UNIT)
    assert market.chain.balance(FEES) == 2_000_000


def test_deleted_terms_and_pause_keep_open_orders(market):
    order = market.open(40)
    market.del_terms()
    market.set_provider(True)
    market.pause(opens=True)
    market.fulfill(order, 40 * UNIT)
    assert market.balances == (60, 0)


# Settling


def test_partial_settlement_returns_rest_to_provider(market):
    market.open(40)
    order = market.open(30)
    row = market.fulfill(
        order, 25 * UNIT, fiat_paid=255_000_000, paid_at=market.chain.now, run="call"
    )
    topics, data = event(row, "order_fulfill")
    taker = market.taker.public_key
    assert topics == ["order_fulfill", market.provider.public_key, taker, order]
    assert data == {
        "claim": "proof",
        "fee": 1_250_000,
        "fiat_paid": 255_000_000,
        "free_after": 35 * UNIT,
        "locked_after": 40 * UNIT,
        "lp_free_delta": 5 * UNIT,
        "lp_unlock": 30 * UNIT,
        "net": 248_750_000,
        "nullifier": b"\1" * 32,
        "paid_at": data["paid_at"],
        "pseq": 4,
        "recipient": taker,
        "released": 25 * UNIT,
        "taker_refund": 0,
        "v": 1,
    }
    assert market.chain.balance(taker) == 100 * UNIT + 248_750_000
    assert market.chain.balance(FEES) == 1_250_000
    assert market.custody() == 75 * UNIT


def test_order_ends_once(market):
    order = market.open(40)
    market.fulfill(order, 40 * UNIT)
    again = market.fulfill(order, 40 * UNIT, nullifier=b"\2" * 32, run="refused")
    assert code(escrow.ORDER_CLOSED) in again
    for function in ("cancel", "expire"):
        assert code(escrow.ORDER_CLOSED) in market.end(function, market.taker, order, run="refused")


def test_nullifier_settles_one_order(market):
    first, second = market.open(40), market.open(30)
    market.fulfill(first, 40 * UNIT)
    row = market.fulfill(second, 30 * UNIT, run="call")
    assert codes(row) == ("txFAILED", "INVOKE_HOST_FUNCTION_TRAPPED")
    assert events(row) == []
    assert market.order(second)["status"] == "active"
    market.fulfill(second, 30 * UNIT, nullifier=b"\2" * 32)


def test_failed_settlement_does_not_consume_the_nullifier(market):
    order = market.open(40)
    market.pause(everything=True)
    assert code(escrow.PAUSED) in market.fulfill(order, 40 * UNIT, run="refused")
    market.pause()
    market.fulfill(order, 40 * UNIT)


def test_release_above_the_order_is_refused(market):
    order = market.open(40)
    for released in (0, 40 * UNIT + 1):
        assert code(escrow.BAD_AMOUNT) in market.fulfill(order, released, run="refused")


def test_proof_needs_verifier_of_the_rail_and_a_nullifier(market):
    order = market.open(40)
    for stranger in (market.taker, market.provider, ADMIN_KEY):
        error = market.fulfill(order, 40 * UNIT, caller=stranger, run="refused")
        assert code(escrow.NOT_ALLOWED) in error
    error = market.fulfill(order, 40 * UNIT, nullifier=None, run="refused")
    assert code(escrow.BAD_CLAIM) in error
    error = market.fulfill(order, 40 * UNIT, claim="word", run="refused")
    assert code(escrow.BAD_CLAIM) in error


def test_manual_release_is_by_provider_without_nullifier(market):
    order = market.open(40)
    by_hand = {"claim": "manual", "caller": market.provider, "run": "refused"}
    assert code(escrow.BAD_CLAIM) in market.fulfill(order, 40 * UNIT, **by_hand)
    by_hand["nullifier"] = None
    assert code(escrow.BAD_AMOUNT) in market.fulfill(order, 39 * UNIT, **by_hand)
    by_hand["caller"] = market.taker
    assert code(escrow.NOT_ALLOWED) in market.fulfill(order, 40 * UNIT, **by_hand)
    by_hand |= {"caller": market.provider, "run": "call"}
    _, data = event(market.fulfill(order, 40 * UNIT, **by_hand), "order_fulfill")
    assert (data["claim"], data["nullifier"]) == ("manual", None)
    assert data["net"] == 398_000_000


def test_order_at_expiry_settles_and_cannot_be_expired(market):
    order = market.open(40)
    expiry = market.order(order)["expires_at"]
    assert code(escrow.NOT_EXPIRED) in market.end(
        "expire", market.taker, order, at=expiry - 1, run="refused"
    )
    market.fulfill(order, 40 * UNIT, at=expiry)


@pytest.mark.parametrize("claim", ["proof", "manual"])
def test_order_after_expiry_cannot_be_settled(market, claim):
    order = market.open(40)
    expiry = market.order(order)["expires_at"]
    manual = {"claim": "manual", "nullifier": None, "caller": market.provider}
    error = market.fulfill(
        order, 40 * UNIT, at=expiry + 1, run="refused", **(manual if claim == "manual" else {})
    )
    assert code(escrow.ORDER_EXPIRED) in error
    assert market.order(order)["status"] == "active"


# Cancelling and expiring


def test_taker_cancels_an_onramp(market):
    order = market.open(40)
    for other in (market.provider, VERIFIER):
        error = market.end("cancel", other, order, run="refused")
        assert code(escrow.NOT_ALLOWED) in error
    row = market.end("cancel", market.taker, order, run="call")
    topics, data = event(row, "order_cancel")
    assert topics[3] == order
    assert data == {
        "by": "taker",
        "free_after": 100 * UNIT,
        "locked_after": 0,
        "lp_unlock": 40 * UNIT,
        "pseq": 3,
        "taker_refund": 0,
        "v": 1,
    }


def test_admin_cancels_any_order(market):
    order = market.open(40)
    _, data = event(market.end("cancel", ADMIN_KEY, order, run="call"), "order_cancel")
    assert data["by"] == "admin"


def test_expired_order_cannot_be_cancelled(market):
    order = market.open(40)
    later = market.order(order)["expires_at"] + 1
    error = market.end("cancel", market.taker, order, at=later, run="refused")
    assert code(escrow.ORDER_EXPIRED) in error


def test_any_account_can_expire_an_expired_order(market):
    order = market.open(40)
    later = market.order(order)["expires_at"] + 100
    row = market.end("expire", VERIFIER, order, at=later, run="call")
    _, data = event(row, "order_expire")
    assert data["by"] == VERIFIER.public_key
    assert (data["lp_unlock"], data["taker_refund"]) == (40 * UNIT, 0)
    assert (data["free_after"], data["locked_after"]) == (100 * UNIT, 0)


def test_open_prunes_the_listed_orders(market):
    old = [market.open(40), market.open(40)]
    later = market.order(old[1])["expires_at"] + 1
    order, row = open_row(market, amount=50, prune=old, at=later)
    names = [topics[0] for contract, topics, _ in events(row) if contract == AT.escrow]
    assert names == ["order_expire", "order_expire", "order_open"]
    assert market.balances == (50, 50)
    assert [market.order(each)["status"] for each in (*old, order)] == [
        "expired",
        "expired",
        "active",
    ]


def test_prune_of_unexpired_or_foreign_order_is_refused(market):
    order = market.open(10)
    assert code(escrow.NOT_EXPIRED) in market.open(10, prune=[order], run="refused")
    assert code(escrow.UNKNOWN_ORDER) in market.open(10, prune=[b"\7" * 32], run="refused")
    assert code(escrow.BAD_PRUNE) in market.open(10, prune=[order] * 11, run="refused")
    market.end("cancel", market.taker, order)
    market.open(10, prune=[order])


def test_ten_prunes_fit_one_call():
    market = quoted(deposit=100, minimum=1)
    old = [market.open(5) for _ in range(10)]
    later = market.order(old[-1])["expires_at"] + 1
    market.open(50, prune=old, at=later)
    assert market.balances == (50, 50)


# Offramps


@pytest.fixture
def offramp():
    market = quoted(deposit=75)
    market.set_terms(direction="offramp", rate=1.0, minimum=1)
    return market


def test_offramp_locks_usdc_of_taker_and_bond_of_provider(offramp):
    order, row = open_row(offramp, direction="offramp", payee=PAYEE)
    _, data = event(row, "order_open")
    assert (data["lp_lock"], data["taker_lock"]) == (40 * UNIT, 40 * UNIT)
    assert (data["free_after"], data["locked_after"]) == (35 * UNIT, 40 * UNIT)
    assert offramp.custody() == 115 * UNIT
    assert offramp.chain.balance(offramp.taker.public_key) == 60 * UNIT
    row = offramp.fulfill(order, 40 * UNIT, run="call")
    _, data = event(row, "order_fulfill")
    assert data["lp_free_delta"] == 798_000_000
    assert (data["free_after"], data["locked_after"]) == (1_148_000_000, 0)
    assert data["recipient"] == offramp.provider.public_key
    assert offramp.custody() == 1_148_000_000
    assert offramp.chain.balance(FEES) == 2_000_000


def test_partial_offramp_refunds_the_taker(offramp):
    order = offramp.open(direction="offramp", payee=PAYEE)
    _, data = event(offramp.fulfill(order, 30 * UNIT, run="call"), "order_fulfill")
    assert data["taker_refund"] == 10 * UNIT
    assert offramp.chain.balance(offramp.taker.public_key) == 70 * UNIT


def test_provider_but_not_taker_cancels_an_offramp(offramp):
    order = offramp.open(direction="offramp", payee=PAYEE)
    error = offramp.end("cancel", offramp.taker, order, run="refused")
    assert code(escrow.NOT_ALLOWED) in error
    _, data = event(offramp.end("cancel", offramp.provider, order, run="call"), "order_cancel")
    assert (data["by"], data["taker_refund"]) == ("provider", 40 * UNIT)
    assert offramp.balances == (75, 0)
    assert offramp.chain.balance(offramp.taker.public_key) == 100 * UNIT


def test_taker_of_an_offramp_releases_manually(offramp):
    order = offramp.open(direction="offramp", payee=PAYEE)
    by_hand = {"claim": "manual", "nullifier": None}
    error = offramp.fulfill(order, 40 * UNIT, caller=offramp.provider, run="refused", **by_hand)
    assert code(escrow.NOT_ALLOWED) in error
    offramp.fulfill(order, 40 * UNIT, caller=offramp.taker, **by_hand)
    assert offramp.balances == (114.8, 0)


def test_smaller_bond_locks_less_of_the_provider(offramp):
    offramp.set_config(bond_bps=2_500)
    offramp.open(direction="offramp", payee=PAYEE)
    assert offramp.balances == (65, 10)


# Configuration


def test_only_the_admin_sets_the_configuration(market):
    market.set_config(order_ttl=60)
    _, data = event(market.chain.node.latest.transactions[0], "config_set")
    assert data["order_ttl"] == 60
    assert data["token"] == AT.usdc_sac
    order = market.open(40)
    assert market.order(order)["expires_at"] == market.chain.now - 5 + 60
    args = (scval.to_bool(True), scval.to_bool(True))
    assert "authorised" in market.chain.refused(market.taker, AT.escrow, "set_paused", *args)


def test_exits_work_while_paused(market):
    orders = [market.open(20), market.open(20)]
    market.pause(everything=True)
    market.withdraw(10)
    market.end("cancel", market.taker, orders[0])
    later = market.order(orders[1])["expires_at"] + 1
    market.end("expire", market.taker, orders[1], at=later)
    assert market.balances == (90, 0)
    assert code(escrow.PAUSED) in market.deposit(1, run="refused")


def test_balances_follow_events_over_many_orders(market):
    """Every event's balances follow from the last, and the token contract agrees."""
    market.set_terms(direction="offramp", minimum=1)
    market.set_terms_many([terms(rail="wise", minimum=1)])
    market.set_payee("wise")
    live = []
    for step in range(24):
        kind = step % 4
        if kind == 0:
            live.append(market.open(5 + step, rail="wise"))
        elif kind == 1:
            live.append(market.open(5 + step, direction="offramp", payee=PAYEE))
        elif kind == 2:
            market.fulfill(live.pop(0), (step // 2) * UNIT // 2, nullifier=bytes([step]) * 32)
        else:
            market.end("cancel", ADMIN_KEY, live.pop())
    follow(market)


def follow(market):
    free = locked = taker_locks = pseq = 0
    locks = {}
    for sequence in range(3, market.chain.node.latest.sequence + 1):
        for row in market.chain.node.ledger(sequence).transactions:
            for contract, topics, data in events(row):
                if contract != AT.escrow or "pseq" not in data:
                    continue
                name = topics[0]
                if name == "deposit":
                    free += data["amount"]
                elif name == "withdraw":
                    free -= data["amount"]
                elif name == "order_open":
                    free, locked = free - data["lp_lock"], locked + data["lp_lock"]
                    locks[topics[3]] = data["taker_lock"]
                    taker_locks += data["taker_lock"]
                else:
                    delta = data.get("lp_free_delta", data["lp_unlock"])
                    free, locked = free + delta, locked - data["lp_unlock"]
                    taker_locks -= locks.pop(topics[3])
                pseq += 1
                assert (data["pseq"], data["free_after"], data["locked_after"]) == (
                    pseq,
                    free,
                    locked,
                )
    assert pseq > 20
    assert market.custody() == free + locked + taker_locks


def test_contract_balance_equals_token_balance(market):
    told = market.chain.invoke(ADMIN_KEY, AT.usdc_sac, "balance", address(AT.escrow))
    assert told == 100 * UNIT
    assert market.chain.invoke(ADMIN_KEY, AT.usdc_sac, "name") == f"USDC:{USDC.issuer}"
