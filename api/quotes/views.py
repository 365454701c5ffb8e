"""`POST /v1/quotes`."""

from flask import Blueprint

from api.auth.owner import owner, owner_only
from api.availability import require_healthy_chains, require_relay
from api.deps import deps, snapshot
from api.operation import NO_STORE, operation
from api.parsing import read_body
from api.quotes import schema
from api.quotes.pricing import price_transfer, with_sponsor
from api.quotes.recipients import missing_trustline, require_payable_recipient
from api.quotes.requests import NewQuote, read_quote_request
from api.quotes.responses import fee_response, quote_response
from api.quotes.store import store_quote
from indexer.facts.status import chain_status_on

quotes = Blueprint("quotes", __name__)
quotes.before_request(owner_only)


@quotes.post("/v1/quotes")
@operation(
    "createQuote",
    "Transfers",
    {201: "The quote."},
    headers=(NO_STORE,),
    body=NewQuote,
    refusals=(
        *("BAD_BODY", "BAD_ROUTE", "BAD_CHAIN", "BAD_AMOUNT", "AMOUNT_OUT_OF_LIMITS"),
        *("BAD_SOURCE_ADDRESS", "BAD_DEST_ADDRESS", "BAD_FUNDING_MODE"),
        *("NOT_THE_OWNER", "UNSUPPORTED_MEDIA_TYPE", "RECIPIENT_REFUSED"),
        *("CHAIN_UNAVAILABLE", "FEES_UNAVAILABLE", "LEDGER_UNAVAILABLE"),
    ),
)
def create_quote() -> tuple[schema.Quote, int]:
    """Price a transfer.

    `buy_amount` is the minimum that arrives, and `fee` the maximum that is charged: the
    transaction that the owner signs contains both. A quote is valid for one transfer of its
    owner, until `expires_at`.
    """
    network = deps().network
    request = read_quote_request(read_body(NewQuote), network, owner())
    source, dest = request.source.chain, request.dest.chain
    what = "no transfer over it can be quoted"
    with snapshot() as conn:
        require_healthy_chains(network, chain_status_on(conn, network), (source, dest), what)
        require_relay(conn, request.route.mechanism, source, dest, request.funding_mode, what)
    require_payable_recipient(request)
    needs_trustline = missing_trustline(request)
    price = price_transfer(request, deps().fees)
    if needs_trustline is not None and needs_trustline["sponsored"]:
        price = with_sponsor(price, dest, is_new=needs_trustline["creates_account"])
    fee = fee_response(request, price)
    stored = store_quote(deps().engine, network, request, price, fee, deps().quote_seconds)
    return quote_response(stored, request, price, fee, needs_trustline), 201
