"""Transfers that facts affect: events, events in columns, and stored movements name the same."""

import dataclasses
from dataclasses import replace

import polars as pl
import pytest
from sqlalchemy import Connection

from indexer.bridges.tokens.events import AssetMovement
from indexer.chains.events import Event
from indexer.movements.mechanisms import affected_movements
from indexer.transfers.affected import affected_transfers, payments_among
from tests.factories.intake import ask
from tests.factories.stage_facts import DIRECT, PAID_IN, burn, given_back, keep, mint, paid
from tests.factories.stage_history import DEPOSIT, make_terms
from tests.factories.transfers import (
    ACCOUNT,
    NETWORK,
    PUBNET,
    USER,
    make_oft_received,
    make_oft_sent,
    seen,
)
from warehouse_schema.identifiers import Address, BaseUnits, EvmAddress

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
def test_payment_affects_its_transfer(conn: Connection, event: Event, expected: set[str]):
    assert affected_transfers(conn, [event]) == expected
    assert affected_transfers(conn, (), (), payments_among([event], {})) == expected
    columns = {type(event).__name__: frame_of(event)}
    assert affected_transfers(conn, (), (), payments_among((), columns)) == expected


def frame_of(event: Event) -> pl.DataFrame:
    """The event in columns, as a columnar decoder gives it."""
    fields = {each.name: [getattr(event, each.name)] for each in dataclasses.fields(event)[1:]}
    return pl.DataFrame(fields)


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
