"""The events of the next Stellar ledgers, requested in a thread meanwhile."""

from concurrent.futures import Future, ThreadPoolExecutor

from indexer.chains.stellar.event_pages import CollectedEvents, EventNode, collect_events
from indexer.config.networks import StellarChain
from indexer.metrics.collectors import waiting
from warehouse_schema.identifiers import Height


class EventPrefetch:
    """Requests the events of ledgers before they are read.

    At the head their header is on its way meanwhile: getLedgers sends a ledger's whole meta with
    it, which takes as long as the events of a full ledger. Behind the head, the ledgers before
    them are decoded and written.
    """

    def __init__(self, chain: StellarChain) -> None:
        self._chain = chain
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="event-prefetch")
        self._started: tuple[EventNode, Height, Height, Future[CollectedEvents]] | None = None

    def start(self, node: EventNode, first: Height, last: Height) -> None:
        """Request the events of ledgers that the node has, unless it was done already.

        Those of an earlier request are dropped, but nothing is requested while it is still running:
        what one node delays must not delay the answer of another.
        """
        if self._started is not None:
            asked, begin, _, events = self._started
            if (asked, begin) == (node, first) or not events.done():
                return
        events = self._executor.submit(collect_events, node, self._chain, first, last)
        self._started = (node, first, last, events)

    def take(self, node: EventNode, first: Height, last: Height) -> CollectedEvents | None:
        """The events of ledgers from `first` on, maybe not up to `last`, once.

        None when none were requested of them and this node. Raises what the request raised.
        """
        if self._started is None:
            return None
        asked, begin, end, events = self._started
        if (asked, begin) != (node, first) or end > last:
            return None
        self._started = None
        with waiting("node"):
            return events.result()

    def close(self) -> None:
        """Start nothing more."""
        self._executor.shutdown(wait=False, cancel_futures=True)
