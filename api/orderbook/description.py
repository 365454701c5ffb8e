"""What the paths of the order book take and answer."""

from collections.abc import Mapping, Sequence
from typing import Any

from api.description import (
    CONDITIONS,
    WHOLE,
    HeaderDoc,
    Operation,
    Parameter,
    ResponseDoc,
    Schema,
    cached,
)
from api.orderbook import schema
from api.orderbook.recent import DEFAULT_LIMIT, MAX_LIMIT

_AMOUNT: Schema = {
    "type": "string",
    "pattern": r"^([0-9]{1,32}(\.[0-9]{1,7})?)?$",
    "examples": ["25"],
}
HOLDER: Schema = {"type": "string", "format": "stellar-holder", "pattern": "^[GC][A-Z2-7]{55}$"}
_NONE: Schema = {"const": ""}
"""An empty parameter is the same as none."""
HOLDER_OR_NONE: Schema = {"anyOf": [HOLDER, _NONE]}
_LEDGER_HEADERS = (
    HeaderDoc("X-Ledger", "The last folded ledger: the answer is as of it.", WHOLE),
    HeaderDoc("X-Ledger-Age", "Seconds since it closed.", WHOLE),
)
_UNREADY = ("DATABASE_UNAVAILABLE", "ORDER_BOOK_NOT_READY")

RAIL = Parameter("rail", "Offers that accept it, orders on it.", {"type": "string"})
CURRENCY = Parameter(
    "currency",
    "ISO 4217, in any case.",
    {"type": "string", "pattern": "^([A-Za-z]{3})?$", "examples": ["EUR"]},
)
DIRECTION = Parameter(
    "direction", "Which way, from the taker's side.", {"enum": ["", "onramp", "offramp"]}
)
FILTERS = (RAIL, CURRENCY, DIRECTION)


def _read(shape: Any, meaning: str) -> Sequence[ResponseDoc]:
    return cached(meaning, shape, headers=_LEDGER_HEADERS)


OPERATIONS: Mapping[str, Operation] = {
    "orderbook.list_offers": Operation(
        name="listOffers",
        tag="Order book",
        summary="Offers that can be taken now",
        description="The best rate for the taker first within each direction and currency.",
        parameters=(
            *FILTERS,
            Parameter("minAmount", "USDC; the offer must take an order of this size …", _AMOUNT),
            Parameter("maxAmount", "… and one of this size, which is no less.", _AMOUNT),
            *CONDITIONS,
        ),
        answers=_read(list[schema.Offer], "The offers that fit, all of them."),
        refusals={400: ("BAD_FILTER",), 503: _UNREADY},
    ),
    "orderbook.summarise": Operation(
        name="summariseBook",
        tag="Order book",
        summary="Depth of the book, in total and by rail",
        parameters=CONDITIONS,
        answers=_read(schema.DepthSummary, "The depth."),
        refusals={503: _UNREADY},
    ),
    "orderbook.show_provider": Operation(
        name="showProvider",
        tag="Order book",
        summary="A liquidity provider",
        parameters=(
            Parameter("address", "Its Stellar address.", HOLDER, "path", required=True),
            *CONDITIONS,
        ),
        answers=_read(schema.Provider, "The provider's record."),
        refusals={400: ("BAD_ADDRESS",), 404: ("PROVIDER_NOT_FOUND",), 503: _UNREADY},
        refusal_headers={404: _LEDGER_HEADERS},
    ),
    "orderbook.list_orders": Operation(
        name="listOrders",
        tag="Order book",
        summary="The newest orders (intents)",
        description="Newest first. Older ones have no pages: the stream tells orders as they come.",
        parameters=(
            Parameter(
                "limit",
                f"Most orders to list; {DEFAULT_LIMIT} if none is named.",
                {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT},
            ),
            Parameter("provider", "Of this provider alone.", HOLDER_OR_NONE),
            *CONDITIONS,
        ),
        answers=_read(list[schema.Order], "The orders."),
        refusals={400: ("BAD_LIMIT", "BAD_ADDRESS"), 503: _UNREADY},
    ),
    "orderbook.show_order": Operation(
        name="showOrder",
        tag="Order book",
        summary="An order (intent)",
        parameters=(
            Parameter(
                "order_id",
                "Its id, the intent hash.",
                {"type": "string", "pattern": "^[0-9a-f]{64}$"},
                "path",
                required=True,
            ),
            *CONDITIONS,
        ),
        answers=_read(schema.Order, "The order."),
        refusals={400: ("BAD_INTENT_ID",), 404: ("INTENT_NOT_FOUND",), 503: _UNREADY},
        refusal_headers={404: _LEDGER_HEADERS},
    ),
}
