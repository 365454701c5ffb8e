"""The one door to an owner's transfer: no other query of the api takes a transfer's id for good."""

import re

from sqlalchemy import Connection, select

from api.errors import NotFound
from warehouse_schema.identifiers import StellarAddress
from warehouse_schema.intake import transfers

_ID = re.compile(r"[0-9a-f]{32}")


def access_transfer(conn: Connection, owner: StellarAddress, transfer: str) -> str:
    """The id, if it is one of this owner's. Raises `NotFound`, whoever else may have it."""
    columns = transfers.c
    query = select(columns.id).where(columns.id == transfer, columns.owner == owner)
    if not _ID.fullmatch(transfer) or conn.scalar(query) is None:
        raise NotFound("you have no such transfer", code="TRANSFER_NOT_FOUND")
    return transfer
