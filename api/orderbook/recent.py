"""`GET /api/v1/intents`: the newest orders, of all providers or of one.

The initial state of a client that follows the stream, which sends orders as they change. There are
no pages: older orders are in the warehouse's views.

Filters look at the newest `MAX_FILTERED` orders. No index has an order of them by rail, currency or
taker, and a rare one would read the whole table.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, FromClause, Select, select

from api.operation import DEFAULT_LIMIT, LIMIT
from api.orderbook.filters import (
    BUYER,
    PROVIDER,
    TOPIC,
    OfferFilters,
    parse_holder,
    parse_topic,
)
from api.parsing import read_limit
from indexer.orderbook.orders import OrderRow
from warehouse_schema import projections as tables
from warehouse_schema.identifiers import StellarAddress

MAX_FILTERED = 1_000
QUERY = (LIMIT, PROVIDER, BUYER, *TOPIC)
PARAMETERS = tuple(each.name for each in QUERY)


@dataclass(frozen=True, slots=True)
class RecentOrders:
    """The parsed query."""

    limit: int = DEFAULT_LIMIT
    provider: StellarAddress | None = None
    buyer: StellarAddress | None = None
    topic: OfferFilters = field(default_factory=OfferFilters)
    """Rail, currency and direction; no amounts."""


def parse_recent(query: Mapping[str, str]) -> RecentOrders:
    """Raises `BadRequest` that names the parameter. An empty value is the same as none."""
    return RecentOrders(
        read_limit(query),
        _holder("provider", query),
        _holder("buyer", query),
        parse_topic(query),
    )


def _holder(name: str, query: Mapping[str, str]) -> StellarAddress | None:
    return parse_holder(name, query[name]) if query.get(name) else None


def recent_orders(connection: Connection, wanted: RecentOrders) -> list[OrderRow]:
    """Newest first; orders of one second by their id."""
    return [OrderRow(**row._mapping) for row in connection.execute(newest(wanted))]


def newest(wanted: RecentOrders) -> Select[Any]:
    """Reads an index in this order: the cost does not depend on the number of orders."""
    conditions = {
        "taker": wanted.buyer,
        "rail": wanted.topic.rail,
        "currency": wanted.topic.currency,
        "direction": wanted.topic.direction,
    }
    given = {name: value for name, value in conditions.items() if value is not None}
    orders = _by_time(tables.orders, MAX_FILTERED if given else wanted.limit)
    if wanted.provider is not None:
        orders = orders.where(tables.orders.c.provider == wanted.provider)
    if not given:
        return orders
    few = orders.subquery()
    return _by_time(few, wanted.limit).where(*(few.c[name] == given[name] for name in given))


def _by_time(orders: FromClause, limit: int) -> Select[Any]:
    column = orders.c
    return select(orders).order_by(column.created_at.desc(), column.order_id).limit(limit)
