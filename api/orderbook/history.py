"""`GET /api/v1/orderbook/history`: what a currency's orders settled at, day by day.

From `projections.market_days`, which has closed days only. All days of all currencies are read in
one query, at most once in `FRESH_SECONDS`, so the number of requests does not matter; their number
of rows is bounded by the days and by the markets that the rails' administrator has opened.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any, TypeGuard

import orjson
from sqlalchemy import Engine, Row, func, select

from api.deps import read_snapshot
from api.errors import BadRequest, Unavailable
from api.operation import Parameter
from api.orderbook import schema
from api.orderbook.filters import parse_currency
from api.orderbook.responses import decimal_text, ratio
from api.responses import StoredBody
from warehouse_schema.daily import days_done, market_days

DAYS = 30
FRESH_SECONDS = 60.0
"""How long an answer is served. Days are computed once a day."""
_READ_TIMEOUT_SECONDS = 5.0
"""For another thread's read."""

CURRENCY = Parameter(
    "currency",
    "ISO 4217, in any case.",
    {"type": "string", "pattern": "^[A-Za-z]{3}$", "examples": ["EUR"]},
    required=True,
)


def parse_history(query: Mapping[str, str]) -> str:
    """The currency in capitals. Raises `BadRequest`."""
    currency = parse_currency(query)
    if currency is None:
        raise BadRequest("currency is missing (ISO 4217, such as EUR)", code="BAD_FILTER")
    return currency


@dataclass(frozen=True, slots=True)
class _Days:
    """The last `DAYS` days up to the last that was computed."""

    last: date | None
    """None before the first."""
    by_currency: Mapping[str, list[Row[Any]]]
    read_at: float
    """When the read began, by the monotonic clock."""
    bodies: dict[str, StoredBody] = field(default_factory=dict)
    """Of currencies with a row: their number is bounded, that of unknown names is not."""


class PriceHistoryCache:
    """The history of all currencies in memory. Threads share it."""

    def __init__(self, engine: Engine, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._engine = engine
        self._monotonic = monotonic
        self._lock = threading.Lock()
        """Held while one thread reads."""
        self._days: _Days | None = None

    def of(self, currency: str) -> StoredBody:
        """The history of a currency. Raises `Unavailable` when a read takes too long."""
        days = self._current()
        body = days.bodies.get(currency)
        if body is None:
            rows = days.by_currency.get(currency, [])
            body = StoredBody(orjson.dumps(history_response(currency, days.last, rows)))
            if rows:
                days.bodies[currency] = body
        return body

    def _current(self) -> _Days:
        days = self._days
        if self._is_fresh(days):
            return days
        if not self._lock.acquire(timeout=_READ_TIMEOUT_SECONDS):
            raise Unavailable("the database is slow right now", code="DATABASE_UNAVAILABLE")
        try:
            days = self._days
            if not self._is_fresh(days):
                days = self._days = self._read()
            return days
        finally:
            self._lock.release()

    def _is_fresh(self, days: _Days | None) -> TypeGuard[_Days]:
        return days is not None and self._monotonic() - days.read_at < FRESH_SECONDS

    def _read(self) -> _Days:
        read_at = self._monotonic()
        day = market_days.c
        newest = select(func.max(days_done.c.day)).where(days_done.c.figure == "book")
        by_currency: dict[str, list[Row[Any]]] = defaultdict(list)
        with read_snapshot(self._engine) as connection:
            last = connection.scalar(newest)
            if last is not None:
                window = (day.day > last - timedelta(days=DAYS)) & (day.day <= last)
                order = (day.day, day.direction.collate("C"), day.rail.collate("C"))
                for row in connection.execute(select(market_days).where(window).order_by(*order)):
                    by_currency[row.currency].append(row)
        return _Days(last, by_currency, read_at)


def history_response(currency: str, last: date | None, rows: list[Row[Any]]) -> schema.PriceHistory:
    """A currency's days, the oldest first."""
    first = None if last is None else last - timedelta(days=DAYS - 1)
    return {
        "currency": currency,
        "firstDay": None if first is None else first.isoformat(),
        "lastDay": None if last is None else last.isoformat(),
        "days": [_day_response(row) for row in rows],
    }


def _day_response(row: Row[Any]) -> schema.MarketDay:
    is_priced = row.fiat is not None and row.released > 0
    return {
        "day": row.day.isoformat(),
        "direction": row.direction,
        "rail": row.rail,
        "rate": ratio(row.fiat, row.released) if is_priced else None,
        "volumeUsdc": decimal_text(row.released),
        "volumeFiat": None if row.fiat is None else decimal_text(row.fiat),
        "openedOrders": row.opened,
        "fulfilledOrders": row.fulfilled,
        "cancelledOrders": row.cancelled,
        "expiredOrders": row.expired,
    }
