"""What a client asks of the stream: the query of `/api/v1/stream`, and the messages it sends.

The filters look at what identifies an offer or an order and never changes. So an entry never moves
into or out of a filter: the stream keeps no state per client for it, and an `update` is never an
`add` or a `remove`. An empty value is the same as none, unknown parameters are ignored, a known one
given twice is an error.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, cast

import orjson

from api.errors import BadRequest
from api.operation import Parameter
from api.orderbook.filters import AMOUNTS, PROVIDER, TOPIC, parse_filters, parse_holder
from indexer.market.escrow_events import OrderDirection
from warehouse_schema.identifiers import Height, StellarAddress

QUERY = (
    *TOPIC,
    PROVIDER,
    Parameter(
        "channel",
        "`orderbook`: only offers. `intent`: only orders.",
        {"enum": ["", "orderbook", "intent"]},
    ),
    Parameter(
        "markers",
        "1: also send a marker for each ledger without a matching change.",
        {"enum": ["", "0", "1"]},
    ),
    Parameter(
        "after",
        "Ledger of the book that you have: send the changes since, if they are still stored.",
        {"type": "string", "pattern": "^([0-9]{1,18})?$"},
    ),
)
PARAMETERS = tuple(each.name for each in (*QUERY, *AMOUNTS))
"""With those that are refused by name."""

Channel: TypeAlias = Literal["orderbook", "intent"]

_HEIGHT = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class Topic:
    """What identifies an offer or an order. Never changes."""

    channel: Channel
    provider: StellarAddress
    direction: OrderDirection
    currency: str
    rails: tuple[str, ...]
    """An order has one."""


@dataclass(frozen=True, slots=True)
class Filters:
    """Topics that a client subscribes to; None matches any value."""

    rail: str | None = None
    currency: str | None = None
    direction: OrderDirection | None = None
    provider: StellarAddress | None = None
    channel: Channel | None = None

    def admit(self, topic: Topic) -> bool:
        """Whether the topic matches."""
        return (
            (self.channel is None or self.channel == topic.channel)
            and (self.rail is None or self.rail in topic.rails)
            and (self.currency is None or self.currency == topic.currency)
            and (self.direction is None or self.direction == topic.direction)
            and (self.provider is None or self.provider == topic.provider)
        )


@dataclass(frozen=True, slots=True)
class SubscribeRequest:
    """The parsed query of a connection."""

    filters: Filters = Filters()
    markers: bool = False
    """Send a marker also for ledgers without a change."""
    after: Height | None = None
    """The client has the book as of this ledger."""


@dataclass(frozen=True, slots=True)
class TransfersRequest:
    """A client's request for messages about its own transfers."""

    token: str = field(repr=False)
    after: int | None = None
    """The client has every event up to this number of its own."""


class BadClientMessage(Exception):
    """A request for transfers that cannot be parsed."""


def parse_subscribe_request(query: Mapping[str, str]) -> SubscribeRequest:
    """Raises `BadRequest` that names the parameter."""
    for name in ("minAmount", "maxAmount"):
        if query.get(name):
            # An offer's limits change with its provider's balance: the client would be sent offers
            # that it means to exclude.
            raise BadRequest(
                f"{name} is a filter of GET /api/v1/orderbook, not of the stream",
                code="BAD_FILTER",
            )
    shared, provider = parse_filters(query), query.get("provider")
    address = parse_holder("provider", provider) if provider else None
    channel, markers, after = (query.get(name, "") for name in ("channel", "markers", "after"))
    if channel not in ("", "orderbook", "intent"):
        raise BadRequest(
            f"channel is {channel!r}; it must be orderbook or intent", code="BAD_FILTER"
        )
    if markers not in ("", "0", "1"):
        raise BadRequest(f"markers is {markers!r}; it must be 0 or 1", code="BAD_FILTER")
    if after and not _HEIGHT.fullmatch(after):
        raise BadRequest(f"after is {after!r}; it must be the number of a ledger", code="BAD_AFTER")
    return SubscribeRequest(
        Filters(
            rail=shared.rail,
            currency=shared.currency,
            direction=shared.direction,
            provider=address,
            channel=cast(Channel, channel) if channel else None,
        ),
        markers=markers == "1",
        after=Height(int(after)) if after else None,
    )


def parse_client_message(text: str) -> TransfersRequest | None:
    """The request in a message; None if it holds none. Raises `BadClientMessage`."""
    try:
        message = orjson.loads(text)
    except ValueError:
        return None
    if not isinstance(message, dict) or "auth" not in message:
        return None
    token, after = message["auth"], message.get("after")
    # True and false are numbers to Python.
    if not isinstance(token, str) or not (after is None or (type(after) is int and after >= 0)):
        raise BadClientMessage
    return TransfersRequest(token, after)
