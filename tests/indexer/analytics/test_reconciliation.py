"""Reconciliation finds lost, extra and stuck money, and has no findings otherwise."""

import time
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, delete, func, select, update

from indexer.analytics.reconciliation import (
    MAX_WAIT_SECONDS,
    ChainFlow,
    FlowSum,
    ReconciliationCheck,
    compute_reconciliation,
    reconcile,
)
from indexer.bridges.cctp.events import MintAndWithdraw
from indexer.chains.events import Event
from indexer.facts.backfills import BackfillSpan, save_spans
from indexer.transfers.inputs import TransferTerms
from indexer.transfers.store import refold_transfers
from tests.factories.intake import ask, cancel
from tests.factories.stage_facts import DIRECT, PAID_IN, USDC, bring_in, burn, keep, mint, paid
from tests.factories.stage_history import DEPOSIT
from tests.factories.transfers import (
    ETHEREUM,
    NETWORK,
    PUBNET,
    USER,
    make_oft_received,
    make_oft_sent,
)
from warehouse_schema.events import cctp_burns, cctp_mints
from warehouse_schema.identifiers import BaseUnits, Height, UnixSeconds
from warehouse_schema.projections import movements, reconciliation, transfer_states


def now() -> UnixSeconds:
    """What is late is late by the database's clock."""
    return UnixSeconds(int(time.time()))


def fresh(terms: TransferTerms) -> TransferTerms:
    """Of a minute ago."""
    return replace(terms, started_at=UnixSeconds(now() - 60), expires_at=UnixSeconds(now() + 1_740))


def found(conn: Connection, check: ReconciliationCheck) -> list[str]:
    findings = compute_reconciliation(conn, NETWORK).findings
    assert {each.check for each in findings} <= {check}
    return [each.detail for each in findings]


def minted(amount: int, fee: int = 0) -> list[Event]:
    """The delivery of `DIRECT`, of another amount."""
    made, *rest = mint(DIRECT, 200)
    assert isinstance(made, MintAndWithdraw)
    return [replace(made, amount=BaseUnits(amount), fee_collected=BaseUnits(fee)), *rest]


def test_empty_warehouse_has_no_findings(connection: Connection):
    seen = compute_reconciliation(connection, NETWORK)
    assert (seen.flows, seen.stages, seen.findings) == ((), {}, ())


def test_sent_equals_delivered_plus_in_flight(connection: Connection):
    other = replace(DIRECT, id="c3" * 16)
    bring_in(connection, *burn(DIRECT, 100, "a"))
    bring_in(connection, *burn(other, 101, "d"))
    bring_in(connection, *mint(DIRECT, 200))
    seen = compute_reconciliation(connection, NETWORK)
    each = int(DIRECT.amount_in) * 10
    assert seen.findings == ()
    assert seen.flows == (
        ChainFlow(
            mechanism="cctp",
            source_chain=ETHEREUM,
            dest_chain=PUBNET,
            sent=FlowSum(2, 2 * each),
            delivered=FlowSum(1, each),
            fees=0,
            on_the_way=FlowSum(1, each),
            unexplained=FlowSum(),
        ),
    )


def test_fee_is_part_of_sent_amount(connection: Connection):
    bring_in(connection, *burn(DIRECT, 100, "a"))
    bring_in(connection, *minted(DIRECT.amount_in - 7, fee=7))
    (flow,) = compute_reconciliation(connection, NETWORK).flows
    assert flow.fees == 70
    assert flow.sent.amount == flow.delivered.amount + flow.fees
    assert compute_reconciliation(connection, NETWORK).findings == ()


def test_delivery_without_sending_is_unexplained(connection: Connection):
    bring_in(connection, *mint(DIRECT, 200))
    (flow,) = compute_reconciliation(connection, NETWORK).flows
    assert flow.unexplained == flow.delivered == FlowSum(1, int(DIRECT.amount_in) * 10)
    assert flow.sent == flow.on_the_way == FlowSum()


def test_oft_flows_add_up(connection: Connection):
    sent, received = make_oft_sent(), make_oft_received()
    bring_in(connection, sent)
    bring_in(connection, received)
    seen = compute_reconciliation(connection, NETWORK)
    assert seen.findings == ()
    (flow,) = seen.flows
    assert flow.mechanism == "oft"
    assert flow.sent.amount == flow.delivered.amount + flow.fees


@pytest.mark.parametrize(
    ("table", "word"), [(cctp_burns, "burned"), (cctp_mints, "minted")], ids=lambda it: str(it)
)
def test_fact_without_movement_is_finding(connection: Connection, table: Any, word: str):
    bring_in(connection, *burn(DIRECT, 100, "a"))
    bring_in(connection, *mint(DIRECT, 200))
    other = replace(DIRECT, id="c3" * 16)
    # Stored and never folded: a movement that was lost on its way.
    keep(connection, *(burn(other, 101, "d") if table is cctp_burns else mint(other, 201, "d")))
    (sentence,) = found(connection, "movements_hold_all_facts")
    chain = ETHEREUM if table is cctp_burns else PUBNET
    assert sentence.startswith(f"{chain}: the facts say ")
    assert f" {word}, the movements " in sentence


def test_movement_without_facts_is_finding(connection: Connection):
    bring_in(connection, *burn(DIRECT, 100, "a"))
    connection.execute(delete(cctp_burns))
    (sentence,) = found(connection, "movements_hold_all_facts")
    assert "the facts say 0 base units burned" in sentence


def test_unfolded_backfill_is_no_finding(connection: Connection):
    keep(connection, *burn(DIRECT, 100, "a"))
    assert len(found(connection, "movements_hold_all_facts")) == 1
    first, last = Height(1), Height(200)
    span = BackfillSpan(ETHEREUM, first, last, first, last, Height(150), Height(0), 2)
    save_spans(connection, [span])
    assert compute_reconciliation(connection, NETWORK).findings == ()


