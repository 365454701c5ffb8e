"""Requests that start transfers, and the quotes that they are made of, with good defaults."""

from datetime import timedelta
from itertools import count
from typing import Any

from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import Connection, Engine, func, insert, select
from werkzeug.test import TestResponse

from indexer.config.networks import load_network
from tests.factories.app import make_app
from tests.factories.projections import STELLAR, address
from tests.factories.quotes import EVM, SEPOLIA, asking
from tests.factories.tokens import ACCOUNT, make_tokens
from warehouse_schema.intake import quotes, transfers

PATH = "/v1/transfers"
KEY = "0a6c4f2e-9a3d-4e2b-8f00-5d8f3a1c7b21"
NETWORK = load_network("testnet")
USDC = f"{SEPOLIA}/erc20:{NETWORK.evm[0].usdc}"
NOBODY = address(44)
FEE = {"total": "1560", "asset": USDC, "details": [], "native_details": [], "operator_details": []}
_numbers = count(1)


def make_transfer_app(engine: Engine, **others: Any) -> Flask:
    """An app that knows our tokens."""
    return make_app(engine, tokens=make_tokens(), **others)


def insert_quote(conn: Connection, *, seconds: int = 300, **changes: Any) -> str:
    """A quote of a deposit of 10 USDC from Sepolia, good for so many seconds more; its id."""
    row = {
        "id": f"{next(_numbers):032x}",
        "owner": ACCOUNT,
        "route": "usdc-deposit",
        "mechanism": "cctp",
        "funding_mode": "direct",
        "source_chain": SEPOLIA,
        "source_asset": USDC,
        "source_token": USDC.rpartition(":")[2],
        "source_address": EVM,
        "dest_chain": STELLAR,
        "dest_asset": NETWORK.stellar.usdc,
        "dest_address": ACCOUNT,
        "amount_in": 10_000_000,
        "amount_out": 99_984_400,
        "min_refund": 1_000_000,
        "finality_threshold": 1000,
        "native_fee": None,
        "fee": FEE,
        "created_at": func.now() - timedelta(seconds=600),
        "expires_at": func.now() + timedelta(seconds=seconds),
        **changes,
    }
    conn.execute(insert(quotes).values(row))
    return row["id"]


def payment(**changes: Any) -> dict[str, Any]:
    """The changes that make a payment of 10 USDC on Stellar of it."""
    return {
        "route": "usdc-send",
        "mechanism": "payment",
        "funding_mode": None,
        "source_chain": STELLAR,
        "source_asset": NETWORK.stellar.usdc,
        "source_token": NETWORK.stellar.usdc_contract,
        "source_address": ACCOUNT,
        "dest_address": NOBODY,
        "amount_in": 100_000_000,
        "amount_out": 100_000_000,
        "min_refund": 1,
        "finality_threshold": None,
        **changes,
    }


def insert_transfer(conn: Connection, *, ago: int = 60, **changes: Any) -> str:
    """A transfer that was started so many seconds ago, of a quote with these changes; its id."""
    quote = insert_quote(conn, **changes)
    started = func.now() - timedelta(seconds=ago)
    row = {
        "id": quote,
        "quote": quote,
        "owner": changes.get("owner", ACCOUNT),
        "idempotency_key": f"key of {quote}",
        "fingerprint": "f" * 64,
        "started_at": started,
        "expires_at": started + timedelta(seconds=1_800),
    }
    conn.execute(insert(transfers).values(row))
    return quote


def start(
    client: FlaskClient, quote: str, key: str | None = None, account: str = ACCOUNT
) -> TestResponse:
    """A request to start a transfer, with a key of its own unless one is given."""
    headers = {**asking(account), "Idempotency-Key": key or f"key-{next(_numbers)}"}
    return client.post(PATH, json={"quote_id": quote}, headers=headers)


def show(client: FlaskClient, transfer: str, account: str = ACCOUNT) -> TestResponse:
    """A request for one."""
    return client.get(f"{PATH}/{transfer}", headers=asking(account))


def cancel(client: FlaskClient, transfer: str, account: str = ACCOUNT) -> TestResponse:
    """A request to call one off."""
    return client.post(f"{PATH}/{transfer}/cancel", headers=asking(account))


def how_many(conn: Connection) -> int:
    """Transfers that there are."""
    return conn.scalar(select(func.count()).select_from(transfers)) or 0
