"""`GET /api/v1/intents`: the newest orders, of everybody or of one provider.

What a client that follows the stream needs to begin with: the stream tells orders as they change,
not those that were there. Older ones are for the warehouse's views, so there are no pages.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, select

from api.errors import BadRequest
from api.orderbook.filters import parse_provider
from indexer.orderbook.orders import OrderRow
from warehouse_schema import projections as tables
from warehouse_schema.identifiers import StellarAddress

WANTS = ("limit", "provider")
"""The query's parameters; others are left alone."""
DEFAULT_LIMIT = 50
MAX_LIMIT = 200

_NUMBER = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class RecentOrders:
    """Which orders are asked for."""

    limit: int = DEFAULT_LIMIT
    provider: StellarAddress | None = None


def parse_recent(query: Mapping[str, str]) -> RecentOrders:
    """Raises `BadRequest` that names the parameter. An empty value is the same as none."""
    provider = query.get("provider")
    return RecentOrders(
        _limit(query.get("limit", "")), parse_provider(provider) if provider else None
    )


def _limit(text: str) -> int:
    if not text:
        return DEFAULT_LIMIT
    if not _NUMBER.fullmatch(text) or not 1 <= int(text) <= MAX_LIMIT:
        raise BadRequest(
            f"limit is {text!r}; it must be a number from 1 to {MAX_LIMIT}", code="BAD_LIMIT"
        )
    return int(text)


def recent_orders(connection: Connection, wanted: RecentOrders) -> list[OrderRow]:
    """The newest first; orders of one second by their id."""
    return [OrderRow(**row._mapping) for row in connection.execute(newest(wanted))]


def newest(wanted: RecentOrders) -> Select[Any]:
    """An index holds them in this order, so that their number does not matter."""
    order = tables.orders.c
    query = (
        select(tables.orders).order_by(order.created_at.desc(), order.order_id).limit(wanted.limit)
    )
    return query if wanted.provider is None else query.where(order.provider == wanted.provider)