def test_unequal_amounts_are_finding(connection: Connection):
    bring_in(connection, *burn(DIRECT, 100, "a"))
    bring_in(connection, *minted(DIRECT.amount_in + 1))
    (sentence,) = found(connection, "movements_keep_their_amount")
    assert f"{DIRECT.amount_in} went in, {10 * (DIRECT.amount_in + 1)} came out" in sentence


# Transfers.


def stands(conn: Connection, terms: TransferTerms) -> None:
    refold_transfers(conn, NETWORK, [terms.id])


def test_open_transfers_are_counted_by_stage(connection: Connection):
    for number in range(3):
        ask(connection, fresh(replace(DIRECT, id=f"{number:032x}")))
    terms = fresh(PAID_IN)
    ask(connection, terms)
    cancel(connection, terms, now())
    refold_transfers(connection, NETWORK, [terms.id, *(f"{number:032x}" for number in range(3))])
    seen = compute_reconciliation(connection, NETWORK)
    assert seen.stages == {"AWAITING_SIGNATURE": 3}
    assert seen.findings == ()


def test_overdue_expiry_is_finding(connection: Connection):
    late = UnixSeconds(now() - MAX_WAIT_SECONDS["user"] - 5)
    terms = replace(DIRECT, started_at=UnixSeconds(late - 1_800), expires_at=late)
    ask(connection, terms)
    stands(connection, terms)
    (sentence,) = found(connection, "transfers_move_on")
    assert sentence.startswith(f"transfer {terms.id} is AWAITING_SIGNATURE without a reason")
    assert sentence.endswith("s for the user")


@pytest.mark.parametrize(
    ("stage", "turn"),
    [("FUNDED", "relay"), ("CONFIRMING", "chain"), ("ATTESTING", "attestation service")],
)
def test_late_transfer_names_the_party(connection: Connection, stage, turn):
    terms = fresh(DIRECT)
    ask(connection, terms)
    stands(connection, terms)
    where = transfer_states.c.transfer == terms.id
    for waited, count in ((MAX_WAIT_SECONDS[turn] - 300, 0), (MAX_WAIT_SECONDS[turn] + 5, 1)):
        values = {"stage": stage, "reason": "not_final", "since": now() - waited}
        connection.execute(update(transfer_states).where(where).values(values))
        details = found(connection, "transfers_move_on")
        assert len(details) == count
        assert all(f"is {stage} (not_final)" in each and turn in each for each in details)


@pytest.mark.parametrize("stage", ["AWAITING_TRUSTLINE", "ON_HOLD"])
def test_awaiting_trustline_is_no_finding(connection: Connection, stage):
    terms = fresh(DIRECT)
    ask(connection, terms)
    stands(connection, terms)
    values = {"stage": stage, "reason": "held", "since": now() - 10**6}
    connection.execute(update(transfer_states).values(values))
    seen = compute_reconciliation(connection, NETWORK)
    assert (seen.findings, seen.stages) == ((), {stage: 1})


def end_transfers(conn: Connection, ago: timedelta) -> None:
    values = {"stage": "CANCELLED", "changed_at": func.now() - ago}
    conn.execute(update(transfer_states).values(values))


def test_balance_of_ended_transfer_is_finding(connection: Connection):
    ask(connection, PAID_IN)
    bring_in(connection, paid(USER, DEPOSIT, PAID_IN.min_refund, 120))
    # Nobody ever sends it back: its transfer is over all the same, by a row that lies.
    limit = MAX_WAIT_SECONDS["chain"]
    end_transfers(connection, timedelta(seconds=limit - 60))
    assert compute_reconciliation(connection, NETWORK).findings == ()
    end_transfers(connection, timedelta(seconds=limit + 1))
    (sentence,) = found(connection, "deposit_addresses_are_empty")
    assert sentence == (
        f"transfer {PAID_IN.id} is CANCELLED, and its address holds {PAID_IN.min_refund} of {USDC}"
    )


def test_balance_below_refund_is_no_finding(connection: Connection):
    ask(connection, PAID_IN)
    bring_in(connection, paid(USER, DEPOSIT, PAID_IN.min_refund - 1, 120))
    end_transfers(connection, timedelta(days=1))
    assert compute_reconciliation(connection, NETWORK).findings == ()


# What is kept of it.


def test_only_last_result_is_stored(indexer_engine: Engine, engine: Engine):
    with engine.begin() as conn:
        bring_in(conn, *burn(DIRECT, 100, "a"))
    first = reconcile(indexer_engine, NETWORK)
    with engine.begin() as conn:
        conn.execute(delete(movements))
    second = reconcile(indexer_engine, NETWORK)
    assert (len(first.flows), first.findings) == (1, ())
    with engine.connect() as conn:
        (row,) = conn.execute(select(reconciliation)).all()
    assert (row.at, row.flows, row.stages) == (second.at, [], {})
    (finding,) = row.findings
    assert finding["check"] == "movements_hold_all_facts"
    assert second.at > first.at


def test_amounts_are_stored_as_digits(indexer_engine: Engine, engine: Engine):
    with engine.begin() as conn:
        bring_in(conn, *burn(DIRECT, 100, "a"))
    reconcile(indexer_engine, NETWORK)
    with engine.connect() as conn:
        flows: Any = conn.scalar(select(reconciliation.c.flows))
    assert flows[0]["sent"] == {"count": 1, "amount": str(DIRECT.amount_in * 10)}
    assert flows[0]["fees"] == "0"
