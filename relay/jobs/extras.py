"""Extra movements: burns with a transfer's id that pay its recipient beside what was agreed.

Anybody can copy an id, and each delivery costs the relay a fee. So extras are delivered while the
daily limit of the transfer's owner has room for them; the rest waits, with its attested message
shown to the owner, for anybody to deliver or for the next day.
"""

from collections.abc import Iterable
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


def within_limits(conn: Connection, extras: Iterable[Row[Any]]) -> list[Row[Any]]:
    """Those that their owners' daily limits have room for, each alone, and all that are signed for.

    Rows have `owner`, `source_chain`, `amount_in` and `is_signed`.
    """
    rows = list(extras)
    room = daily_room(conn, {each.owner for each in rows})
    return [each for each in rows if each.is_signed or _amount(each) <= room[each.owner]]


def reject_extra(conn: Connection, transfer: str, nonce: str) -> str | None:
    """Why an extra must not be signed for now; None for what is none.

    Holds the owner's lock until commit, so that accounts of several chains share one limit. Waits
    for nobody: the api's role can hold it, too.
    """
    extra = conn.execute(_EXTRA, {"transfer": transfer, "nonce": nonce}).one_or_none()
    if extra is None:
        return None
    owner = func.hashtext(extra.owner)
    if not conn.scalar(select(func.pg_try_advisory_xact_lock(locks.OWNER, owner))):
        return "an extra movement whose owner's limit is being counted by another process"
    room = daily_room(conn, [extra.owner])[extra.owner]
    if _amount(extra) <= room:
        return None
    return "an extra movement that the owner's daily limit has no room for"


def _amount(extra: Row[Any]) -> int:
    return units(extra.source_chain, int(extra.amount_in))
