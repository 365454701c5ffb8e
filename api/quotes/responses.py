"""Quotes as JSON. Amounts are decimal integer strings in base units."""

from typing import cast

from api.quotes import schema
from api.quotes.pricing import Fee, Price, decimals, unit_price
from api.quotes.requests import QuoteRequest
from api.quotes.store import Stored
from api.responses import iso_time
from api.trustlines import NeededTrustline


def shape_fee(wish: QuoteRequest, price: Price) -> schema.QuoteFee:
    """What the transfer costs; kept with the quote as it is shown."""
    return {
        "total": str(price.total),
        "asset": wish.source.asset,
        "details": [
            cast(schema.FeeDetail, {"name": fee.name, "amount": str(fee.amount)})
            for fee in price.fees
        ],
        "native_details": [_native(fee) for fee in price.native_fees],
        "operator_details": [_native(fee) for fee in price.operator_fees],
    }


def shape_quote(
    stored: Stored,
    wish: QuoteRequest,
    price: Price,
    fee: schema.QuoteFee,
    needs: NeededTrustline | None,
) -> schema.Quote:
    """A quote."""
    sold, bought = decimals(wish.source.chain), decimals(wish.dest.chain)
    return {
        "id": stored.id,
        "expires_at": iso_time(stored.expires_at),
        "sell_asset": wish.source.asset,
        "buy_asset": wish.dest.asset,
        "sell_amount": str(price.amount_in),
        "buy_amount": str(price.amount_out),
        "price": unit_price(price.amount_in, sold, price.amount_out, bought),
        "fee": fee,
        "needs_trustline": needs,
    }


def _native(fee: Fee) -> schema.NativeFee:
    return cast(schema.NativeFee, {"name": fee.name, "amount": str(fee.amount), "chain": fee.chain})
