"""The events of the next Stellar ledgers, requested in a thread before they are read."""

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from indexer.chains.stellar.event_pages import CollectedEvents, EventNode, collect_events
from indexer.config.networks import StellarChain
from indexer.metrics.collectors import waiting
from warehouse_schema.identifiers import Height


@dataclass(frozen=True, slots=True)
class _Request:
    node: EventNode
    first: Height
    events: Future[CollectedEvents]


class EventPrefetch:
    """Requests the events of ledgers before they are read.

    At the head their header is on its way meanwhile: getLedgers sends a ledger's whole meta with
    it, which takes as long as the events of a full ledger. Behind the head, the ledgers before
    them are decoded and written.
    """

    def __init__(self, chain: StellarChain) -> None:
        self._chain = chain
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="event-prefetch")
        self._started: _Request | None = None
        self._is_usable = False
        """Whether the events of `_started` may be taken."""

    def start(self, node: EventNode, first: Height, last: Height) -> None:
        """Request the events of ledgers, unless it was done already.

        Those of an earlier request are dropped, but nothing is requested while it is still running:
        what one node delays must not delay the answer of another.
        """
        if self._started is not None:
            is_same = (self._started.node, self._started.first) == (node, first)
            if not self._started.events.done() or (is_same and self._is_usable):
                return
        events = self._executor.submit(collect_events, node, self._chain, first, last)
        self._started, self._is_usable = _Request(node, first, events), True

    def take(self, node: EventNode, first: Height, last: Height) -> CollectedEvents | None:
        """The events of ledgers from `first` on, maybe not up to `last`, once.

        None when none were requested of them and this node, or further than `last`. Raises what the
        request raised.
        """
        asked = self._started
        if asked is None or not self._is_usable or (asked.node, asked.first) != (node, first):
            return None
        self._is_usable = False
        with waiting("node"):
            events = asked.events.result()
        return events if events.last <= last else None

    def drop(self) -> None:
        """Use nothing that was requested so far."""
        self._is_usable = False

    def close(self) -> None:
        """Start nothing more."""
        self._executor.shutdown(wait=False, cancel_futures=True)
