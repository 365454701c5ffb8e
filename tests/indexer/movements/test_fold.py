"""Fold of movements: one row each, independent of which chain is read first."""

import random

import pytest

from indexer.addresses import evm_as_bytes32
from indexer.bridges.cctp.events import MessageSent
from indexer.chains.events import Event
from indexer.chains.services.messages import AttestedBurn, MessageStatus, burn_id
from indexer.movements.fold import (
    Burn,
    Movement,
    OftEvent,
    fold_cctp,
    fold_oft,
    pair_burns,
    pair_mints,
)
from tests.factories.transfers import (
    ACCOUNT,
    BURN_KEY,
    ETHEREUM,
    FORWARDER,
    GUID,
    NETWORK,
    NONCE,
    PUBNET,
    USER,
    ZERO,
    make_alert,
    make_burn_to_stellar,
    make_hook,
    make_mint_on_stellar,
    make_oft_received,
    make_oft_sent,
    make_packet_sent,
    make_packet_verified,
    seen,
)
from warehouse_schema.identifiers import Bytes32

OTHER_NONCE = Bytes32("0x" + "02" * 32)


def fold_one(sending: list[Event], receiving: list[Event]) -> Movement:
    (row,) = fold_cctp(NETWORK, BURN_KEY, pair_burns(sending), pair_mints(receiving))
    return row


def test_burn_waits_for_its_attestation() -> None:
    row = fold_one(make_burn_to_stellar(), [])
    assert (row.stage, row.source_chain, row.dest_chain) == ("ATTESTING", ETHEREUM, PUBNET)
    assert (row.amount_in, row.amount_out, row.fee) == (5_000_000, None, None)
    assert (row.source_address, row.dest_address) == (USER, ACCOUNT)


def test_forwarded_mint_completes_its_burn_exactly() -> None:
    row = fold_one(make_burn_to_stellar(), make_mint_on_stellar())
    assert row.stage == "COMPLETED"
    assert (row.amount_in, row.amount_out, row.fee) == (5_000_000, 49_990_000, 1_000)
    assert row.amount_in is not None
    assert row.amount_out is not None
    assert row.fee is not None
    assert row.amount_in * 10 == row.amount_out + row.fee * 10
    assert (row.dest_address, row.message_id) == (ACCOUNT, NONCE)


def test_mint_without_its_burn_is_complete() -> None:
    row = fold_one([], make_mint_on_stellar())
    assert (row.stage, row.source_chain, row.source_tx) == ("COMPLETED", ETHEREUM, None)


def test_unforwarded_mint_is_on_hold() -> None:
    row = fold_one(make_burn_to_stellar(), make_mint_on_stellar(forwarded=False))
    assert (row.stage, row.dest_address) == ("ON_HOLD", FORWARDER)
    assert row.stage_reason is not None
    assert "not paid on" in row.stage_reason


@pytest.mark.parametrize(
    "burn",
    [
        make_burn_to_stellar(hook=b""),
        make_burn_to_stellar(hook=make_hook("G" + "A" * 55)),
        make_burn_to_stellar(mint_recipient=evm_as_bytes32(USER)),
        make_burn_to_stellar(destination_caller=ZERO),
    ],
    ids=["no hook", "no such account", "recipient is not the forwarder", "anyone may mint"],
)
def test_burn_that_cannot_be_forwarded_is_on_hold(burn: list[Event]) -> None:
    assert fold_one(burn, []).stage == "ON_HOLD"


def test_identical_burns_are_matched_first_in_first_out() -> None:
    burns = [
        *pair_burns(make_burn_to_stellar(height=100, tx="a")),
        *pair_burns(make_burn_to_stellar(height=101, tx="b")),
    ]
    first, second = fold_cctp(NETWORK, BURN_KEY, burns, pair_mints(make_mint_on_stellar()))
    assert (first.stage, second.stage) == ("COMPLETED", "ATTESTING")
    assert first.id != second.id
    assert first.sent_at is not None
    assert second.sent_at is not None
    assert first.sent_at < second.sent_at


