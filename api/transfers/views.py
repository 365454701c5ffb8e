"""`/v1/transfers`: start one, see it, list them, call one off."""

from flask import Blueprint, request
from sqlalchemy import Connection

from api.auth.owner import owner, owner_only
from api.deps import deps, snapshot
from api.parsing import read_body, read_query
from api.responses import iso_microseconds
from api.transfers import schema
from api.transfers.access import OwnedTransferId, access_transfer, list_transfers
from api.transfers.details import load_details, new_transfer_details
from api.transfers.requests import NewTransfer, read_key, read_page
from api.transfers.responses import transfer_response
from api.transfers.store import NewTransferTerms, cancel_transfer, make_transfer

transfers = Blueprint("transfers", __name__)
transfers.before_request(owner_only)


@transfers.post("/v1/transfers")
def start() -> tuple[schema.Transfer, int]:
    """Start a transfer of a quote, once however often it is asked for."""
    key, asked = read_key(request.headers.get("Idempotency-Key")), read_body(NewTransfer)
    with deps().engine.begin() as conn:
        made = make_transfer(conn, _terms(), owner(), key, asked)
        if made.is_new:
            return transfer_response(deps().network, new_transfer_details(conn, made.id)), 201
        return _shown(conn, made.id), 200


@transfers.get("/v1/transfers")
def show_page() -> schema.TransferList:
    """The owner's transfers, newest first."""
    page = read_page(read_query({"before", "limit"}))
    with snapshot() as conn:
        ids, following = list_transfers(conn, owner(), page)
        shown = [
            transfer_response(deps().network, each)
            for each in load_details(conn, deps().network, ids)
        ]
    return {
        "transfers": shown,
        "next_before": None if following is None else iso_microseconds(following),
    }


@transfers.get("/v1/transfers/<transfer>")
def show(transfer: str) -> schema.Transfer:
    """Where a transfer is."""
    with snapshot() as conn:
        return _shown(conn, access_transfer(conn, owner(), transfer))


@transfers.post("/v1/transfers/<transfer>/cancel")
def cancel(transfer: str) -> schema.Transfer:
    """Call a transfer off, while nothing irreversible has happened."""
    with deps().engine.begin() as conn:
        mine = access_transfer(conn, owner(), transfer)
        cancel_transfer(conn, deps().network, mine)
        return _shown(conn, mine)


def _shown(conn: Connection, transfer: OwnedTransferId) -> schema.Transfer:
    """As of this very transaction."""
    [found] = load_details(conn, deps().network, [transfer])
    return transfer_response(deps().network, found)


def _terms() -> NewTransferTerms:
    held = deps()
    return NewTransferTerms(held.network, held.transfer_seconds)
