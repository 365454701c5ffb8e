"""Storage of quotes. A quote is used up by the transfer that is created of it."""

import secrets
from dataclasses import dataclass

from sqlalchemy import BigInteger, Engine, cast, extract, func, insert

from api.quotes import schema
from api.quotes.pricing import Price
from api.quotes.requests import QuoteRequest
from indexer.config.networks import EvmChain, Network
from warehouse_schema.identifiers import UnixSeconds
from warehouse_schema.intake import quotes


@dataclass(frozen=True, slots=True)
class StoredQuote:
    """A committed quote."""

    id: str
    expires_at: UnixSeconds
    """By the database's clock, rounded down to whole seconds."""


def store_quote(
    engine: Engine,
    network: Network,
    request: QuoteRequest,
    price: Price,
    fee: schema.QuoteFee,
    seconds: int,
) -> StoredQuote:
    """Store a quote that is valid for `seconds`. Raises `LookupError` for an unknown token."""
    source, dest = request.source, request.dest
    chain = network.chain(source.chain)
    if isinstance(chain, EvmChain):
        token: str | None = source.asset.rpartition(":")[2]
    else:
        token = chain.usdc_contract if source.asset == chain.usdc else chain.usdt0_contract
    if token is None:
        raise LookupError(f"{chain.id} has no contract of {source.asset}")
    lifetime = func.make_interval(0, 0, 0, 0, 0, 0, seconds)
    row = {
        "id": secrets.token_hex(16),
        "owner": request.owner,
        "route": request.route.id,
        "mechanism": request.route.mechanism,
        "funding_mode": request.funding_mode,
        "source_chain": source.chain,
        "source_asset": source.asset,
        "source_token": token,
        "source_address": request.source_address,
        "dest_chain": dest.chain,
        "dest_asset": dest.asset,
        "dest_address": request.dest_address,
        "amount_in": request.amount,
        # An amount that is too small to cross is not refunded automatically either.
        "min_refund": source.min_amount,
        "amount_out": price.amount_out,
        "finality_threshold": price.finality_threshold,
        "native_fee": price.native_fee,
        "fee": fee,
        "expires_at": func.date_trunc("second", func.now() + lifetime),
    }
    expires_at = cast(extract("epoch", quotes.c.expires_at), BigInteger)
    insertion = insert(quotes).values(row).returning(quotes.c.id, expires_at)
    with engine.begin() as connection:
        stored = connection.execute(insertion).one()
    return StoredQuote(stored[0], UnixSeconds(stored[1]))