def attested(tx: str, nonce: Bytes32 = NONCE) -> AttestedBurn:
    """A verified attestation of the burn in transaction `tx` of Ethereum."""
    return AttestedBurn(ETHEREUM, seen(tx=tx).tx_hash, BURN_KEY, nonce)


def make_identical_burns(*txs: str) -> list[Burn]:
    """Burns that agree in every byte, one a transaction and block."""
    return [
        burn
        for height, tx in enumerate(txs, 100)
        for burn in pair_burns(make_burn_to_stellar(height=height, tx=tx))
    ]


def test_attested_burn_waits_for_mint_of_its_nonce() -> None:
    (row,) = fold_cctp(NETWORK, BURN_KEY, make_identical_burns("a"), [], [attested("a")])
    assert (row.stage, row.message_id) == ("DELIVERING", NONCE)
    assert row.stage_reason == "attested; waiting for its mint"


def test_attestation_of_another_transaction_is_ignored() -> None:
    (row,) = fold_cctp(NETWORK, BURN_KEY, make_identical_burns("a"), [], [attested("b")])
    assert (row.stage, row.message_id) == ("ATTESTING", None)


def test_attested_burn_that_cannot_be_forwarded_stays_on_hold() -> None:
    burns = pair_burns(make_burn_to_stellar(hook=b""))
    (row,) = fold_cctp(NETWORK, BURN_KEY, burns, [], [attested("a")])
    assert (row.stage, row.message_id) == ("ON_HOLD", NONCE)


def test_nonce_decides_which_identical_burn_was_minted() -> None:
    burns = make_identical_burns("a", "b")
    mints = pair_mints(make_mint_on_stellar())
    first, second = fold_cctp(NETWORK, BURN_KEY, burns, mints, [attested("b")])
    assert (first.stage, first.dest_tx) == ("ATTESTING", None)
    assert (second.stage, second.message_id) == ("COMPLETED", NONCE)
    other = attested("a", OTHER_NONCE)
    first, second = fold_cctp(NETWORK, BURN_KEY, burns, mints, [other])
    assert (first.stage, first.message_id) == ("DELIVERING", OTHER_NONCE)
    assert (second.stage, second.message_id) == ("COMPLETED", NONCE)


def test_mint_of_another_nonce_does_not_match() -> None:
    burns = make_identical_burns("a")
    mints = pair_mints(make_mint_on_stellar())
    waiting, minted = fold_cctp(NETWORK, BURN_KEY, burns, mints, [attested("a", OTHER_NONCE)])
    assert (waiting.stage, waiting.dest_tx) == ("DELIVERING", None)
    assert (minted.stage, minted.source_tx) == ("COMPLETED", None)
    assert waiting.id != minted.id


def test_identical_burns_of_one_tx_take_nonces_in_order() -> None:
    burns = pair_burns([*make_burn_to_stellar(position=0), *make_burn_to_stellar(position=2)])
    mints = pair_mints(make_mint_on_stellar())
    both = [attested("a", OTHER_NONCE), attested("a", NONCE)]
    first, second = fold_cctp(NETWORK, BURN_KEY, burns, mints, both)
    assert (first.message_id, first.stage) == (OTHER_NONCE, "DELIVERING")
    assert (second.message_id, second.stage) == (NONCE, "COMPLETED")


def test_newest_nonce_counts_if_there_are_too_many() -> None:
    both = [attested("a", OTHER_NONCE), attested("a", NONCE)]
    (row,) = fold_cctp(NETWORK, BURN_KEY, make_identical_burns("a"), [], both)
    assert row.message_id == NONCE


