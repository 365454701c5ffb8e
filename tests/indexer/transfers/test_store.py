"""Stored transfers equal a full refold after every fact and request."""

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, event, insert, select

from indexer.addresses import account_as_bytes32
from indexer.bridges.tokens.events import AssetMovement
from indexer.chains.events import Event
from indexer.facts.alarms import open_alarms
from indexer.facts.proofs import next_requested_block, record_proven, request_proofs
from indexer.facts.store import remove_range
from indexer.ingest.projections import revert_events
from indexer.movements.store import refold_movements
from indexer.transfers.inputs import TransferTerms
from indexer.transfers.store import (
    StateRow,
    refold_affected,
    refold_all,
    refold_final,
    refold_transfers,
    state_differences,
    stored_rows,
)
from tests.factories.intake import ask, cancel, moment, submit
from tests.factories.relay import signed
from tests.factories.stage_facts import (
    DIRECT,
    PAID_IN,
    USDC,
    bring_in,
    burn,
    given_back,
    keep,
    key_of,
    make_unproven,
    mint,
    paid,
    stand_at,
)
from tests.factories.stage_history import DEPOSIT, START, make_terms
from tests.factories.transfers import (
    ACCOUNT,
    ETHEREUM,
    NETWORK,
    NONCE,
    PUBNET,
    USER,
    make_oft_received,
    make_oft_sent,
    make_packet_sent,
    make_packet_verified,
    seen,
)
from warehouse_schema.facts import cctp_attestations, lost_sources
from warehouse_schema.identifiers import (
    BaseUnits,
    ChainId,
    EvmAddress,
    Height,
    StellarAddress,
)
from warehouse_schema.projections import transfer_states

OTHER = StellarAddress("GA5ZSEJYB37JRC5AVCIA5MOP4RHTM335X2KGX3IHOJAPP5RE34K4KZVN")
STRANGER = EvmAddress("0x" + "99" * 20)


def row_of(conn: Connection, terms: TransferTerms) -> StateRow:
    """The stored row; what is stored has to be what a refold gives."""
    assert state_differences(conn, NETWORK) == []
    (row,) = stored_rows(conn, [terms.id]).values()
    return row


def stage_of(conn: Connection, terms: TransferTerms) -> tuple[str, str | None]:
    row = row_of(conn, terms)
    return row.stage, row.reason


def begin(conn: Connection, *transfers: TransferTerms) -> None:
    for terms in transfers:
        ask(conn, terms)
    refold_transfers(conn, NETWORK, [terms.id for terms in transfers])


def attest(conn: Connection, terms: TransferTerms, tx: str) -> None:
    """What the poller writes, and its refold."""
    row = {
        "source_domain": 0,
        "nonce": NONCE,
        "message_hash": NONCE,
        "source_chain": terms.source_chain,
        "source_tx": tx,
        "burn_key": key_of(terms),
        "message": b"",
        "attestation": b"",
        "status": "complete",
        "attesters": [],
        "verified": True,
        "judged_at": moment(START + 700),
    }
    conn.execute(insert(cctp_attestations).values(row))
    refold_movements(conn, NETWORK, [("cctp", key_of(terms))])
    refold_affected(conn, NETWORK, (), [("cctp", key_of(terms))])


def test_burn_is_followed_from_block_to_delivery(connection: Connection):
    begin(connection, DIRECT)
    assert stage_of(connection, DIRECT) == ("AWAITING_SIGNATURE", None)
    stand_at(connection, seen(ETHEREUM, 100))
    bring_in(connection, *burn(DIRECT, 100))
    assert stage_of(connection, DIRECT) == ("CONFIRMING", "not_final")
    stand_at(connection, seen(ETHEREUM, 160), final=99)
    assert refold_final(connection, NETWORK, ETHEREUM) == 0
    stand_at(connection, seen(ETHEREUM, 170), final=100)
    assert refold_final(connection, NETWORK, ETHEREUM) == 1
    assert stage_of(connection, DIRECT) == ("ATTESTING", "not_attested")
    attest(connection, DIRECT, burn(DIRECT, 100)[0].seen.tx_hash)
    delivering = row_of(connection, DIRECT)
    assert (delivering.stage, delivering.since) == ("DELIVERING", START + 700)
    assert delivering.self_finish == NONCE
    bring_in(connection, *mint(DIRECT, 900))
    done = row_of(connection, DIRECT)
    assert (done.stage, done.amount_delivered) == ("COMPLETED", DIRECT.amount_in * 10)
    assert (done.external_tx, done.stellar_tx) == ("0x" + "a" * 64, "c" * 64)
    assert done.completed_at == seen(PUBNET, 900).block_time
    assert done.movement == f"cctp:{key_of(DIRECT)}:0"


