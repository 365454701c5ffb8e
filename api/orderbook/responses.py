"""The order book as JSON: decimals instead of 7-decimal integers, ISO times instead of seconds."""

from collections.abc import Sequence

from api.orderbook import schema
from api.orderbook.filters import DECIMALS
from api.orderbook.queries import Book
from api.responses import iso_time
from indexer.orderbook.offers import OfferRow
from indexer.orderbook.orders import OrderRow
from indexer.orderbook.providers import ProviderRow
from warehouse_schema.identifiers import BaseUnits

_UNIT = 10**DECIMALS


def decimal_text(amount: BaseUnits) -> str:
    """A 7-decimal integer as a decimal: no exponent, no trailing zeros, "0" for zero."""
    whole, fraction = divmod(abs(amount), _UNIT)
    digits = f"{whole}.{fraction:0{DECIMALS}d}".rstrip("0").rstrip(".")
    return f"-{digits}" if amount < 0 else digits


def ratio(part: int, whole: int) -> str:
    """`part / whole` (more than 0) as a decimal, rounded half up to 7 places."""
    return decimal_text(BaseUnits((2 * part * _UNIT + whole) // (2 * whole)))


def offer_response(offer: OfferRow) -> schema.Offer:
    """An offer."""
    return {
        "provider": offer.provider,
        "direction": offer.direction,
        "availableUsdc": decimal_text(offer.available),
        "lockedUsdc": decimal_text(offer.locked),
        "acceptedRails": list(offer.rails),
        "paymentHandles": dict(offer.handles),
        "trustTier": offer.tier,
        "feeRateBps": offer.fee_bps,
        "rate": decimal_text(offer.rate),
        "currency": offer.currency,
        "minAmount": decimal_text(offer.min),
        "maxAmount": decimal_text(offer.max),
        "completedOrders": offer.completed_orders,
        "avgFulfillmentSeconds": offer.avg_fulfillment_seconds,
        "lastActiveAt": iso_time(offer.last_active_at),
    }


def summary_response(book: Book) -> schema.DepthSummary:
    """The depth summary. Rails overlap: their figures do not add up to the totals."""
    return {
        "totalAvailableUsdc": decimal_text(book.totals.available),
        "totalLockedUsdc": decimal_text(book.totals.locked),
        "offerCount": book.totals.offer_count,
        "byRail": [
            {
                "rail": rail,
                "availableUsdc": decimal_text(row.available),
                "offerCount": row.offer_count,
            }
            for rail, row in book.depth.items()
        ],
    }


def provider_response(figures: ProviderRow, accepted_rails: Sequence[str]) -> schema.Provider:
    """A provider's record."""
    return {
        "provider": figures.provider,
        "availableUsdc": decimal_text(figures.available),
        "lockedUsdc": decimal_text(figures.committed),
        "completedOrders": figures.completed_orders,
        "avgFulfillmentSeconds": figures.avg_fulfillment_seconds,
        "acceptedRails": list(accepted_rails),
        "activeIntents": figures.active_orders,
    }


def order_response(order: OrderRow) -> schema.Order:
    """An order (intent). `nullifier` and `txHash` are there only once it is settled,
    `releasedUsdc` only if that is less than `amountUsdc`.
    """
    shaped: schema.Order = {
        "intentId": order.order_id.removeprefix("0x"),
        "buyer": order.taker,
        "provider": order.provider,
        "direction": order.direction,
        "rail": order.rail,
        "currency": order.currency,
        "amountUsdc": decimal_text(order.amount),
        "fiatAmount": decimal_text(order.fiat_amount),
        "status": order.status,
        "trustTier": order.tier,
        "createdAt": iso_time(order.created_at),
        "expiresAt": iso_time(order.expires_at),
    }
    if order.status == "fulfilled":
        # A manual release settles in a transaction without a proof.
        if order.nullifier is not None:
            shaped["nullifier"] = order.nullifier.removeprefix("0x")
        if order.end_tx is not None:
            shaped["txHash"] = order.end_tx
        if order.released not in (None, order.amount):
            shaped["releasedUsdc"] = decimal_text(order.released)
    return shaped