def test_attestation_status_changes_only_the_reason() -> None:
    burns = make_identical_burns("a", "b")
    place = burn_id(burns[0].message.seen)
    status = MessageStatus("iris", place, BURN_KEY, "pending_confirmations", "insufficient_fee")
    mints = pair_mints(make_mint_on_stellar())
    delayed, other = fold_cctp(NETWORK, BURN_KEY, burns, [], (), {place: status})
    assert (delayed.stage, other.stage) == ("ATTESTING", "ATTESTING")
    assert delayed.stage_reason == (
        "waiting for the attestation and its mint; "
        "the attestation service says: pending_confirmations, insufficient_fee"
    )
    assert other.stage_reason == "waiting for the attestation and its mint"
    minted, _ = fold_cctp(NETWORK, BURN_KEY, burns, mints, (), {place: status})
    assert (minted.stage, minted.stage_reason) == ("COMPLETED", None)


@pytest.mark.parametrize("word", ["DELIVERED", "FAILED", "BLOCKED"])
def test_explorer_status_changes_only_the_reason(word: str) -> None:
    statuses: dict[str, MessageStatus] = {
        GUID: MessageStatus("lz_scan", GUID, GUID, word, "in its words")
    }
    events: list[OftEvent] = [make_oft_sent(), make_packet_sent()]
    (row,) = fold_oft(NETWORK, GUID, events, statuses)
    assert row.stage == "IN_FLIGHT"
    assert row.stage_reason == (
        f"waiting for the message layer to verify it; LayerZero Scan says: {word}, in its words"
    )
    (row,) = fold_oft(NETWORK, GUID, [*events, make_oft_received()], statuses)
    assert (row.stage, row.stage_reason) == ("COMPLETED", None)


def test_burns_of_one_tx_pair_with_their_own_messages() -> None:
    events = [
        *make_burn_to_stellar(amount=1, position=0),
        *make_burn_to_stellar(amount=2, position=2),
    ]
    assert [(b.message.seen.position, b.deposit.amount) for b in pair_burns(events)] == [
        (0, 1),
        (2, 2),
    ]


def test_message_without_deposit_is_no_burn() -> None:
    messages = [e for e in make_burn_to_stellar() if isinstance(e, MessageSent)]
    assert pair_burns(messages) == []


def test_oft_send_is_in_flight_then_verified_then_complete() -> None:
    events: list[OftEvent] = [make_oft_sent(), make_packet_sent()]
    assert fold_oft(NETWORK, GUID, events)[0].stage == "IN_FLIGHT"
    events_verified = [*events, make_packet_verified()]
    assert fold_oft(NETWORK, GUID, events_verified)[0].stage == "DELIVERING"
    (row,) = fold_oft(NETWORK, GUID, [*events_verified, make_oft_received()])
    assert (row.stage, row.amount_in, row.amount_out, row.fee) == (
        "COMPLETED",
        7_000_000,
        70_000_000,
        0,
    )
    assert (row.source_address, row.dest_address) == (USER, ACCOUNT)


def test_alert_changes_only_the_reason() -> None:
    waiting: list[OftEvent] = [make_oft_sent(), make_packet_verified(), make_alert()]
    (row,) = fold_oft(NETWORK, GUID, waiting)
    assert row.stage == "DELIVERING"
    assert row.stage_reason is not None
    assert "failed" in row.stage_reason
    (delivered,) = fold_oft(NETWORK, GUID, [*waiting, make_oft_received()])
    assert (delivered.stage, delivered.stage_reason) == ("COMPLETED", None)


def test_stellar_oft_recipient_stays_raw_until_received() -> None:
    (row,) = fold_oft(NETWORK, GUID, [make_oft_sent(), make_packet_sent(send_to=BURN_KEY)])
    assert row.dest_address == BURN_KEY


def test_packet_without_send_or_credit_is_no_movement() -> None:
    assert fold_oft(NETWORK, GUID, [make_packet_verified(), make_alert()]) == []


def test_fact_order_changes_nothing() -> None:
    events: list[OftEvent] = [
        make_oft_sent(),
        make_packet_sent(),
        make_packet_verified(),
        make_oft_received(),
    ]
    expected = fold_oft(NETWORK, GUID, events)
    for seed in range(10):
        shuffled = random.Random(seed).sample(events, len(events))
        assert fold_oft(NETWORK, GUID, shuffled) == expected