def test_unequal_burn_to_the_recipient_is_extra(
    connection: Connection,
):
    begin(connection, DIRECT)
    bring_in(connection, *burn(DIRECT, 100, depositor=STRANGER))
    bring_in(connection, *burn(DIRECT, 101, "b", amount=BaseUnits(DIRECT.amount_in - 1)))
    row = row_of(connection, DIRECT)
    assert (row.stage, row.movement) == ("AWAITING_SIGNATURE", None)
    assert row.extras == [f"cctp:{key_of(DIRECT)}:{number}" for number in (0, 1)]


def test_dust_with_copied_id_is_ignored(connection: Connection):
    begin(connection, DIRECT)
    least = DIRECT.min_refund
    bring_in(connection, *burn(DIRECT, 100, depositor=STRANGER, amount=BaseUnits(least - 1)))
    assert row_of(connection, DIRECT).extras == []
    bring_in(connection, *burn(DIRECT, 101, "b", depositor=STRANGER, amount=least))
    assert len(row_of(connection, DIRECT).extras) == 1


def test_second_burn_of_a_transfer_is_extra(connection: Connection):
    begin(connection, DIRECT)
    bring_in(connection, *burn(DIRECT, 100))
    bring_in(connection, *burn(DIRECT, 101, "b"))
    row = row_of(connection, DIRECT)
    assert (row.movement, row.extras) == (
        f"cctp:{key_of(DIRECT)}:0",
        [f"cctp:{key_of(DIRECT)}:1"],
    )


def test_delivery_alone_completes_the_transfer(connection: Connection):
    begin(connection, DIRECT)
    bring_in(connection, *mint(DIRECT, 900))
    row = row_of(connection, DIRECT)
    assert (row.stage, row.external_tx, row.stellar_tx) == ("COMPLETED", None, "c" * 64)
    bring_in(connection, *burn(DIRECT, 100))
    assert row_of(connection, DIRECT).external_tx == "0x" + "a" * 64


def test_deposit_is_funded_swept_and_excess_owed(connection: Connection):
    begin(connection, PAID_IN)
    bring_in(connection, paid(USER, DEPOSIT, 1, 100))
    assert stage_of(connection, PAID_IN) == ("AWAITING_FUNDS", "short_payment")
    bring_in(connection, paid(STRANGER, DEPOSIT, PAID_IN.amount_in, 101, "d"))
    assert stage_of(connection, PAID_IN) == ("FUNDED", None)
    sweep = "0x" + "a" * 64
    signed(connection, ETHEREUM, "sweep", PAID_IN.id, sweep)
    refold_transfers(connection, NETWORK, [PAID_IN.id])
    assert stage_of(connection, PAID_IN) == ("SUBMITTED", "not_included")
    bring_in(connection, *burn(PAID_IN, 102))
    row = row_of(connection, PAID_IN)
    assert [step["stage"] for step in row.timeline] == [
        *("AWAITING_FUNDS", "FUNDED", "SUBMITTED", "CONFIRMING"),
    ]
    assert row.refund["lines"] == [
        {"token": USDC, "received": "5000001", "swept": "5000000", "returned": "0", "owed": "1"}
    ]


