"""`/v1/transfers`."""

from flask import Blueprint, request

from api.auth.owner import owner, owner_only
from api.deps import deps, snapshot
from api.parsing import read_body, read_query
from api.responses import iso_microseconds
from api.transfers import schema
from api.transfers.access import access_transfer, list_transfers
from api.transfers.details import load_details, new_transfer_details
from api.transfers.requests import NewTransfer, read_idempotency_key, read_page
from api.transfers.responses import load_transfer_response, transfer_response
from api.transfers.store import cancel_transfer, create_transfer

transfers = Blueprint("transfers", __name__)
transfers.before_request(owner_only)


@transfers.post("/v1/transfers")
def start() -> tuple[schema.Transfer, int]:
    """Create a transfer of a quote, once per idempotency key."""
    key = read_idempotency_key(request.headers.get("Idempotency-Key"))
    body = read_body(NewTransfer)
    network, seconds = deps().network, deps().transfer_seconds
    with deps().engine.begin() as conn:
        created = create_transfer(conn, network, seconds, owner(), key, body)
        if created.is_new:
            return transfer_response(network, new_transfer_details(conn, created.id)), 201
        return load_transfer_response(conn, network, created.id), 200


@transfers.get("/v1/transfers")
def show_page() -> schema.TransferList:
    """The owner's transfers, newest first."""
    page = read_page(read_query({"before", "limit"}))
    network = deps().network
    with snapshot() as conn:
        ids, next_before = list_transfers(conn, owner(), page)
        shown = [transfer_response(network, each) for each in load_details(conn, network, ids)]
    return {
        "transfers": shown,
        "next_before": None if next_before is None else iso_microseconds(next_before),
    }


@transfers.get("/v1/transfers/<transfer>")
def show(transfer: str) -> schema.Transfer:
    """A transfer."""
    with snapshot() as conn:
        owned = access_transfer(conn, owner(), transfer)
        return load_transfer_response(conn, deps().network, owned)


@transfers.post("/v1/transfers/<transfer>/cancel")
def cancel(transfer: str) -> schema.Transfer:
    """Cancel a transfer, while nothing irreversible has happened."""
    with deps().engine.begin() as conn:
        owned = access_transfer(conn, owner(), transfer)
        cancel_transfer(conn, deps().network, owned)
        return load_transfer_response(conn, deps().network, owned)
