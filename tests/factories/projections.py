"""Rows of `projections` (and cursors) with good defaults: name what the test is about.

Amounts are given in USDC or fiat units as text or int (`"12.5"`) and stored as 7-decimal integers.
"""

from datetime import date
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, insert, text
from stellar_sdk import StrKey

from warehouse_schema import daily, facts, projections, relay

STELLAR = "stellar:testnet"
LEDGER = 1_234_567
CLOSE_TIME = 1_795_248_000
"""2026-11-21T08:00:00Z."""


def address(number: int) -> str:
    """A valid `G…` account for each small number."""
    return StrKey.encode_ed25519_public_key(bytes([number]) * 32)


def contract(number: int) -> str:
    """A valid `C…` contract for each small number."""
    return StrKey.encode_contract(bytes([number]) * 32)


PROVIDER = address(1)
TAKER = address(2)


def units(amount: int | str) -> int:
    """Whole or decimal units to a 7-decimal integer."""
    return int(Decimal(amount) * 10**7)


def insert_book(connection: Connection, **fields: Any) -> None:
    """The book's clock and totals, as of `LEDGER`."""
    row = {
        "chain": STELLAR,
        "as_of_ledger": LEDGER,
        "as_of": CLOSE_TIME,
        "token": contract(1),
        "rail_terms": contract(2),
        "fee_to": address(9),
        "order_ttl": 86_400,
        "bond_bps": 10_000,
        "max_open": 50,
        "opens_paused": False,
        "all_paused": False,
        "total_available": 0,
        "total_locked": 0,
        "offer_count": 0,
        **fields,
    }
    connection.execute(
        insert(projections.book).values(_in_units(row, "total_available total_locked"))
    )


def insert_rail(connection: Connection, rail: str = "revolut", **fields: Any) -> None:
    """An enabled rail in US dollars and euros."""
    row = {
        "rail": rail,
        "enabled": True,
        "tier": 1,
        "fee_bps": 20,
        "verifier": contract(3),
        "currencies": ["EUR", "USD"],
        **fields,
    }
    connection.execute(insert(projections.rails).values(row))


def insert_terms(connection: Connection, **fields: Any) -> None:
    """Onramp terms of `PROVIDER`."""
    row = {
        "provider": PROVIDER,
        "direction": "onramp",
        "rail": "revolut",
        "currency": "EUR",
        "rate": "0.93",
        "min": 10,
        "max": 500,
        **fields,
    }
    connection.execute(insert(projections.terms).values(_in_units(row, "rate min max")))


def insert_payee(connection: Connection, **fields: Any) -> None:
    """A registered payee of `PROVIDER` whose handle is not published."""
    row = {
        "provider": PROVIDER,
        "rail": "revolut",
        "payee_hash": "0x" + "ab" * 32,
        "handle": None,
        **fields,
    }
    connection.execute(insert(projections.payees).values(row))


def insert_provider(connection: Connection, provider: str = PROVIDER, **fields: Any) -> None:
    """A provider with 1000 USDC free and no history."""
    row = {
        "provider": provider,
        "paused": False,
        "free": 1000,
        "locked": 0,
        "reclaimable": 0,
        "pseq": 1,
        "tseq": 1,
        "active_orders": 0,
        "completed_orders": 0,
        "fulfillment_seconds": 0,
        "last_active_at": CLOSE_TIME - 60,
        "stale": None,
        **fields,
    }
    connection.execute(
        insert(projections.providers).values(_in_units(row, "free locked reclaimable"))
    )


def insert_offer(connection: Connection, **fields: Any) -> None:
    """An onramp offer of `PROVIDER` on one rail, for 10 to 500 USDC."""
    row = {
        "provider": PROVIDER,
        "direction": "onramp",
        "currency": "EUR",
        "rails": ["revolut"],
        "rate": "0.93",
        "min": 10,
        "max": 500,
        "available": 1000,
        "locked": 0,
        "tier": 1,
        "fee_bps": 20,
        "handles": {},
        "completed_orders": 0,
        "avg_fulfillment_seconds": 0,
        "last_active_at": CLOSE_TIME - 60,
        **fields,
    }
    connection.execute(
        insert(projections.offers).values(_in_units(row, "rate min max available locked"))
    )


def insert_depth(connection: Connection, rail: str, available: int | str, offers: int) -> None:
    """Depth of one rail."""
    row = {"rail": rail, "available": units(available), "offer_count": offers}
    connection.execute(insert(projections.depth).values(row))


ORDER_ID = "0x" + "1f" * 32
OPEN_TX = "a0" * 32
END_TX = "b1" * 32
NULLIFIER = "0x" + "c2" * 32


