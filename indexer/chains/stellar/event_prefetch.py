"""The events of a new Stellar ledger, requested in a thread while its header is on its way."""

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from indexer.chains.stellar.event_pages import EventNode, EventPage, event_pages
from indexer.config.networks import StellarChain
from indexer.metrics.collectors import waiting
from warehouse_schema.identifiers import Height

if TYPE_CHECKING:
    import polars as pl

MIN_COLUMNAR = 1_000
"""Events of a ledger that are read as columns: fewer cost no more as objects, without polars."""


@dataclass(frozen=True, slots=True)
class EventsAhead:
    """The events of a ledger that were requested ahead."""

    page: EventPage
    columns: "pl.DataFrame | None"
    """The same as `event_columns.record_frame`, where they are many."""


class EventPrefetch:
    """Requests the events of a new ledger.

    getLedgers sends a ledger's whole meta with its header, which takes as long as the events of a
    full ledger.
    """

    def __init__(self, chain: StellarChain) -> None:
        self._chain = chain
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="event-prefetch")
        self._started: tuple[EventNode, Height, Future[EventsAhead]] | None = None

    def start(self, node: EventNode, height: Height) -> None:
        """Request the events of a ledger that the node has; those of an earlier one are dropped.

        Nothing is requested while an earlier request is still running: what one node delays must
        not delay the answer of another.
        """
        if self._started is not None and not self._started[2].done():
            return
        events = self._executor.submit(_ledger_events, node, self._chain, height)
        self._started = (node, height, events)

    def take(self, node: EventNode, first: Height, last: Height) -> EventsAhead | None:
        """The events of that ledger, once; None for another range or node.

        Raises what the request raised.
        """
        if self._started is None:
            return None
        asked, height, events = self._started
        if (node, first, last) != (asked, height, height):
            return None
        self._started = None
        with waiting("node"):
            return events.result()

    def close(self) -> None:
        """Start nothing more."""
        self._executor.shutdown(wait=False, cancel_futures=True)


def _ledger_events(node: EventNode, chain: StellarChain, height: Height) -> EventsAhead:
    page = [each for page in event_pages(node, chain, height, height) for each in page]
    if len(page) < MIN_COLUMNAR:
        return EventsAhead(page, None)
    # Imported here: polars takes 40 MB and a tenth of a second.
    from indexer.chains.stellar.event_columns import record_frame

    return EventsAhead(page, record_frame(page))
