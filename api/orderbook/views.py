"""The reads of the order book."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flask import Blueprint, Response, g, request
from sqlalchemy import Connection

from api.auth.owner import public
from api.deps import deps, snapshot
from api.errors import BadRequest, NotFound, OrderBookNotReady
from api.orderbook import queries
from api.orderbook.filters import parse_filters
from api.orderbook.queries import Book
from api.orderbook.recent import parse_recent, recent_orders
from api.orderbook.shapes import shape_offer, shape_order, shape_provider, shape_summary
from api.responses import cacheable
from indexer.addresses import stellar_holder
from warehouse_schema.identifiers import Bytes32, StellarAddress

orderbook = Blueprint("orderbook", __name__, url_prefix="/api/v1")
orderbook.before_request(public)

_ORDER_ID = re.compile(r"[0-9a-f]{64}")


@orderbook.get("/orderbook")
def list_offers() -> list[dict[str, Any]]:
    """Offers that can be taken now and fit the filters."""
    filters = parse_filters(request.args)
    with _open_book() as (connection, _):
        return [shape_offer(offer) for offer in queries.offers(connection, filters)]


@orderbook.get("/orderbook/summary")
def summarise() -> dict[str, Any]:
    """Depth of the book, in total and by rail."""
    with _open_book() as (connection, book):
        return shape_summary(book.totals, queries.depth(connection))


@orderbook.get("/providers/<address>")
def show_provider(address: str) -> dict[str, Any]:
    """A provider's record."""
    known = _parse_provider(address)
    with _open_book() as (connection, book):
        view = queries.provider(connection, known, takes_no_orders=book.takes_no_orders)
    if view is None:
        raise NotFound(f"no provider {address} has been seen", code="PROVIDER_NOT_FOUND")
    return shape_provider(view)


@orderbook.get("/intents")
def list_orders() -> list[dict[str, Any]]:
    """The newest orders (intents)."""
    wanted = parse_recent(request.args)
    with _open_book() as (connection, _):
        return [shape_order(order) for order in recent_orders(connection, wanted)]


@orderbook.get("/intents/<order_id>")
def show_order(order_id: str) -> dict[str, Any]:
    """An order (intent)."""
    known = _parse_order_id(order_id)
    with _open_book() as (connection, _):
        order = queries.order(connection, known)
    if order is None:
        raise NotFound(f"no order {order_id} has been seen", code="INTENT_NOT_FOUND")
    return shape_order(order)


@orderbook.after_request
def _name_ledger(response: Response) -> Response:
    """Say which ledger the answer is as of, also when the answer is that something is not there."""
    book: Book | None = g.get("book")
    if book is None:
        return response
    age = max(0, deps().clock() - book.close_time)
    response.headers["X-Ledger"] = str(book.ledger)
    response.headers["X-Ledger-Age"] = str(age)
    return cacheable(response, version=str(book.ledger))


@contextmanager
def _open_book() -> Iterator[tuple[Connection, Book]]:
    """One state of the book. What is read through it is as of the ledger that the headers name."""
    stellar = deps().network.stellar
    with snapshot() as connection:
        book = queries.read_book(connection, stellar.id)
        if book is None:
            raise OrderBookNotReady(f"no ledger of {stellar.id} has been folded yet")
        g.book = book
        yield connection, book


def _parse_provider(text: str) -> StellarAddress:
    try:
        return stellar_holder(text)
    except ValueError as error:
        raise BadRequest(str(error), code="BAD_ADDRESS") from error


def _parse_order_id(text: str) -> Bytes32:
    if not _ORDER_ID.fullmatch(text):
        raise BadRequest(
            f"{text!r} is not an order id (64 lower-case hex digits)", code="BAD_INTENT_ID"
        )
    return Bytes32(f"0x{text}")
