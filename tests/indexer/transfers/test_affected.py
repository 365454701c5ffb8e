"""Transfers that stored facts affect, found in Postgres, are those that the events name."""

from dataclasses import replace

import pytest
from sqlalchemy import Connection

from indexer.bridges.tokens.events import AssetMovement
from indexer.chains.events import Event
from indexer.movements.mechanisms import affected_movements
from indexer.transfers.affected import affected_transfers, transfers_of_range
from tests.factories.intake import ask
from tests.factories.stage_facts import DIRECT, PAID_IN, burn, given_back, keep, mint, paid
from tests.factories.stage_history import DEPOSIT, make_terms
from tests.factories.transfers import (
    ACCOUNT,
    ETHEREUM,
    NETWORK,
    PUBNET,
    USER,
    make_oft_received,
    make_oft_sent,
    seen,
)
from warehouse_schema.identifiers import Address, BaseUnits, EvmAddress, Height

STRANGER = EvmAddress("0x" + "99" * 20)
OFT = make_terms(
    id="c3" * 16, mechanism="oft", deposit_address=None, amount_in=BaseUnits(DIRECT.amount_in + 1)
)
SENT = replace(make_oft_sent(), amount_sent=OFT.amount_in)
PAYMENT = make_terms(
    id="d4" * 16,
    mechanism="payment",
    source_chain=PUBNET,
    source_address=ACCOUNT,
    dest_address=ACCOUNT,
    deposit_address=None,
)
MOVED = AssetMovement(
    seen=seen(PUBNET, 300),
    kind="transfer",
    contract=NETWORK.stellar.usdc_contract,
    asset=NETWORK.stellar.usdc,
    sender=ACCOUNT,
    recipient=ACCOUNT,
    amount=PAYMENT.amount_in,
    to_muxed_id=None,
)


@pytest.fixture
def conn(connection: Connection) -> Connection:
    for terms in (DIRECT, PAID_IN, OFT, PAYMENT):
        ask(connection, terms)
    return connection


PAYMENTS = {
    "paid to a deposit address": (paid(USER, DEPOSIT, 1, 100), {PAID_IN.id}),
    "paid to another address": (paid(USER, STRANGER, 1, 100), set()),
    "refunded": (given_back(DEPOSIT, USER, 1, 100), {PAID_IN.id}),
    "paid on Stellar": (MOVED, {PAYMENT.id}),
    "another amount on Stellar": (replace(MOVED, amount=BaseUnits(1)), set()),
    "minted on Stellar": (replace(MOVED, kind="mint", sender=None), set()),
}


@pytest.mark.parametrize(("event", "expected"), PAYMENTS.values(), ids=PAYMENTS)
def test_stored_payment_affects_its_transfer(conn: Connection, event: Event, expected: set[str]):
    keep(conn, event)
    place = event.seen.chain, event.seen.height, event.seen.height
    assert transfers_of_range(conn, *place, (), ()) == expected
    assert affected_transfers(conn, [event]) == expected
    above = Height(event.seen.height + 1)
    assert transfers_of_range(conn, event.seen.chain, above, above, (), ()) == set()


MOVEMENTS = {
    "sent": ([SENT], {OFT.id}),
    "another amount": ([replace(SENT, amount_sent=BaseUnits(1))], set()),
    "another sender": ([replace(SENT, from_address=Address(STRANGER))], set()),
    "sent by a deposit address": (
        [replace(SENT, from_address=Address(DEPOSIT), amount_sent=BaseUnits(1))],
        {PAID_IN.id},
    ),
    "received": ([make_oft_received()], set()),
    "burn": (burn(DIRECT, 100), {DIRECT.id}),
    "mint": (mint(DIRECT, 200), {DIRECT.id}),
}


@pytest.mark.parametrize(("events", "expected"), MOVEMENTS.values(), ids=MOVEMENTS)
def test_stored_movement_affects_its_transfer(
    conn: Connection, events: list[Event], expected: set[str]
):
    keep(conn, *events)
    movements = affected_movements(events)
    assert affected_transfers(conn, (), movements) == expected
    assert affected_transfers(conn, events) == expected
    place = ETHEREUM, Height(1), Height(2)
    assert transfers_of_range(conn, *place, (), movements) == expected
    assert transfers_of_range(conn, *place, events, ()) == expected
