"""Messages of a ledger to stream clients: rows of `projections.stream_events`. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from indexer.orderbook.offers import OfferChanges, offer_entry
from indexer.orderbook.orders import OrderRow, order_entry


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One row of `projections.stream_events`, without id, chain and ledger."""

    channel: Literal["orderbook", "intent"]
    op: Literal["add", "update", "remove"] | None
    entry: Mapping[str, Any]
    """The full offer or order, members named as columns, amounts as strings of digits."""
    last: bool = False


def messages(offers: OfferChanges, intents: Sequence[OrderRow]) -> list[StreamEvent]:
    """The messages of one ledger: removes, adds, updates, then intents; the final one is `last`.

    Removes come first: a changed set of rails removes one offer and adds another.
    """
    sent = [
        *(StreamEvent("orderbook", "remove", offer_entry(offer)) for offer in offers.removed),
        *(StreamEvent("orderbook", "add", offer_entry(offer)) for offer in offers.added),
        *(StreamEvent("orderbook", "update", offer_entry(offer)) for offer in offers.updated),
        *(StreamEvent("intent", None, order_entry(order)) for order in intents),
    ]
    return [*sent[:-1], *(replace(final, last=True) for final in sent[-1:])]
