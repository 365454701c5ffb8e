"""The query of `GET /api/v1/orderbook`, parsed strictly.

An empty value is the same as none. Unknown parameters are ignored; a known one given twice is an
error.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import cast

from api.amounts import UNIT, USDC
from api.errors import BadRequest
from api.operation import Parameter, Schema
from indexer.addresses import stellar_holder
from indexer.market.escrow_events import OrderDirection
from indexer.orderbook.offers import OfferRow
from warehouse_schema.identifiers import BaseUnits, StellarAddress

_AMOUNT: Schema = {
    "type": "string",
    "pattern": r"^([0-9]{1,32}(\.[0-9]{1,7})?)?$",
    "examples": ["25"],
    UNIT: USDC,
}
HOLDER: Schema = {"type": "string", "format": "stellar-holder", "pattern": "^[GC][A-Z2-7]{55}$"}

TOPIC = (
    Parameter("rail", "Offers that accept this rail, or orders on it."),
    Parameter(
        "currency",
        "ISO 4217, in any case.",
        {"type": "string", "pattern": "^([A-Za-z]{3})?$", "examples": ["EUR"]},
    ),
    Parameter(
        "direction",
        "`onramp`: the taker buys USDC. `offramp`: the taker sells it.",
        {"enum": ["", "onramp", "offramp"]},
    ),
)
"""Filters of what identifies an offer or an order: the stream has them too."""
AMOUNTS = (
    Parameter("minAmount", "Size in USDC: the offer must accept an order of it.", _AMOUNT),
    Parameter("maxAmount", "Another size, no smaller: the offer must accept it too.", _AMOUNT),
)
_ONE_HOLDER: Schema = {"anyOf": [HOLDER, {"const": ""}]}
PROVIDER = Parameter("provider", "Only this provider's.", _ONE_HOLDER)
BUYER = Parameter("buyer", "Only this taker's.", _ONE_HOLDER)

FILTERS = tuple(each.name for each in (*TOPIC, *AMOUNTS))
DECIMALS = 7
"""Of every order-book amount."""

_CURRENCY = re.compile(r"[A-Za-z]{3}")
# The contract's amounts are i128: 32 digits before the point hold the largest.
_DECIMAL = re.compile(r"([0-9]{1,32})(?:\.([0-9]{1,7}))?")


@dataclass(frozen=True, slots=True)
class OfferFilters:
    """Conditions on an offer; None matches any. Amounts are 7-decimal integers."""

    rail: str | None = None
    currency: str | None = None
    direction: OrderDirection | None = None
    min_amount: BaseUnits | None = None
    """The offer takes an order of this size."""
    max_amount: BaseUnits | None = None
    """The offer takes an order of this size too."""


def fits(offer: OfferRow, filters: OfferFilters) -> bool:
    """Whether the offer matches. One matching rail is enough."""
    return (
        (filters.rail is None or filters.rail in offer.rails)
        and (filters.currency is None or filters.currency == offer.currency)
        and (filters.direction is None or filters.direction == offer.direction)
        and all(
            offer.min <= size <= offer.max
            for size in (filters.min_amount, filters.max_amount)
            if size is not None
        )
    )


def parse_filters(query: Mapping[str, str]) -> OfferFilters:
    """Raises `BadRequest` that names the parameter."""
    topic = parse_topic(query)
    low, high = _amount("minAmount", query), _amount("maxAmount", query)
    if low is not None and high is not None and low > high:
        raise BadRequest("minAmount is larger than maxAmount", code="BAD_FILTER")
    return replace(topic, min_amount=low, max_amount=high)


def parse_topic(query: Mapping[str, str]) -> OfferFilters:
    """Filters without amounts. Raises `BadRequest` that names the parameter."""
    direction = query.get("direction", "")
    if direction not in ("", "onramp", "offramp"):
        raise BadRequest(
            f"direction is {direction!r}; it must be onramp or offramp", code="BAD_FILTER"
        )
    return OfferFilters(
        rail=query.get("rail") or None,
        currency=parse_currency(query),
        direction=cast(OrderDirection, direction) if direction else None,
    )


def parse_currency(query: Mapping[str, str]) -> str | None:
    """The currency in capitals; None without one. Raises `BadRequest`."""
    currency = query.get("currency", "")
    if currency and not _CURRENCY.fullmatch(currency):
        raise BadRequest(
            f"currency is {currency!r}; it must be 3 letters (ISO 4217)", code="BAD_FILTER"
        )
    return currency.upper() or None


@lru_cache(maxsize=1024)
def parse_holder(name: str, text: str) -> StellarAddress:
    """The address in a parameter. Raises `BadRequest`. Cached for its checksum; errors are not."""
    try:
        return stellar_holder(text)
    except ValueError as error:
        raise BadRequest(f"{name}: {error}", code="BAD_ADDRESS") from error


def _amount(name: str, query: Mapping[str, str]) -> BaseUnits | None:
    text = query.get(name, "")
    if not text:
        return None
    match = _DECIMAL.fullmatch(text)
    if match is None:
        raise BadRequest(
            f"{name} is {text!r}; it must be a number of 0 or more with up to {DECIMALS} decimals",
            code="BAD_FILTER",
        )
    whole, fraction = match[1], match[2] or ""
    return BaseUnits(int(whole + fraction.ljust(DECIMALS, "0")))
