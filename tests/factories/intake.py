"""Rows of clients, as the api writes them."""

from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, func, insert, select

from indexer.transfers.inputs import TransferTerms
from warehouse_schema import channels, intake
from warehouse_schema.notifications import queue_notifications

OPERATOR = "0x90f79bf6eb2c4f870365e785982e1f101e93b906"
ROUTES = {"cctp": "usdc-deposit", "oft": "usdt0-deposit", "payment": "usdc-send"}


def ask(conn: Connection, terms: TransferTerms, **changes: Any) -> TransferTerms:
    """Quote and transfer of these terms, whose times are those of the terms."""
    number = conn.scalar(select(func.count()).select_from(intake.transfers))
    quote: dict[str, Any] = {
        "id": f"quote of {terms.id}",
        "owner": terms.owner,
        "route": ROUTES[terms.mechanism],
        "mechanism": terms.mechanism,
        "funding_mode": None if terms.deposit_address is None else "deposit_address",
        "source_chain": terms.source_chain,
        "source_asset": f"{terms.source_chain}/asset",
        "source_token": terms.source_token,
        "source_address": terms.source_address,
        "dest_chain": terms.dest_chain,
        "dest_asset": f"{terms.dest_chain}/asset",
        "dest_address": terms.dest_address,
        "amount_in": terms.amount_in,
        "amount_out": terms.amount_in,
        "min_refund": terms.min_refund,
        "fee": {},
        "expires_at": func.now() + timedelta(minutes=5),
    }
    conn.execute(insert(intake.quotes).values(quote))
    transfer = {
        "id": terms.id,
        "quote": quote["id"],
        "owner": terms.owner,
        "idempotency_key": f"key {number}",
        "fingerprint": "f" * 64,
        "deposit_address": terms.deposit_address,
        "deposit_operator": None if terms.deposit_address is None else OPERATOR,
        "started_at": moment(terms.started_at, number or 0),
        "expires_at": moment(terms.expires_at),
    }
    conn.execute(insert(intake.transfers).values(transfer | changes))
    notify_intake(conn, terms.id)
    return terms


def moment(seconds: int, microseconds: int = 0) -> Any:
    """A time of the database, from unix seconds."""
    return func.to_timestamp(seconds) + timedelta(microseconds=microseconds)


def cancel(conn: Connection, terms: TransferTerms, at: int) -> None:
    row = {"transfer": terms.id, "cancelled_at": moment(at)}
    conn.execute(insert(intake.cancellations).values(row))
    notify_intake(conn, terms.id)


def submit(conn: Connection, terms: TransferTerms, tx: str, at: int, log: int = 0) -> None:
    """An EVM transaction."""
    row = {
        "transfer": terms.id,
        "tx_hash": tx,
        "log": log,
        "kind": "evm_tx",
        "submitted_at": moment(at),
    }
    conn.execute(insert(intake.submissions).values(row))
    notify_intake(conn, terms.id)


def notify_intake(conn: Connection, transfer: str) -> None:
    """What a writer of intake says."""
    queue_notifications(conn, channels.INTAKE, [transfer])
