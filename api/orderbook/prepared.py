"""One state of the order book, prepared to be sent: every number is formatted once.

Nothing here reads a clock or the warehouse.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import orjson

from api.orderbook.filters import OfferFilters, fits
from api.orderbook.queries import Book, Mark
from api.orderbook.recent import RecentOrders
from api.orderbook.responses import shape_offer
from api.responses import BodyCache, StoredBody
from indexer.orderbook.offers import OfferRow
from warehouse_schema.identifiers import Bytes32, StellarAddress

_MOST_LISTS = 32 * 1024 * 1024
_MOST_RECORDS = 8 * 1024 * 1024
"""Bytes. Anyone may ask for any filter: what is kept of the answers is bounded."""

RecordKey: TypeAlias = StellarAddress | Bytes32 | RecentOrders
"""A provider's address, an order's id, or which of the newest orders: none looks like another."""


class Listing:
    """The offers of one state, in the order in which they are listed."""

    def __init__(self, offers: Sequence[OfferRow]) -> None:
        self._offers = [(offer, orjson.dumps(shape_offer(offer))) for offer in offers]
        self._lists: BodyCache[OfferFilters] = BodyCache(_MOST_LISTS)

    def fitting(self, filters: OfferFilters) -> StoredBody:
        """A JSON array of the offers that fit."""
        known = self._lists.get(filters)
        if known is not None:
            return known
        texts = (text for offer, text in self._offers if fits(offer, filters))
        body = StoredBody(b"[" + b",".join(texts) + b"]")
        self._lists.put(filters, body)
        return body


@dataclass(frozen=True, slots=True)
class Prepared:
    """A state of the book, as its answers are sent."""

    mark: Mark
    book: Book
    listing: Listing
    summary: StoredBody
    records: BodyCache[RecordKey] = field(default_factory=lambda: BodyCache(_MOST_RECORDS))
    """Providers and orders that were asked for and are there."""
