"""Closed submissions loaded as transfer inputs."""

import pytest
from sqlalchemy import Connection, func, insert
from stellar_sdk import TransactionEnvelope

from indexer.transfers.fold import fold_transfer
from indexer.transfers.load import load_transfers
from relay.senders.stellar_signing import Bounds, Invocation, build_call
from tests.factories.intake import ask, notify_intake
from tests.factories.relay import signed
from tests.factories.stage_history import SEND, WITHDRAWAL
from tests.factories.transfers import ACCOUNT, NETWORK, PUBNET
from warehouse_schema.identifiers import StellarAddress, Stroops, UnixSeconds
from warehouse_schema.intake import submissions


def call(function: str) -> TransactionEnvelope:
    contract = StellarAddress(NETWORK.stellar.usdc_contract)
    bounds = Bounds(UnixSeconds(0), UnixSeconds(2_000_000_000))
    invocation = Invocation(contract, function, ())
    return build_call(
        StellarAddress(ACCOUNT), NETWORK.stellar.passphrase, 7, invocation, Stroops(100), bounds
    )


def submitted(conn: Connection, transfer: str, envelope: TransactionEnvelope, outcome: str) -> str:
    """What its owner signed, of which the relay says how it ended; its hash."""
    tx: str = envelope.hash_hex()
    row = {"transfer": transfer, "tx_hash": tx, "log": 0, "kind": "stellar_tx"}
    raw = envelope.to_xdr_object().to_xdr_bytes()
    conn.execute(insert(submissions).values(row | {"signed": raw}))
    closed = {"key": tx, "outcome": outcome, "spent": 0, "closed_at": func.now()}
    signed(conn, PUBNET, "submit", transfer, f"bump of {tx}", **closed)
    notify_intake(conn, transfer)
    return tx


@pytest.mark.parametrize(
    ("function", "outcome", "is_dead", "stage"),
    [
        ("approve", "confirmed", True, "AWAITING_SIGNATURE"),
        # Its ledger may be in quarantine: that nothing tells of a burn is no reason to ask for one.
        ("deposit_for_burn_with_hook", "confirmed", False, "SUBMITTED"),
        ("deposit_for_burn_with_hook", "reverted", True, "AWAITING_SIGNATURE"),
    ],
)
def test_applied_burn_is_signed_once(
    connection: Connection, function: str, outcome: str, is_dead: bool, stage: str
):
    ask(connection, WITHDRAWAL)
    tx = submitted(connection, WITHDRAWAL.id, call(function), outcome)
    [loaded] = load_transfers(connection, NETWORK, [WITHDRAWAL.id])
    assert loaded.inputs.dead == ({tx, f"bump of {tx}"} if is_dead else set())
    assert fold_transfer(loaded.inputs).stage == stage


def test_applied_payment_is_made_once(connection: Connection):
    ask(connection, SEND)
    submitted(connection, SEND.id, call("transfer"), "confirmed")
    [loaded] = load_transfers(connection, NETWORK, [SEND.id])
    assert loaded.inputs.dead == set()
    assert fold_transfer(loaded.inputs).stage == "SUBMITTED"