def test_deposit_after_cancel_is_refunded(connection: Connection):
    begin(connection, PAID_IN)
    cancel(connection, PAID_IN, START + 60)
    refold_transfers(connection, NETWORK, [PAID_IN.id])
    assert stage_of(connection, PAID_IN) == ("CANCELLED", "cancelled")
    bring_in(connection, paid(USER, DEPOSIT, PAID_IN.amount_in, 100))
    assert stage_of(connection, PAID_IN) == ("REFUNDING", "cancelled")
    bring_in(connection, given_back(DEPOSIT, USER, PAID_IN.amount_in, 110))
    row = row_of(connection, PAID_IN)
    assert (row.stage, row.refund["txs"]) == ("REFUNDED", ["0x" + "e" * 64])


def test_reorged_refund_is_owed_again(connection: Connection):
    begin(connection, PAID_IN)
    cancel(connection, PAID_IN, START + 60)
    bring_in(connection, paid(USER, DEPOSIT, PAID_IN.amount_in, 100))
    bring_in(connection, given_back(DEPOSIT, USER, PAID_IN.amount_in, 110))
    take_back(connection, 110)
    assert stage_of(connection, PAID_IN) == ("REFUNDING", "cancelled")
    assert open_alarms(connection) == []


def test_payment_on_another_chain_is_ignored(connection: Connection):
    begin(connection, PAID_IN)
    elsewhere = paid(USER, DEPOSIT, PAID_IN.amount_in, 100)
    bring_in(connection, replace(elsewhere, seen=seen(ChainId("eip155:8453"), 100)))
    assert stage_of(connection, PAID_IN) == ("AWAITING_FUNDS", None)


def take_back(conn: Connection, height: int) -> None:
    taken = remove_range(conn, ETHEREUM, Height(height), None)
    revert_events(conn, NETWORK, taken)


def test_reorged_burn_is_expected_again(connection: Connection):
    begin(connection, DIRECT)
    bring_in(connection, *burn(DIRECT, 100))
    take_back(connection, 100)
    assert stage_of(connection, DIRECT) == ("SUBMITTED", "source_reorged")
    bring_in(connection, *burn(DIRECT, 101))
    assert stage_of(connection, DIRECT) == ("CONFIRMING", "not_final")
    take_back(connection, 101)
    assert stage_of(connection, DIRECT) == ("SUBMITTED", "source_reorged")
    assert open_alarms(connection) == []


def test_reorged_extra_is_not_expected_again(connection: Connection):
    begin(connection, DIRECT)
    bring_in(connection, *burn(DIRECT, 100, depositor=STRANGER))
    take_back(connection, 100)
    assert stage_of(connection, DIRECT) == ("AWAITING_SIGNATURE", None)
    assert connection.scalars(select(lost_sources.c.transfer)).all() == []


def test_reorged_deposit_is_expected_again(connection: Connection):
    begin(connection, PAID_IN)
    half = PAID_IN.amount_in // 2
    twice = [paid(USER, DEPOSIT, half, 100), paid(USER, DEPOSIT, half, 100)]
    twice[1] = replace(twice[1], seen=replace(twice[1].seen, position=6))
    bring_in(connection, *twice)
    assert stage_of(connection, PAID_IN) == ("FUNDED", None)
    take_back(connection, 100)
    assert stage_of(connection, PAID_IN) == ("SUBMITTED", "source_reorged")
    bring_in(connection, *twice)
    assert stage_of(connection, PAID_IN) == ("FUNDED", None)


# Without a label.

USDT0 = str(NETWORK.evm[0].usdt0)
OFT = make_terms(
    mechanism="oft",
    deposit_address=None,
    source_token=USDT0,
    amount_in=BaseUnits(7_000_000),
)


def oft_send(recipient: str = ACCOUNT, tx: str = "a") -> list[Event]:
    packet = make_packet_sent(send_to=account_as_bytes32(StellarAddress(recipient)))
    at = seen(ETHEREUM, 100, tx)
    return [
        replace(make_oft_sent(), seen=at),
        replace(packet, seen=replace(at, position=1)),
    ]


