"""`GET /api/v1/providers/{address}/activity`: what became of a provider's orders lately.

From the orders themselves, so it is as of a ledger, as the provider's record is.
"""

from collections import Counter
from collections.abc import Sequence
from statistics import median_low
from typing import Any

from sqlalchemy import Connection, Row, select

from api.orderbook import schema
from api.orderbook.queries import Book
from api.orderbook.responses import decimal_text, ratio
from api.responses import iso_time
from warehouse_schema import projections as tables
from warehouse_schema.identifiers import BaseUnits, StellarAddress, UnixSeconds

MAX_ORDERS = 1_000
"""Read through an index: the cost is bounded whatever the provider did."""
SECONDS = 30 * 86_400


def recent_activity(
    connection: Connection, book: Book, provider: StellarAddress
) -> schema.ProviderActivity | None:
    """None for an address that has never been a provider."""
    known = select(tables.providers.c.provider).where(tables.providers.c.provider == provider)
    if connection.scalar(known) is None:
        return None
    order = tables.orders.c
    since = UnixSeconds(max(0, book.close_time - SECONDS))
    newest = (
        select(order.created_at, order.status, order.ended_at, order.released)
        .where(order.provider == provider, order.created_at >= since)
        .order_by(order.created_at.desc(), order.order_id)
        .limit(MAX_ORDERS)
    )
    orders = connection.execute(newest).all()
    if len(orders) == MAX_ORDERS:
        since = orders[-1].created_at
    return activity_response(provider, since, orders)


def activity_response(
    provider: StellarAddress, since: UnixSeconds, orders: Sequence[Row[Any, Any, Any, Any]]
) -> schema.ProviderActivity:
    """Figures of these orders."""
    count = Counter(order.status for order in orders)
    fulfilled = [order for order in orders if order.status == "fulfilled"]
    ended = len(orders) - count["active"]
    took = [order.ended_at - order.created_at for order in fulfilled]
    return {
        "provider": provider,
        "since": iso_time(since),
        "openedOrders": len(orders),
        "fulfilledOrders": count["fulfilled"],
        "cancelledOrders": count["cancelled"],
        "expiredOrders": count["expired"],
        "volumeUsdc": decimal_text(BaseUnits(sum(order.released for order in fulfilled))),
        "fillRate": ratio(count["fulfilled"], ended) if ended else None,
        "medianFulfillmentSeconds": median_low(took) if took else None,
    }
