"""Ownership of transfers: the queries that return an `OwnedTransferId`.

Ownership comes from `intake.transfers`, never from derived rows. Every other query about an
owner's transfer takes an `OwnedTransferId`.
"""

from datetime import datetime
from typing import NewType

from sqlalchemy import Connection, Text, bindparam, func, select

from api.errors import NotFound
from api.parsing import canonical_hex
from api.transfers.requests import TransferPageRequest
from indexer.logs import add_log_context
from warehouse_schema import locks
from warehouse_schema.identifiers import StellarAddress
from warehouse_schema.intake import transfers

OwnedTransferId = NewType("OwnedTransferId", str)
"""Id of a transfer that a query by its owner has returned."""
_LOCK = select(
    func.pg_advisory_xact_lock(locks.OWNER, func.hashtext(bindparam("owner", type_=Text)))
)


def lock_owner(conn: Connection, owner: StellarAddress) -> None:
    """Until commit, no other request starts a transfer or registers a webhook of the owner."""
    conn.execute(_LOCK, {"owner": owner})


def access_transfer(conn: Connection, owner: StellarAddress, transfer: str) -> OwnedTransferId:
    """The id as stored. Raises `NotFound`, also for a transfer of another owner."""
    transfer_id = canonical_hex(transfer, 32)
    query = select(transfers.c.id).where(transfers.c.id == transfer_id, transfers.c.owner == owner)
    if transfer_id is None or conn.scalar(query) is None:
        raise NotFound("you have no such transfer", code="TRANSFER_NOT_FOUND")
    add_log_context(transfer=transfer_id)
    return OwnedTransferId(transfer_id)


def list_transfers(
    conn: Connection, owner: StellarAddress, page: TransferPageRequest
) -> tuple[list[OwnedTransferId], datetime | None]:
    """Ids of a page, newest first, and the `before` of the next page; None after the last."""
    columns = transfers.c
    query = select(columns.id, columns.started_at).where(columns.owner == owner)
    if page.before is not None:
        query = query.where(columns.started_at < page.before)
    query = query.order_by(columns.started_at.desc()).limit(page.limit + 1)
    rows = conn.execute(query).all()
    shown = rows[: page.limit]
    next_before = shown[-1].started_at if len(rows) > len(shown) else None
    return [OwnedTransferId(row.id) for row in shown], next_before