def test_oft_send_is_matched_by_what_it_moves(connection: Connection):
    begin(connection, OFT)
    stand_at(connection, seen(ETHEREUM, 100), final=100)
    bring_in(connection, *oft_send())
    assert stage_of(connection, OFT) == ("IN_FLIGHT", "not_verified")
    bring_in(connection, make_packet_verified())
    row = row_of(connection, OFT)
    assert (row.stage, row.self_finish) == ("DELIVERING", None)
    assert row.since == make_packet_verified().seen.block_time
    bring_in(connection, make_oft_received())
    row = row_of(connection, OFT)
    assert (row.stage, row.amount_delivered) == ("COMPLETED", 70_000_000)


@pytest.mark.parametrize("mechanism", ["cctp", "oft"])
def test_delivery_completes_once_its_block_is_proven(connection: Connection, mechanism: str):
    terms = DIRECT if mechanism == "cctp" else OFT
    begin(connection, terms)
    stand_at(connection, seen(ETHEREUM, 100), final=100)
    bring_in(connection, *(burn(DIRECT, 100) if mechanism == "cctp" else oft_send()))
    delivery = mint(DIRECT, 200) if mechanism == "cctp" else [make_oft_received()]
    block = make_unproven(connection, delivery[0].seen)
    bring_in(connection, *delivery)
    row = row_of(connection, terms)
    assert (row.stage, row.completed_at, row.amount_delivered) == ("DELIVERING", None, None)
    assert next_requested_block(connection, block.chain, ()) == block
    record_proven(connection, block)
    refold_affected(connection, NETWORK, delivery)
    assert row_of(connection, terms).stage == "COMPLETED"


def test_unproven_delivery_without_its_source_changes_nothing(connection: Connection):
    begin(connection, DIRECT)
    delivery = mint(DIRECT, 200)
    block = make_unproven(connection, delivery[0].seen)
    bring_in(connection, *delivery)
    assert stage_of(connection, DIRECT)[0] == "AWAITING_SIGNATURE"
    record_proven(connection, block)
    refold_affected(connection, NETWORK, delivery)
    assert stage_of(connection, DIRECT)[0] == "COMPLETED"


def test_deposit_is_funded_once_its_block_is_proven(connection: Connection):
    begin(connection, PAID_IN)
    payment = paid(USER, DEPOSIT, PAID_IN.amount_in, 100)
    block = make_unproven(connection, payment.seen)
    bring_in(connection, payment)
    assert stage_of(connection, PAID_IN)[0] == "AWAITING_FUNDS"
    assert next_requested_block(connection, block.chain, ()) == block
    record_proven(connection, block)
    refold_affected(connection, NETWORK, [payment])
    assert stage_of(connection, PAID_IN)[0] == "FUNDED"


def test_blocks_that_cannot_be_proven_starve_no_other_proof(connection: Connection):
    first, second = [make_unproven(connection, seen(ETHEREUM, 100 + i)) for i in range(2)]
    request_proofs(connection, [(block.chain, block.hash) for block in (first, second)])
    assert {next_requested_block(connection, first.chain, ()) for _ in range(200)} == {
        first,
        second,
    }
    assert next_requested_block(connection, first.chain, [first.hash]) == second
    assert next_requested_block(connection, first.chain, [first.hash, second.hash]) is None


def test_send_goes_to_the_transfer_that_submitted_it(connection: Connection):
    first, second = OFT, replace(OFT, id="c3" * 16)
    begin(connection, first, second)
    bring_in(connection, *oft_send())
    assert (stage_of(connection, first)[0], stage_of(connection, second)[0]) == (
        *("CONFIRMING",),
        "AWAITING_SIGNATURE",
    )
    submit(connection, second, "0x" + "a" * 64, START + 900)
    refold_transfers(connection, NETWORK, [second.id])
    assert stage_of(connection, second)[0] == "CONFIRMING"
    assert stage_of(connection, first)[0] == "AWAITING_SIGNATURE"


