"""`GET /api/v1/intents`: the newest orders, of all providers or of one.

The initial state of a client that follows the stream, which sends orders as they change. There are
no pages: older orders are in the warehouse's views.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, select

from api.operation import DEFAULT_LIMIT, LIMIT
from api.orderbook.filters import PROVIDER, parse_provider
from api.parsing import read_limit
from indexer.orderbook.orders import OrderRow
from warehouse_schema import projections as tables
from warehouse_schema.identifiers import StellarAddress

QUERY = (LIMIT, PROVIDER)
PARAMETERS = tuple(each.name for each in QUERY)


@dataclass(frozen=True, slots=True)
class RecentOrders:
    """The parsed query."""

    limit: int = DEFAULT_LIMIT
    provider: StellarAddress | None = None


def parse_recent(query: Mapping[str, str]) -> RecentOrders:
    """Raises `BadRequest` that names the parameter. An empty value is the same as none."""
    provider = query.get("provider")
    return RecentOrders(read_limit(query), parse_provider(provider) if provider else None)


def recent_orders(connection: Connection, wanted: RecentOrders) -> list[OrderRow]:
    """Newest first; orders of one second by their id."""
    return [OrderRow(**row._mapping) for row in connection.execute(newest(wanted))]


def newest(wanted: RecentOrders) -> Select[Any]:
    """Reads an index in this order: the cost does not depend on the number of orders."""
    order = tables.orders.c
    query = (
        select(tables.orders).order_by(order.created_at.desc(), order.order_id).limit(wanted.limit)
    )
    return query if wanted.provider is None else query.where(order.provider == wanted.provider)