def insert_order(connection: Connection, **fields: Any) -> None:
    """An active onramp order of `TAKER` with `PROVIDER`."""
    row = {
        "order_id": ORDER_ID,
        "provider": PROVIDER,
        "taker": TAKER,
        "direction": "onramp",
        "rail": "revolut",
        "currency": "EUR",
        "amount": 25,
        "rate": "0.93",
        "fiat_amount": "23.25",
        "lp_lock": 25,
        "taker_lock": 0,
        "payee_hash": "0x" + "ab" * 32,
        "tier": 1,
        "fee_bps": 20,
        "created_at": CLOSE_TIME - 600,
        "expires_at": CLOSE_TIME + 85_800,
        "status": "active",
        "chain_status": "open",
        "open_tx": OPEN_TX,
        **fields,
    }
    amounts = "amount rate fiat_amount lp_lock taker_lock"
    connection.execute(insert(projections.orders).values(_in_units(row, amounts)))


def fulfilled(**fields: Any) -> dict[str, Any]:
    """What `insert_order` needs beside its defaults for an order that a proof settled."""
    return {
        "status": "fulfilled",
        "chain_status": "fulfilled",
        "end_tx": END_TX,
        "ended_at": CLOSE_TIME - 300,
        "claim": "proof",
        "nullifier": NULLIFIER,
        "released": units(25),
        "fee": units("0.05"),
        "net": units("24.95"),
        "recipient": TAKER,
        **fields,
    }


def insert_market_day(connection: Connection, day: date, **fields: Any) -> None:
    """A closed day of a market, on which one of two orders settled."""
    row = {
        "day": day,
        "direction": "onramp",
        "rail": "revolut",
        "currency": "EUR",
        "opened": 2,
        "opened_amount": 45,
        "fulfilled": 1,
        "cancelled": 0,
        "expired": 0,
        "released": 25,
        "fee": "0.05",
        "fiat": "23.25",
        "partial": 0,
        "manual": 0,
        "fulfillment_seconds": 300,
        **fields,
    }
    amounts = "opened_amount released fee" + (" fiat" if row["fiat"] is not None else "")
    connection.execute(insert(daily.market_days).values(_in_units(row, amounts)))


def insert_day_done(connection: Connection, day: date) -> None:
    """The order book's figures of the day are computed."""
    row = {"figure": "book", "day": day, "version": 1}
    connection.execute(insert(daily.days_done).values(row))


def insert_reconciliation(connection: Connection, *, age_seconds: int = 0) -> None:
    """A look at the money that found it to add up, so long ago by the database's clock."""
    flow = {
        "mechanism": "cctp",
        "source_chain": "eip155:11155111",
        "dest_chain": STELLAR,
        "sent": {"count": 3, "amount": "45000000"},
        "delivered": {"count": 2, "amount": "24999000"},
        "fees": "1000",
        "on_the_way": {"count": 1, "amount": "20000000"},
        "unexplained": {"count": 0, "amount": "0"},
    }
    row = {
        "at": text(f"now() - interval '{age_seconds} seconds'"),
        "flows": [flow],
        "stages": {"ATTESTING": 1, "AWAITING_SIGNATURE": 2},
        "findings": [],
    }
    connection.execute(insert(projections.reconciliation).values(row))


def insert_cursor(
    connection: Connection,
    chain: str = STELLAR,
    *,
    idle_seconds: int = 0,
    relayed: bool = True,
    **fields: Any,
) -> None:
    """A chain that is at its head and moved `idle_seconds` ago by the database's clock, and on
    which the relay is well, if it is `relayed`."""
    row = {
        "chain": chain,
        "height": LEDGER,
        "block_hash": "dd" * 32,
        "block_time": CLOSE_TIME,
        "head_height": LEDGER,
        "head_time": CLOSE_TIME,
        "held": None,
        "updated_at": text(f"now() - interval '{idle_seconds} seconds'"),
        **fields,
    }
    connection.execute(insert(facts.cursors).values(row))
    if relayed:
        insert_sender(connection, chain)
    if relayed and chain.startswith("stellar:"):
        insert_sender(connection, chain, account="submissions", duty="submit")


def insert_sender(
    connection: Connection, chain: str, *, silent_seconds: int = 0, **fields: Any
) -> None:
    """An account of the relay that is well, and said so `silent_seconds` ago."""
    row = {
        "chain": chain,
        "account": f"relay on {chain}",
        "duty": "deliver",
        "well": True,
        "reason": None,
        "balance": 10**18,
        "spent_today": 0,
        "budget": 10**17,
        "floor": 10**16,
        "open": 0,
        "seen_at": text(f"now() - interval '{silent_seconds} seconds'"),
        "problem": "node" if fields.get("reason") else None,
        **fields,
    }
    connection.execute(insert(relay.health).values(row))


def _in_units(row: dict[str, Any], amounts: str) -> dict[str, Any]:
    return row | {name: units(row[name]) for name in amounts.split()}
