"""Submitted EVM transactions compared with issued calls: every field, every byte."""

from dataclasses import replace

import pytest
from eth_abi.abi import encode
from hypothesis import given
from hypothesis import strategies as st

from indexer.actions.agreed import Mismatch
from indexer.actions.evm_calls import BurnOrder, SendOrder, evm_order
from indexer.actions.evm_check import Match, check_order
from indexer.chains.evm.abi import topic_of
from tests.factories.actions import (
    ETHEREUM,
    MAINNET,
    PAYER,
    logs_of,
    make_agreed,
    make_log,
    make_mined,
)

BURN = evm_order(MAINNET, make_agreed())
SEND = evm_order(MAINNET, make_agreed(mechanism="oft"))
ORDERS = {"burn": BURN, "send": SEND}
OTHER = "0x" + "0c" * 20
WORD = "0x" + "0d" * 32


def checked(order, mined, payer=PAYER):
    return check_order(MAINNET, payer, [order], mined)


@pytest.mark.parametrize("kind", ORDERS)
def test_issued_call_is_found_among_other_logs(kind):
    order = ORDERS[kind]
    others = (make_log(OTHER, WORD), make_log(MAINNET.chain(ETHEREUM).usdc))
    assert checked(order, make_mined(order)) == Match((len(logs_of(order)) - 1,))
    assert checked(order, make_mined(order, *others)) == Match((len(logs_of(order)) + 1,))


@pytest.mark.parametrize("kind", ORDERS)
def test_bundle_with_two_effects_matches_both(kind):
    order = ORDERS[kind]
    logs = (*logs_of(order), *logs_of(order))
    each = len(logs) // 2
    assert checked(order, make_mined(order, logs=logs)) == Match((each - 1, 2 * each - 1))


@pytest.mark.parametrize("kind", ORDERS)
def test_bundle_of_other_payers_matches_own_call_only(kind):
    order = ORDERS[kind]
    other = replace(order, amount=order.amount - 1)
    others = logs_of(other, "0x" + "0e" * 20)
    assert checked(order, make_mined(order, *others)) == Match(
        (len(others) + len(logs_of(order)) - 1,)
    )


@pytest.mark.parametrize("kind", ORDERS)
def test_failed_transaction_is_refused(kind):
    found = checked(ORDERS[kind], make_mined(ORDERS[kind], succeeded=False))
    assert isinstance(found, Mismatch)
    assert found.fields == ("status",)


@pytest.mark.parametrize("kind", ORDERS)
def test_transaction_without_effect_is_refused(kind):
    order = ORDERS[kind]
    found = checked(order, make_mined(order, logs=()))
    assert isinstance(found, Mismatch)
    assert found.fields == ("contract",)
    assert str(order.messenger if isinstance(order, BurnOrder) else order.oft) in found.message


@pytest.mark.parametrize("kind", ORDERS)
def test_logs_of_another_contract_are_refused(kind):
    order = ORDERS[kind]
    logs = [replace(log, address=OTHER) for log in logs_of(order)]
    found = checked(order, make_mined(order, logs=tuple(logs)))
    assert isinstance(found, Mismatch)
    assert found.fields == ("contract",)


def test_burn_does_not_match_send_or_send_burn():
    for order, done in ((BURN, SEND), (SEND, BURN)):
        found = checked(order, make_mined(done))
        assert isinstance(found, Mismatch)
        assert found.fields == ("contract",)


BURN_CHANGES = {
    "amount": {"amount": BURN.amount + 1},
    "destination": {"domain": 5},
    "recipient": {"mint_recipient": WORD},
    "token": {"token": OTHER},
    "destination_caller": {"destination_caller": "0x" + "00" * 32},
    "max_fee": {"max_fee": BURN.max_fee + 1},
    "finality_threshold": {"min_finality": 2000},
    "hook": {"hook_data": BURN.hook_data[:-1] + b"\x00"},
}
SEND_CHANGES = {
    "amount": {"amount": SEND.amount + 1},
    "destination": {"eid": 30110},
    "recipient": {"to": WORD},
    "amount_received": {"min_amount": SEND.min_amount - 1},
    "compose": {"compose": b"\x01"},
}


@pytest.mark.parametrize(
    ("order", "field", "changes"),
    [(BURN, *each) for each in BURN_CHANGES.items()]
    + [(SEND, *each) for each in SEND_CHANGES.items()],
)
def test_mismatch_names_field_with_both_values(order, field, changes):
    found = checked(order, make_mined(replace(order, **changes)))
    assert isinstance(found, Mismatch)
    assert found.fields == (field,)
    assert f"{field} is " in found.message
    assert ", not " in found.message


