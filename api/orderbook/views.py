"""The order book's paths."""

from typing import NamedTuple

from flask import Blueprint, Flask, Response, current_app, g, request

from api.auth.owner import public
from api.deps import deps
from api.errors import BadRequest, NotFound
from api.operation import WHOLE, HeaderDoc, Parameter, operation
from api.orderbook import schema
from api.orderbook.books import BookAnswer, Books, EncodedBook
from api.orderbook.filters import AMOUNTS, FILTERS, HOLDER, TOPIC, parse_filters, parse_holder
from api.orderbook.history import CURRENCY, PriceHistoryCache, parse_history
from api.orderbook.queries import Book
from api.orderbook.recent import PARAMETERS, QUERY, parse_recent
from api.parsing import canonical_hex, read_query
from api.responses import send
from warehouse_schema.identifiers import Bytes32

orderbook = Blueprint("orderbook", __name__, url_prefix="/api/v1")
orderbook.before_request(public)

_KEY = "isthmus.books"
_HISTORY_KEY = "isthmus.price_history"
SOURCE_KEY = "isthmus.response_source"
"""Of a WSGI environment: the `ResponseSource` of a response that equal requests may get."""
LEDGER_HEADER, AGE_HEADER = "X-Ledger", "X-Ledger-Age"
_LEDGER = (
    HeaderDoc(LEDGER_HEADER, "Last folded ledger: the response is as of it.", WHOLE),
    HeaderDoc(AGE_HEADER, "Seconds since that ledger closed.", WHOLE),
)
_UNREADY = ("DATABASE_UNAVAILABLE", "ORDER_BOOK_NOT_READY")
_ADDRESS = Parameter("address", "The provider's Stellar address.", HOLDER, "path", required=True)
_ORDER_ID = Parameter(
    "order_id",
    "The order's id (intent hash).",
    {"type": "string", "pattern": "^[0-9a-f]{64}$"},
    "path",
    required=True,
)


class ResponseSource(NamedTuple):
    """What a response is of."""

    state: EncodedBook
    route: str


def register_books(app: Flask, books: Books, history: PriceHistoryCache) -> None:
    """Give an app the order book and the price history that its views answer from."""
    app.extensions[_KEY] = books
    app.extensions[_HISTORY_KEY] = history


@orderbook.get("/orderbook")
@operation(
    "listOffers",
    "Order book",
    {200: "All offers that match."},
    shape=list[schema.Offer],
    headers=_LEDGER,
    cached=True,
    parameters=(*TOPIC, *AMOUNTS),
    refusals=("BAD_FILTER", *_UNREADY),
)
def list_offers() -> Response:
    """Offers that can be taken now.

    Within each direction and currency the best rate for the taker comes first.
    """
    filters = parse_filters(read_query(FILTERS, others=True))
    return _respond(_books().offers(filters))


@orderbook.get("/orderbook/summary")
@operation(
    "summariseBook",
    "Order book",
    {200: "The depth."},
    shape=schema.DepthSummary,
    headers=_LEDGER,
    cached=True,
    refusals=_UNREADY,
)
def summarise() -> Response:
    """Depth of the book, in total and by rail."""
    return _respond(_books().summary())


@orderbook.get("/orderbook/history")
@operation(
    "showPriceHistory",
    "Order book",
    {200: "The days."},
    shape=schema.PriceHistory,
    cached=True,
    parameters=(CURRENCY,),
    refusals=("BAD_FILTER", "DATABASE_UNAVAILABLE"),
)
def show_price_history() -> Response:
    """What a currency's orders settled at, by day, direction and rail.

    The last 30 UTC days that are closed and computed. Up to a minute old.
    """
    currency = parse_history(read_query((CURRENCY.name,), others=True))
    history: PriceHistoryCache = current_app.extensions[_HISTORY_KEY]
    return send(history.of(currency), version="history")


@orderbook.get("/providers/<address>")
@operation(
    "showProvider",
    "Order book",
    {200: "The provider's record."},
    shape=schema.Provider,
    headers=_LEDGER,
    cached=True,
    parameters=(_ADDRESS,),
    refusals=("BAD_ADDRESS", "PROVIDER_NOT_FOUND", *_UNREADY),
    refusal_headers={404: _LEDGER},
)
def show_provider(address: str) -> Response:
    """A liquidity provider."""
    answer = _books().provider(parse_holder("provider", address))
    return _respond(answer, f"no provider {address} has been seen", "PROVIDER_NOT_FOUND")


@orderbook.get("/providers/<address>/activity")
@operation(
    "showProviderActivity",
    "Order book",
    {200: "What became of the provider's orders."},
    shape=schema.ProviderActivity,
    headers=_LEDGER,
    cached=True,
    parameters=(_ADDRESS,),
    refusals=("BAD_ADDRESS", "PROVIDER_NOT_FOUND", *_UNREADY),
    refusal_headers={404: _LEDGER},
)
def show_provider_activity(address: str) -> Response:
    """A provider's volume, fill rate and median time.

    Of orders opened in the 30 days before the ledger, at most the newest 1,000.
    """
    answer = _books().activity(parse_holder("provider", address))
    return _respond(answer, f"no provider {address} has been seen", "PROVIDER_NOT_FOUND")


@orderbook.get("/intents")
@operation(
    "listOrders",
    "Order book",
    {200: "The orders."},
    shape=list[schema.Order],
    headers=_LEDGER,
    cached=True,
    parameters=QUERY,
    refusals=("BAD_LIMIT", "BAD_ADDRESS", "BAD_FILTER", *_UNREADY),
)
def list_orders() -> Response:
    """The newest orders (intents).

    Newest first, without pages. `rail`, `currency`, `direction` and `buyer` select among the
    newest 1,000.
    The stream sends orders as they change.
    """
    wanted = parse_recent(read_query(PARAMETERS, others=True))
    return _respond(_books().newest(wanted))


@orderbook.get("/intents/<order_id>")
@operation(
    "showOrder",
    "Order book",
    {200: "The order."},
    shape=schema.Order,
    headers=_LEDGER,
    cached=True,
    parameters=(_ORDER_ID,),
    refusals=("BAD_INTENT_ID", "INTENT_NOT_FOUND", *_UNREADY),
    refusal_headers={404: _LEDGER},
)
def show_order(order_id: str) -> Response:
    """An order (intent)."""
    digits = canonical_hex(order_id, 64)
    if digits is None:
        raise BadRequest(f"{order_id!r} is not an order id (64 hex digits)", code="BAD_INTENT_ID")
    answer = _books().order(Bytes32(f"0x{digits}"))
    return _respond(answer, f"no order {order_id} has been seen", "INTENT_NOT_FOUND")


@orderbook.after_request
def _add_ledger_headers(response: Response) -> Response:
    """Name the ledger that the answer is as of, also of a 404."""
    book: Book | None = g.get("book")
    if book is not None:
        age = book.age(deps().clock())
        response.headers.extend({LEDGER_HEADER: str(book.ledger), AGE_HEADER: str(age)})
    return response


def _respond(answer: BookAnswer, not_found: str = "", code: str = NotFound.code) -> Response:
    """Raises `NotFound` for an answer without a body."""
    g.book = answer.book
    if answer.state is not None and request.url_rule is not None:
        request.environ[SOURCE_KEY] = ResponseSource(answer.state, request.url_rule.rule)
    if answer.body is None:
        raise NotFound(not_found, code=code)
    return send(answer.body, version=str(answer.book.ledger))


def _books() -> Books:
    books: Books = current_app.extensions[_KEY]
    return books
