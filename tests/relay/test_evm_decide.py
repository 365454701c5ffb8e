"""Decisions about a slot, as a table of account states."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.chains.evm.account_state import GasPrice
from relay.keys import LocalEvmKey
from relay.nonces import (
    AccountState,
    Attempt,
    CloseSlot,
    Inclusion,
    NonceSlot,
    SlotStep,
)
from relay.senders.evm_decide import MAX_ATTEMPTS, bid_of, first_bid, next_step, raised_bid
from relay.senders.evm_signing import ContractCall, GasBid, sign_evm
from warehouse_schema.identifiers import BlockHash, EvmAddress, Height, Wei

KEY = LocalEvmKey.from_text("5f" * 32, "KEY")
PRICE = GasPrice(base=Wei(100), tip=Wei(10))
FIRST = sign_evm(
    KEY, 1, 5, ContractCall(EvmAddress("0x" + "7a" * 20), b""), 50_000, first_bid(PRICE)
)
NEWER = sign_evm(
    KEY, 1, 5, ContractCall(EvmAddress("0x" + "7a" * 20), b""), 50_000, GasBid(Wei(400), Wei(40))
)
FRESH = Attempt(FIRST.tx, FIRST.raw, False, 1.0, None)
SENT = replace(FRESH, signed_ago=30.0, sent_ago=5.0)
OLD = replace(FRESH, signed_ago=300.0, sent_ago=25.0)
REPLACED = Attempt(NEWER.tx, NEWER.raw, False, 1.0, 1.0)
DONE, REVERTED = (Inclusion(Height(9), BlockHash("0xb"), ok, Wei(777)) for ok in (True, False))


def step(
    *attempts, nonce=5, furthest=0, inclusions=None, finalized=(), price=PRICE, block_seconds=1.0
):
    slot = NonceSlot(5, "deliver", "0xkey", "transfer", attempts)
    state = AccountState(10**18, nonce, max(nonce, furthest), inclusions or {})
    return next_step(slot, state, price, finalized=finalized, block_seconds=block_seconds)


def test_unsent_attempt_is_sent():
    assert step(FRESH) == SlotStep.SEND
    assert step(OLD, replace(REPLACED, sent_ago=None)) == SlotStep.SEND


def test_sent_attempt_is_resent_after_resend_seconds():
    assert step(SENT) == SlotStep.WAIT
    assert step(replace(SENT, sent_ago=21.0)) == SlotStep.SEND
    assert step(OLD, REPLACED) == SlotStep.WAIT


def test_old_attempt_of_next_nonce_is_replaced():
    assert step(OLD) is SlotStep.REPLACE
    assert step(OLD, nonce=4) == SlotStep.SEND
    assert step(OLD, block_seconds=120.0) == SlotStep.SEND


def test_replacements_are_limited():
    assert step(*[OLD] * MAX_ATTEMPTS) == SlotStep.SEND
    rich = replace(OLD, raw=sign_evm(KEY, 1, 5, _nothing(), 1, GasBid(10_000, 1_000)).raw)
    assert step(rich) == SlotStep.SEND


def _nothing():
    return ContractCall(EvmAddress("0x" + "7a" * 20), b"")


@pytest.mark.parametrize(
    ("inclusion", "is_fill", "outcome"),
    [(DONE, False, "confirmed"), (REVERTED, False, "reverted"), (DONE, True, "replaced")],
)
def test_only_finalized_transaction_closes_slot(inclusion, is_fill, outcome):
    attempt = replace(OLD, is_fill=is_fill)
    included = {FIRST.tx: inclusion}
    assert step(attempt, nonce=6, inclusions=included) == SlotStep.WAIT
    assert step(attempt, nonce=6, inclusions=included, finalized={FIRST.tx}) == CloseSlot(
        outcome, 777
    )
    # For any of the attempts.
    assert step(attempt, REPLACED, nonce=6, inclusions=included, finalized={FIRST.tx}) == (
        CloseSlot(outcome, 777)
    )


def test_nonce_used_by_unknown_transaction_is_checked():
    assert step(FRESH, nonce=6) == SlotStep.CHECK_NONCE
    assert step(OLD, nonce=7) == SlotStep.CHECK_NONCE


wei = st.integers(0, 10**12)


@given(most=wei, tip=wei, base=wei, suggested=wei)
@settings(max_examples=60)
def test_replacement_bids_at_least_a_tenth_more(most, tip, base, suggested):
    old, price = GasBid(max(most, tip), tip), GasPrice(base, suggested)
    new = raised_bid(old, price)
    if new is None:
        assert old.most >= 3 * first_bid(price).most
        return
    assert new.most * 10 >= old.most * 11
    assert new.tip * 10 >= old.tip * 11
    assert new.most >= max(first_bid(price).most, new.tip)


def test_bid_is_read_from_signed_bytes():
    assert bid_of(NEWER.raw) == GasBid(Wei(400), Wei(40))
