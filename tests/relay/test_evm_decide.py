"""What comes next for a slot: a table of what the chain may say."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.chains.evm.account_state import GasPrice
from relay.keys import LocalEvmKey
from relay.nonces import (
    AccountState,
    Attempt,
    CheckEffect,
    CloseSlot,
    Inclusion,
    NonceSlot,
    ReplaceAttempt,
    SendAttempt,
    WaitForChain,
)
from relay.senders.evm_decide import MAX_ATTEMPTS, bid_of, first_bid, next_step, raised_bid
from relay.senders.evm_signing import ContractCall, GasBid, sign_evm
from warehouse_schema.identifiers import BlockHash, EvmAddress, Height

KEY = LocalEvmKey.from_text("5f" * 32, "KEY")
PRICE = GasPrice(base=100, tip=10)
FIRST = sign_evm(
    KEY, 1, 5, ContractCall(EvmAddress("0x" + "7a" * 20), b""), 50_000, first_bid(PRICE)
)
NEWER = sign_evm(
    KEY, 1, 5, ContractCall(EvmAddress("0x" + "7a" * 20), b""), 50_000, GasBid(400, 40)
)
FRESH = Attempt(FIRST.tx, FIRST.raw, False, 1.0, None)
SENT = replace(FRESH, signed_ago=30.0, sent_ago=5.0)
OLD = replace(FRESH, signed_ago=300.0, sent_ago=25.0)
REPLACED = Attempt(NEWER.tx, NEWER.raw, False, 1.0, 1.0)
DONE, REVERTED = (Inclusion(Height(9), BlockHash("0xb"), ok, 777) for ok in (True, False))


def step(
    *attempts, nonce=5, furthest=0, inclusions=None, buried=(), price=PRICE, block_seconds=1.0
):
    slot = NonceSlot(5, "deliver", "0xkey", "transfer", attempts)
    sight = AccountState(10**18, nonce, max(nonce, furthest), inclusions or {})
    return next_step(slot, sight, price, buried=buried, block_seconds=block_seconds)


def test_what_was_never_sent_is_sent():
    assert step(FRESH) == SendAttempt()
    assert step(OLD, replace(REPLACED, sent_ago=None)) == SendAttempt()


def test_what_was_sent_is_sent_again_after_a_while_and_not_before():
    assert step(SENT) == WaitForChain()
    assert step(replace(SENT, sent_ago=21.0)) == SendAttempt()
    assert step(OLD, REPLACED) == WaitForChain()


def test_what_waits_long_is_replaced_if_it_is_next():
    assert isinstance(step(OLD), ReplaceAttempt)
    assert step(OLD, nonce=4) == SendAttempt()
    assert step(OLD, block_seconds=120.0) == SendAttempt()


def test_replacing_has_an_end():
    assert step(*[OLD] * MAX_ATTEMPTS) == SendAttempt()
    rich = replace(OLD, raw=sign_evm(KEY, 1, 5, _nothing(), 1, GasBid(10_000, 1_000)).raw)
    assert step(rich) == SendAttempt()


def _nothing():
    return ContractCall(EvmAddress("0x" + "7a" * 20), b"")


@pytest.mark.parametrize(
    ("inclusion", "is_fill", "outcome"),
    [(DONE, False, "done"), (REVERTED, False, "failed"), (DONE, True, "filled")],
)
def test_what_is_buried_decides_and_nothing_else_does(inclusion, is_fill, outcome):
    attempt = replace(OLD, is_fill=is_fill)
    included = {FIRST.tx: inclusion}
    assert step(attempt, nonce=6, inclusions=included) == WaitForChain()
    assert step(attempt, nonce=6, inclusions=included, buried={FIRST.tx}) == CloseSlot(outcome, 777)
    # Whichever of the attempts it is.
    assert step(attempt, REPLACED, nonce=6, inclusions=included, buried={FIRST.tx}) == (
        CloseSlot(outcome, 777)
    )


def test_a_number_that_is_used_by_none_of_ours_is_asked_about_and_never_given_up_unasked():
    assert step(FRESH, nonce=6) == CheckEffect()
    assert step(OLD, nonce=7) == CheckEffect()


wei = st.integers(0, 10**12)


@given(most=wei, tip=wei, base=wei, asked=wei)
@settings(max_examples=60)
def test_a_replacement_bids_a_tenth_more_at_least_and_what_is_asked(most, tip, base, asked):
    old, price = GasBid(max(most, tip), tip), GasPrice(base, asked)
    new = raised_bid(old, price)
    if new is None:
        assert old.most >= 3 * first_bid(price).most
        return
    assert new.most * 10 >= old.most * 11
    assert new.tip * 10 >= old.tip * 11
    assert new.most >= max(first_bid(price).most, new.tip)


def test_the_bid_is_read_off_the_signed_bytes():
    assert bid_of(NEWER.raw) == GasBid(400, 40)