@pytest.mark.parametrize("kind", ORDERS)
def test_sender_must_be_the_payer(kind):
    found = checked(ORDERS[kind], make_mined(ORDERS[kind]), payer=OTHER)
    assert isinstance(found, Mismatch)
    assert found.fields == ("sender",)
    assert f"sender is {PAYER}, not {OTHER}" in found.message


def test_higher_min_amount_is_accepted():
    kept_nothing = replace(SEND, min_amount=SEND.amount)
    assert isinstance(checked(SEND, make_mined(kept_nothing)), Match)


def test_send_without_packet_is_refused():
    _, sent = logs_of(SEND)
    found = checked(SEND, make_mined(SEND, logs=(sent,)))
    assert isinstance(found, Mismatch)
    assert {"recipient", "destination_contract"} <= set(found.fields)


def test_another_destination_contract_is_refused():
    word = bytes.fromhex(WORD[2:])
    [log] = logs_of(BURN)
    data = log.data[:96] + word + log.data[128:]
    found = checked(BURN, make_mined(BURN, logs=(replace(log, data=data),)))
    assert isinstance(found, Mismatch)
    assert found.fields == ("destination_contract",)


def test_any_issued_call_of_the_transfer_matches():
    earlier = replace(BURN, max_fee=BURN.max_fee - 1)
    for done in (earlier, BURN):
        assert isinstance(check_order(MAINNET, PAYER, [earlier, BURN], make_mined(done)), Match)


def test_mismatch_names_fields_of_closest_order():
    far = replace(BURN, amount=1, max_fee=0, mint_recipient=WORD)
    near = replace(BURN, max_fee=BURN.max_fee + 1)
    found = checked(BURN, make_mined(BURN, logs=(*logs_of(far), *logs_of(near))))
    assert isinstance(found, Mismatch)
    assert found.fields == ("max_fee",)


def test_missing_issue_raises():
    with pytest.raises(ValueError, match="nothing was issued"):
        check_order(MAINNET, PAYER, [], make_mined(BURN))
    with pytest.raises(ValueError, match="nothing was issued"):
        checked(BURN, replace(make_mined(BURN), chain=MAINNET.stellar.id))


def test_unreadable_log_hides_no_other():
    broken = make_log(
        BURN.messenger, topic_of("MintAndWithdraw(address,uint256,address,uint256)"), data=b"\x01"
    )
    assert checked(BURN, make_mined(BURN, broken)) == Match((1,))


def test_transfer_of_lookalike_token_is_refused():
    transfer = make_log(
        OTHER,
        topic_of("Transfer(address,address,uint256)"),
        *("0x" + "00" * 12 + PAYER[2:], WORD),
        data=encode(["uint256"], [BURN.amount]),
    )
    assert isinstance(checked(BURN, make_mined(BURN, logs=(transfer,))), Mismatch)


def _bytes_that_count(log, order):
    """Topics and data, but for padding and for what is another's affair (the message's options)."""
    if isinstance(order, BurnOrder):
        return len(log.data) - (-len(order.hook_data) % 32)
    if len(log.topics) == 3:
        return len(log.data)
    # Of PacketSent: the offset and length of the packet, and the packet itself.
    return 0


@given(st.sampled_from(["burn", "send"]), st.data())
def test_receipt_with_changed_byte_is_refused(kind, data):
    order = ORDERS[kind]
    logs = list(logs_of(order))
    which = data.draw(st.integers(0, len(logs) - 1))
    flip = data.draw(st.integers(1, 255))
    logs[which] = _altered(logs[which], order, flip, data)
    found = checked(order, make_mined(order, logs=tuple(logs)))
    assert isinstance(found, Mismatch)


def _altered(log, order, flip, data):
    places = ["topic"] + ["data"] * bool(_bytes_that_count(log, order))
    places += ["packet"] * (isinstance(order, SendOrder) and len(log.topics) == 1)
    match data.draw(st.sampled_from(places)):
        case "topic":
            index = data.draw(st.integers(0, len(log.topics) - 1))
            at = data.draw(st.integers(0, 31))
            raw = bytearray.fromhex(log.topics[index][2:])
            raw[at] ^= flip
            topics = (*log.topics[:index], f"0x{raw.hex()}", *log.topics[index + 1 :])
            return replace(log, topics=topics)
        case "data":
            at = data.draw(st.integers(0, _bytes_that_count(log, order) - 1))
        case _:
            # Behind three words and the packet's length.
            at = 128 + data.draw(st.integers(0, 152))
    raw = bytearray(log.data)
    raw[at] ^= flip
    return replace(log, data=bytes(raw))
