"""Daily limits of extra movements, which anyone can cause by copying a transfer's id.

Each delivery costs the relay a fee. Extras beyond the daily limit of the transfer's owner wait for
the next day; the owner sees the attested message, and anyone may deliver it.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, func, select, text

from indexer.policy.limits import daily_room, units
from warehouse_schema import locks

_EXTRA = text("""
    SELECT t.owner, p.source_chain, p.amount_in
    FROM projections.transfer_states s
    JOIN intake.transfers t ON t.id = s.transfer
    JOIN projections.movements p
        ON p.id = ANY(s.extras) AND p.mechanism = 'cctp' AND p.message_id = :nonce
    WHERE s.transfer = :transfer
""")


def within_limits(conn: Connection, extras: Sequence[Row[Any]]) -> list[Row[Any]]:
    """Extras that each fit their owner's daily limit alone, and all with a signed delivery.

    Rows have `owner`, `source_chain`, `amount_in` and `is_signed`.
    """
    room = daily_room(conn, {row.owner for row in extras})
    return [
        row
        for row in extras
        if row.is_signed or units(row.source_chain, int(row.amount_in)) <= room[row.owner]
    ]


def reject_extra(conn: Connection, transfer: str, nonce: str) -> str | None:
    """Reason why an extra must not be signed for now; None also for a message that is no extra.

    Holds the owner's lock until commit, so that accounts of several chains share one limit. Does
    not wait for it, because the api's role can hold it, too.
    """
    extra = conn.execute(_EXTRA, {"transfer": transfer, "nonce": nonce}).one_or_none()
    if extra is None:
        return None
    owner = func.hashtext(extra.owner)
    if not conn.scalar(select(func.pg_try_advisory_xact_lock(locks.OWNER, owner))):
        return "an extra movement whose owner's limit is being counted by another process"
    room = daily_room(conn, [extra.owner])[extra.owner]
    if units(extra.source_chain, int(extra.amount_in)) <= room:
        return None
    return "an extra movement that the owner's daily limit has no room for"
