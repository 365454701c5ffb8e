"""Quotes as they are kept. What makes a transfer of one uses it up, and no other does."""

import secrets
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BigInteger, Engine, cast, extract, func, insert

from api.quotes import schema
from api.quotes.pricing import Price
from api.quotes.requests import QuoteRequest
from indexer.config.networks import EvmChain, Network
from warehouse_schema.identifiers import UnixSeconds
from warehouse_schema.intake import quotes


@dataclass(frozen=True, slots=True)
class Stored:
    """A quote that others may be told of now."""

    id: str
    expires_at: UnixSeconds
    """By the database's clock; whole seconds, cut off."""


def store(
    engine: Engine,
    network: Network,
    wish: QuoteRequest,
    price: Price,
    fee: schema.QuoteFee,
    seconds: int,
) -> Stored:
    """Keep a quote for so many seconds. Once this returns, it is promised."""
    now = func.now()
    expires = func.date_trunc("second", now + func.make_interval(0, 0, 0, 0, 0, 0, seconds))
    row = {
        "id": secrets.token_hex(16),
        **_terms(network, wish),
        "amount_out": price.amount_out,
        "finality_threshold": price.finality_threshold,
        "native_fee": price.native_fee,
        "fee": fee,
        "expires_at": expires,
    }
    until = cast(extract("epoch", quotes.c.expires_at), BigInteger)
    with engine.begin() as connection:
        found = connection.execute(insert(quotes).values(row).returning(quotes.c.id, until)).one()
    return Stored(found[0], UnixSeconds(found[1]))


def _terms(network: Network, wish: QuoteRequest) -> dict[str, Any]:
    return {
        "owner": wish.owner,
        "route": wish.route.id,
        "mechanism": wish.route.mechanism,
        "funding_mode": wish.funding_mode,
        "source_chain": wish.source.chain,
        "source_asset": wish.source.asset,
        "source_token": _token(network, wish),
        "source_address": wish.source_address,
        "dest_chain": wish.dest.chain,
        "dest_asset": wish.dest.asset,
        "dest_address": wish.dest_address,
        "amount_in": wish.amount,
        # What is too little to cross is too little to be sent back unasked.
        "min_refund": wish.source.min_amount,
    }


def _token(network: Network, wish: QuoteRequest) -> str:
    """The contract of what is sent."""
    chain = network.chain(wish.source.chain)
    if isinstance(chain, EvmChain):
        return wish.source.asset.rpartition(":")[2]
    is_usdc = wish.source.asset == chain.usdc
    token = chain.usdc_contract if is_usdc else chain.usdt0_contract
    if token is None:
        raise LookupError(f"{chain.id} has no contract of {wish.source.asset}")
    return token
