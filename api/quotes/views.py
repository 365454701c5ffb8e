"""`POST /v1/quotes`."""

from flask import Blueprint

from api.auth.owner import owner, owner_only
from api.availability import require_healthy_chains, require_relay
from api.deps import deps, snapshot
from api.errors import BadRequest, FeesUnavailable
from api.operation import NO_STORE, operation
from api.parsing import read_body
from api.ports import FeeSource
from api.quotes import schema
from api.quotes.pricing import (
    Price,
    burn_price,
    payment_price,
    send_price,
    with_deposit_address,
    with_sponsor,
)
from api.quotes.recipients import require_payable_recipient
from api.quotes.requests import NewQuote, QuoteRequest, read_quote_request
from api.quotes.responses import fee_response, quote_response
from api.quotes.store import store_quote
from api.trustlines import NeededTrustline, needed_trustline
from indexer.addresses import account_as_bytes32, evm_as_bytes32
from indexer.facts.status import chain_status_on
from indexer.movements.fold import STELLAR_PER_SHARED
from indexer.policy.sponsorship import SponsorshipRequest
from warehouse_schema.identifiers import AssetId, BaseUnits, EvmAddress, StellarAddress, is_evm

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
    """What a transfer costs, promised for some minutes.

    `buy_amount` is the least that arrives, and `fee` the most that it costs: the transaction
    that is signed for it says both. A quote is good for one transfer of its owner, until
    `expires_at`.
    """
    network = deps().network
    request = read_quote_request(read_body(NewQuote), network, owner())
    source, dest = request.source.chain, request.dest.chain
    what = "no transfer over it can be quoted"
    with snapshot() as conn:
        require_healthy_chains(network, chain_status_on(conn, network), (source, dest), what)
        require_relay(conn, request.route.mechanism, source, dest, request.funding_mode, what)
    require_payable_recipient(request)
    needs_trustline = _needed_trustline(request)
    price = _price(request)
    if needs_trustline is not None and needs_trustline["sponsored"]:
        price = with_sponsor(price, dest, is_new=needs_trustline["creates_account"])
    fee = fee_response(request, price)
    stored = store_quote(deps().engine, network, request, price, fee, deps().quote_seconds)
    return quote_response(stored, request, price, fee, needs_trustline), 201


def _needed_trustline(request: QuoteRequest) -> NeededTrustline | None:
    """The trustline that a deposit's owner still has to open; None if no accounts are read."""
    accounts = deps().accounts
    if request.route.direction != "deposit" or accounts is None:
        return None
    account, asset = StellarAddress(request.dest_address), AssetId(request.dest.asset)
    if accounts.trustline(account, asset) is not None:
        return None
    paid = BaseUnits(request.amount * STELLAR_PER_SHARED)
    sponsorship = SponsorshipRequest(account, asset, paid, request.source_address)
    is_new = accounts.signing_rules(account) is None
    with snapshot() as conn:
        return needed_trustline(conn, deps().network.stellar, sponsorship, is_new=is_new)


def _price(request: QuoteRequest) -> Price:
    source, dest = request.source.chain, request.dest.chain
    match request.route.mechanism:
        case "cctp":
            fees = _require_fees()
            terms = fees.burn(source, dest)
            gas_price = fees.gas_price(dest) if is_evm(dest) else None
            price = burn_price(source, dest, request.amount, terms, gas_price)
        case "oft":
            price = _send_price(request, _require_fees())
        case "payment":
            price = payment_price(request.amount)
    if request.funding_mode != "deposit_address":
        return price
    return with_deposit_address(price, source, _require_fees().gas_price(source))


def _require_fees() -> FeeSource:
    fees = deps().fees
    if fees is None:
        raise FeesUnavailable("this process reads no fees")
    return fees


def _send_price(request: QuoteRequest, fees: FeeSource) -> Price:
    source, dest = request.source.chain, request.dest.chain
    if is_evm(dest):
        to = evm_as_bytes32(EvmAddress(request.dest_address))
    else:
        to = account_as_bytes32(StellarAddress(request.dest_address))
    terms = fees.send(source, dest, to, request.amount)
    if not terms.min_amount <= request.amount <= terms.max_amount:
        raise BadRequest(
            f"amount_in must be from {max(terms.min_amount, request.source.min_amount)} to "
            f"{min(terms.max_amount, request.source.max_amount)} base units of "
            f"{request.source.asset}: the bridge takes no other amount now",
            code="AMOUNT_OUT_OF_LIMITS",
        )
    return send_price(source, dest, request.amount, terms)
