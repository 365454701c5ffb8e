"""The offers that are listed now, as the process keeps them to greet clients with."""

from collections.abc import Iterable, Iterator

from api.stream.messages import Listed
from api.stream.outbox import OutboxBatch
from indexer.orderbook.offers import OfferKey


class LiveBook:
    """Follows the outbox from a start, so that a thousand clients who come at once ask nobody."""

    def __init__(self, offers: Iterable[Listed]) -> None:
        self._offers: dict[OfferKey, Listed] = {offer.key: offer for offer in offers}

    def __iter__(self) -> Iterator[Listed]:
        return iter(self._offers.values())

    def apply(self, batch: OutboxBatch) -> None:
        """Take a ledger in."""
        for change in batch.changes:
            offer = change.listed
            if offer is None:
                continue
            if change.op == "remove":
                self._offers.pop(offer.key, None)
            else:
                self._offers[offer.key] = offer
