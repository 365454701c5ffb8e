"""The one door to an owner's transfer: no other query of the api takes a transfer's id for good."""

from sqlalchemy import Connection, select

from api.errors import NotFound
from api.parsing import canonical_hex
from warehouse_schema.identifiers import StellarAddress
from warehouse_schema.intake import transfers


def access_transfer(conn: Connection, owner: StellarAddress, transfer: str) -> str:
    """The id, if it is one of this owner's. Raises `NotFound`, whoever else may have it."""
    columns = transfers.c
    found = canonical_hex(transfer, 32)
    query = select(columns.id).where(columns.id == found, columns.owner == owner)
    if found is None or conn.scalar(query) is None:
        raise NotFound("you have no such transfer", code="TRANSFER_NOT_FOUND")
    return found
