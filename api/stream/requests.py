"""The query of `/api/v1/stream`, read strictly: what is not understood is refused.

The filters look at what an offer or an order is identified by and keeps for life, so that whether
an entry is within a filter never changes: nothing has to be remembered a client, and an `update` is
never an `add` or a `remove` in disguise. An empty value is the same as none; unknown parameters are
left alone, and a known one given twice is refused.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from api.errors import BadRequest
from api.orderbook.filters import FILTERS, parse_filters, parse_provider
from indexer.market.escrow_events import OrderDirection
from warehouse_schema.identifiers import Height, StellarAddress

WISHES = (*FILTERS, "provider", "channel", "markers", "after")

Channel: TypeAlias = Literal["orderbook", "intent"]

_HEIGHT = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class Topic:
    """What an offer or an order is about. Nothing of it changes while it lives."""

    channel: Channel
    provider: StellarAddress
    direction: OrderDirection
    currency: str
    rails: tuple[str, ...]
    """An order has one."""


@dataclass(frozen=True, slots=True)
class Filters:
    """What a client wants to hear of; None leaves it open."""

    rail: str | None = None
    currency: str | None = None
    direction: OrderDirection | None = None
    provider: StellarAddress | None = None
    channel: Channel | None = None

    def admit(self, topic: Topic) -> bool:
        """Whether the topic is within the filters."""
        return (
            (self.channel is None or self.channel == topic.channel)
            and (self.rail is None or self.rail in topic.rails)
            and (self.currency is None or self.currency == topic.currency)
            and (self.direction is None or self.direction == topic.direction)
            and (self.provider is None or self.provider == topic.provider)
        )


@dataclass(frozen=True, slots=True)
class SubscribeRequest:
    """What a client asked for as it connected."""

    filters: Filters = Filters()
    markers: bool = False
    """Wants to be told of ledgers that change nothing."""
    after: Height | None = None
    """Has the book as of this ledger, and wants what came since."""


def parse_subscribe_request(query: Mapping[str, str]) -> SubscribeRequest:
    """Raises `BadRequest` that names the parameter."""
    return SubscribeRequest(
        _filters(query), _flag("markers", query), _after(query.get("after", ""))
    )


def _filters(query: Mapping[str, str]) -> Filters:
    for name in ("minAmount", "maxAmount"):
        if query.get(name):
            # An offer's limits move with its provider's balance. A client that believes in such a
            # filter would be shown offers it means to have excluded.
            raise BadRequest(
                f"{name} is a filter of GET /api/v1/orderbook, not of the stream",
                code="BAD_FILTER",
            )
    shared, provider = parse_filters(query), query.get("provider")
    return Filters(
        rail=shared.rail,
        currency=shared.currency,
        direction=shared.direction,
        provider=parse_provider(provider) if provider else None,
        channel=_channel(query.get("channel", "")),
    )


def _channel(text: str) -> Channel | None:
    if not text:
        return None
    if text not in ("orderbook", "intent"):
        raise BadRequest(f"channel is {text!r}; it must be orderbook or intent", code="BAD_FILTER")
    return cast(Channel, text)


def _flag(name: str, query: Mapping[str, str]) -> bool:
    text = query.get(name, "")
    if text not in ("", "0", "1"):
        raise BadRequest(f"{name} is {text!r}; it must be 0 or 1", code="BAD_FILTER")
    return text == "1"


def _after(text: str) -> Height | None:
    if not text:
        return None
    if not _HEIGHT.fullmatch(text):
        raise BadRequest(f"after is {text!r}; it must be the number of a ledger", code="BAD_AFTER")
    return Height(int(text))