def test_send_completes_with_its_payment(connection: Connection):
    token = NETWORK.stellar.usdc_contract
    terms = make_terms(
        mechanism="payment",
        source_chain=PUBNET,
        source_address=ACCOUNT,
        source_token=token,
        dest_address=OTHER,
        deposit_address=None,
    )
    begin(connection, terms)
    payment = AssetMovement(
        seen=seen(PUBNET, 300),
        kind="transfer",
        contract=token,
        asset=NETWORK.stellar.usdc,
        sender=ACCOUNT,
        recipient=OTHER,
        amount=terms.amount_in,
        to_muxed_id=None,
    )
    bring_in(connection, replace(payment, seen=seen(PUBNET, 299), recipient=ACCOUNT))
    assert stage_of(connection, terms) == ("AWAITING_SIGNATURE", None)
    bring_in(connection, payment)
    assert stage_of(connection, terms) == ("COMPLETED", None)


# All of them, and those that cannot be.


def test_fold_of_many_takes_as_many_round_trips_as_of_one(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
):
    many = [replace(DIRECT, id=f"{number:032x}") for number in range(6)]
    begin(connection, *many)
    trips: list[str] = []
    event.listen(
        connection, "before_cursor_execute", lambda conn, cursor, sql, *_: trips.append(sql)
    )
    pipeline = psycopg.Connection.pipeline

    def counted(self: "psycopg.Connection[Any]") -> AbstractContextManager[psycopg.Pipeline]:
        trips.append("pipeline")
        return pipeline(self)

    monkeypatch.setattr(psycopg.Connection, "pipeline", counted)
    costs = []
    for height, transfers in ((100, many[:1]), (200, many[1:])):
        burns = [
            each
            for number, terms in enumerate(transfers, height)
            for each in burn(terms, number, f"{number:x}")
        ]
        keep(connection, *burns)
        refold_movements(connection, NETWORK, {("cctp", key_of(each)) for each in transfers})
        trips.clear()
        refold_affected(connection, NETWORK, burns)
        costs.append(len(trips))
    folded = stored_rows(connection, [each.id for each in many]).values()
    assert {row.stage for row in folded} == {"CONFIRMING"}
    assert costs[0] == costs[1] <= 16


def test_rebuild_writes_equal_rows(connection: Connection):
    begin(connection, DIRECT, PAID_IN)
    bring_in(connection, *burn(DIRECT, 100), paid(USER, DEPOSIT, 5, 100))
    ids = [DIRECT.id, PAID_IN.id]
    before = stored_rows(connection, ids)
    assert refold_all(connection, NETWORK) == 2
    assert stored_rows(connection, ids) == before


def test_row_unlike_its_fold_is_found(connection: Connection):
    begin(connection, DIRECT)
    connection.execute(transfer_states.update().values(stage="FUNDED"))
    (found,) = state_differences(connection, NETWORK)
    assert "FUNDED" in str(found)
    assert not found.waits_for_keeper
    connection.execute(transfer_states.update().values(transfer="99" * 16))
    assert len(state_differences(connection, NETWORK)) == 2


def test_illegal_transition_is_alarmed_and_stops_no_chain(connection: Connection):
    begin(connection, PAID_IN)
    impossible = {"stage": "COMPLETED", "completed_at": 1}
    connection.execute(transfer_states.update().values(impossible))
    bring_in(connection, paid(USER, DEPOSIT, 1, 100))
    assert stage_of(connection, PAID_IN) == ("AWAITING_FUNDS", "short_payment")
    (alarm,) = open_alarms(connection)
    assert (alarm.kind, alarm.subject) == ("illegal_stage", PAID_IN.id)


@pytest.mark.parametrize("terms", [DIRECT, PAID_IN])
def test_unrelated_facts_change_no_transfer(connection: Connection, terms: TransferTerms):
    begin(connection, terms)
    other = replace(terms, id="99" * 16, deposit_address=None)
    bring_in(connection, *burn(other, 100), paid(USER, STRANGER, 5, 100))
    assert stage_of(connection, terms)[0] in ("AWAITING_SIGNATURE", "AWAITING_FUNDS")
    assert refold_affected(connection, NETWORK, burn(other, 100)) == 0
