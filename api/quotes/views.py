"""`POST /v1/quotes`."""

from flask import Blueprint

from api.auth.owner import owner, owner_only
from api.availability import require_healthy_chains, require_relay
from api.deps import deps, snapshot
from api.errors import BadRequest, FeesUnavailable
from api.parsing import read_body
from api.ports import FeeSource
from api.quotes import schema
from api.quotes.pricing import (
    Price,
    burn_price,
    by_address,
    payment_price,
    send_price,
    with_sponsor,
)
from api.quotes.recipients import refuse_unpayable
from api.quotes.requests import NewQuote, QuoteRequest, read_quote_request
from api.quotes.responses import shape_fee, shape_quote
from api.quotes.store import store
from api.trustlines import NeededTrustline, needed_trustline
from indexer.addresses import account_as_bytes32, evm_as_bytes32
from indexer.facts.status import chain_status_on
from indexer.movements.fold import STELLAR_PER_SHARED
from indexer.policy.sponsorship import SponsorshipRequest
from warehouse_schema.identifiers import AssetId, BaseUnits, EvmAddress, StellarAddress, is_evm

quotes = Blueprint("quotes", __name__)
quotes.before_request(owner_only)


@quotes.post("/v1/quotes")
def create_quote() -> tuple[schema.Quote, int]:
    """Price a transfer, and promise the price for some minutes."""
    held = deps()
    wish = read_quote_request(read_body(NewQuote), held.network, owner())
    _refuse_unwell(wish)
    refuse_unpayable(wish)
    needs = _needs(wish)
    price = _price(wish)
    if needs is not None and needs["sponsored"]:
        price = with_sponsor(price, wish.dest.chain, is_new=needs["creates_account"])
    fee = shape_fee(wish, price)
    stored = store(held.engine, held.network, wish, price, fee, held.quote_seconds)
    return shape_quote(stored, wish, price, fee, needs), 201


def _refuse_unwell(wish: QuoteRequest) -> None:
    """Raises `ChainUnavailable` for a chain that nothing can be promised about now."""
    source, dest = wish.source.chain, wish.dest.chain
    what = "no transfer over it can be quoted"
    with snapshot() as conn:
        statuses = chain_status_on(conn, deps().network)
        require_healthy_chains(deps().network, statuses, (source, dest), what)
        require_relay(conn, wish.route.mechanism, source, dest, wish.funding_mode, what)


def _needs(wish: QuoteRequest) -> NeededTrustline | None:
    """The trustline that a deposit's owner has not; None without a ledger to ask."""
    accounts, network = deps().accounts, deps().network
    if wish.route.direction != "deposit" or accounts is None:
        return None
    account, asset = StellarAddress(wish.dest_address), AssetId(wish.dest.asset)
    if accounts.trustline(account, asset) is not None:
        return None
    paid = BaseUnits(wish.amount * STELLAR_PER_SHARED)
    who = SponsorshipRequest(account, asset, paid, wish.source_address)
    is_new = accounts.signing_rules(account) is None
    with snapshot() as conn:
        return needed_trustline(conn, network.stellar, who, is_new=is_new)


def _price(wish: QuoteRequest) -> Price:
    price = _carried(wish)
    if wish.funding_mode != "deposit_address":
        return price
    return by_address(price, wish.source.chain, _fees().gas_price(wish.source.chain))


def _carried(wish: QuoteRequest) -> Price:
    match wish.route.mechanism:
        case "cctp":
            return _burn_price(wish, _fees())
        case "oft":
            return _send_price(wish, _fees())
        case "payment":
            return payment_price(wish.amount)


def _fees() -> FeeSource:
    fees = deps().fees
    if fees is None:
        raise FeesUnavailable("this process reads no fees")
    return fees


def _burn_price(wish: QuoteRequest, fees: FeeSource) -> Price:
    source, dest = wish.source.chain, wish.dest.chain
    terms = fees.burn(source, dest)
    gas_price = fees.gas_price(dest) if is_evm(dest) else None
    return burn_price(source, dest, wish.amount, terms, gas_price)


def _send_price(wish: QuoteRequest, fees: FeeSource) -> Price:
    source, dest = wish.source.chain, wish.dest.chain
    if is_evm(dest):
        to = evm_as_bytes32(EvmAddress(wish.dest_address))
    else:
        to = account_as_bytes32(StellarAddress(wish.dest_address))
    terms = fees.send(source, dest, to, wish.amount)
    if not terms.min_amount <= wish.amount <= terms.max_amount:
        raise BadRequest(
            f"amount_in must be from {max(terms.min_amount, wish.source.min_amount)} to "
            f"{min(terms.max_amount, wish.source.max_amount)} base units of {wish.source.asset}: "
            "the bridge takes no other amount now",
            code="AMOUNT_OUT_OF_LIMITS",
        )
    return send_price(source, dest, wish.amount, terms)
