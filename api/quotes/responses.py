"""Response bodies of quotes. Amounts are decimal integer strings in base units."""

from typing import cast

from api.quotes import schema
from api.quotes.pricing import Fee, Price, decimals, unit_price
from api.quotes.requests import QuoteRequest
from api.quotes.store import StoredQuote
from api.responses import iso_time
from api.trustlines import NeededTrustline


def fee_response(request: QuoteRequest, price: Price) -> schema.QuoteFee:
    """All fees of a transfer; stored with the quote as it is shown."""
    return {
        "total": str(price.total),
        "asset": request.source.asset,
        "details": [
            cast(schema.FeeDetail, {"name": fee.name, "amount": str(fee.amount)})
            for fee in price.fees
        ],
        "native_details": [_native_fee(fee) for fee in price.native_fees],
        "operator_details": [_native_fee(fee) for fee in price.operator_fees],
    }


def quote_response(
    stored: StoredQuote,
    request: QuoteRequest,
    price: Price,
    fee: schema.QuoteFee,
    needs_trustline: NeededTrustline | None,
) -> schema.Quote:
    """`fee` is the `fee_response` that was stored."""
    sold, bought = decimals(request.source.chain), decimals(request.dest.chain)
    return {
        "id": stored.id,
        "expires_at": iso_time(stored.expires_at),
        "sell_asset": request.source.asset,
        "buy_asset": request.dest.asset,
        "sell_amount": str(price.amount_in),
        "buy_amount": str(price.amount_out),
        "price": unit_price(price.amount_in, sold, price.amount_out, bought),
        "fee": fee,
        "needs_trustline": needs_trustline,
    }


def _native_fee(fee: Fee) -> schema.NativeFee:
    return cast(schema.NativeFee, {"name": fee.name, "amount": str(fee.amount), "chain": fee.chain})
