"""Rows of the relay, as it writes them."""

from typing import Any

from sqlalchemy import Connection, func, insert, select

from warehouse_schema.relay import attempts, slots

OPERATOR = "0x" + "0e" * 20


def signed(
    conn: Connection, chain: str, purpose: str, subject: str, tx_hash: str, **changes: Any
) -> None:
    """A transaction that the relay signed and has not sent so far; of a slot of its own."""
    numbers = select(func.count()).select_from(slots).where(slots.c.chain == chain)
    place = {"chain": chain, "account": OPERATOR, "number": conn.scalar(numbers)}
    what = {"purpose": purpose, "subject": subject}
    conn.execute(insert(slots).values(place | what | {"key": subject} | changes))
    attempt = {"tx_hash": tx_hash, "signed": b"", "most_cost": 10**15}
    conn.execute(insert(attempts).values(place | what | attempt))
