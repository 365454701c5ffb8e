"""`/v1/transfers`."""

from datetime import datetime

from flask import Blueprint, request
from sqlalchemy import Connection

from api.auth.owner import owner, owner_only
from api.deps import deps
from api.operation import LIMIT, NO_STORE, TRANSFER_ID, operation
from api.parsing import read_body, read_query
from api.reads import POSITION, read_recent
from api.responses import iso_microseconds
from api.transfers import schema
from api.transfers.access import access_transfer, list_transfers
from api.transfers.details import TransferDetails, load_details
from api.transfers.requests import (
    BEFORE,
    IDEMPOTENCY_KEY,
    NewTransfer,
    read_idempotency_key,
    read_page,
)
from api.transfers.responses import load_transfer_response, transfer_response
from api.transfers.store import cancel_transfer, create_transfer

transfers = Blueprint("transfers", __name__)
transfers.before_request(owner_only)


@transfers.post("/v1/transfers")
@operation(
    "startTransfer",
    "Transfers",
    {201: "The new transfer.", 200: "The existing transfer of this key."},
    headers=(NO_STORE,),
    parameters=(IDEMPOTENCY_KEY,),
    body=NewTransfer,
    refusals=(
        *("BAD_BODY", "BAD_IDEMPOTENCY_KEY", "QUOTE_NOT_FOUND", "QUOTE_USED", "QUOTE_EXPIRED"),
        *("UNSUPPORTED_MEDIA_TYPE", "IDEMPOTENCY_KEY_REUSED"),
        *("DAILY_LIMIT", "OUTSTANDING_LIMIT", "CHAIN_UNAVAILABLE"),
    ),
)
def start() -> tuple[schema.Transfer, int]:
    """Start a transfer of a quote.

    A key makes one transfer. Repeat the request with the same key after a lost answer: it returns
    the transfer, even if the quote has expired, a limit is reached or a chain is down.
    """
    key = read_idempotency_key(request.headers.get("Idempotency-Key"))
    body = read_body(NewTransfer)
    network, seconds = deps().network, deps().transfer_seconds
    with deps().engine.begin() as conn:
        created = create_transfer(conn, network, seconds, owner(), key, body)
        if isinstance(created, TransferDetails):
            return transfer_response(network, created), 201
        return load_transfer_response(conn, network, created), 200


@transfers.get("/v1/transfers")
@operation(
    "listTransfers",
    "Transfers",
    {200: "A page of transfers."},
    headers=(NO_STORE,),
    parameters=(BEFORE, LIMIT, POSITION),
    refusals=("BAD_CURSOR", "BAD_LIMIT", "UNKNOWN_PARAMETER"),
)
def show_page() -> schema.TransferList:
    """Your transfers, newest first."""
    page = read_page(read_query({"before", "limit"}))
    network = deps().network

    def read(conn: Connection) -> tuple[list[schema.Transfer], datetime | None]:
        ids, next_before = list_transfers(conn, owner(), page)
        loaded = load_details(conn, network, ids)
        return [transfer_response(network, each) for each in loaded], next_before

    shown, next_before = read_recent(read)
    return {
        "transfers": shown,
        "next_before": None if next_before is None else iso_microseconds(next_before),
    }


@transfers.get("/v1/transfers/<transfer>")
@operation(
    "showTransfer",
    "Transfers",
    {200: "The transfer."},
    headers=(NO_STORE,),
    parameters=(TRANSFER_ID, POSITION),
    refusals=("TRANSFER_NOT_FOUND",),
)
def show(transfer: str) -> schema.Transfer:
    """State of a transfer."""

    def read(conn: Connection) -> schema.Transfer:
        owned = access_transfer(conn, owner(), transfer)
        return load_transfer_response(conn, deps().network, owned)

    return read_recent(read)


@transfers.post("/v1/transfers/<transfer>/cancel")
@operation(
    "cancelTransfer",
    "Transfers",
    {200: "The cancelled transfer."},
    headers=(NO_STORE,),
    parameters=(TRANSFER_ID,),
    refusals=("TRANSFER_NOT_FOUND", "NOT_CANCELLABLE"),
)
def cancel(transfer: str) -> schema.Transfer:
    """Cancel a transfer, before anything irreversible happened.

    Later payments are refunded.
    """
    with deps().engine.begin() as conn:
        owned = access_transfer(conn, owner(), transfer)
        cancel_transfer(conn, deps().network, owned)
        return load_transfer_response(conn, deps().network, owned)
