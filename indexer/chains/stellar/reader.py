"""Reader of Stellar RPC nodes.

Headers (getLedgers) are checked: each hashes to its name and names its parent. Events (getEvents)
have no proof; they are compared with the headers, and a range is returned whole or not at all.
Closed ledgers never change, so headers are cached.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from indexer.chains.http.node_pool import NodePool, PooledNode
from indexer.chains.http.operators import http_urls
from indexer.chains.identity import check_stellar_node
from indexer.chains.polling import PollSchedule
from indexer.chains.ports import Block, Range, StellarEvent
from indexer.chains.range_size import check_events
from indexer.chains.raw import Upgrade
from indexer.chains.stellar.event_pages import (
    EventNode,
    EventPage,
    collect_events,
    event_pages,
    event_records,
)
from indexer.chains.stellar.event_prefetch import EventPrefetch
from indexer.chains.stellar.filters import requested_contracts, requested_events
from indexer.chains.stellar.ledger_window import ledger_window, range_errors
from indexer.chains.stellar.node_version import check_software, upgrade_ahead
from indexer.chains.stellar.rpc import base64_bytes, field, objects
from indexer.chains.stellar.xdr.ledgers import NEWEST_PROTOCOL, block_of_header, check_linked
from indexer.chains.watchlist import Watched
from indexer.config.networks import StellarChain
from indexer.errors import (
    ConfigurationError,
    InconsistentAnswer,
    IndexerError,
    NodeBehind,
    UnsupportedProtocol,
)
from indexer.metrics.collectors import waiting
from warehouse_schema.identifiers import ChainId, Height

if TYPE_CHECKING:
    from indexer.chains.stellar.event_columns import LedgerColumns

T = TypeVar("T")

LEDGERS_PER_CALL = 10
"""getLedgers sends each ledger's whole meta with its header: 1 to 2 MB on pubnet, 20 MB with 6,000
transfers."""
_MAX_CACHED_HEADERS = 512


class _CheckedRpc(EventNode, PooledNode):
    """A node whose network and versions are known."""

    def __init__(self, chain: StellarChain, url: str, timeout: float) -> None:
        super().__init__(url, timeout=timeout)
        self._chain = chain

    def verify(self) -> None:
        """Raise `WrongChain`, `UnsupportedProtocol` or `ConfigurationError` for an unfit node."""
        protocol = check_stellar_node(self, self._chain)
        if protocol > NEWEST_PROTOCOL:
            raise UnsupportedProtocol(
                f"{self.host}: {self._chain.id} runs protocol {protocol}; this build reads up to"
                f" {NEWEST_PROTOCOL}"
            )
        check_software(self, self._chain)
        # Another instance may answer now, or one with more time.
        self.events_per_call = EventNode.events_per_call


class StellarReader:
    """A `ChainReader` over Stellar RPC, with failover.

    A node of another network is removed from the pool. A permanent error, such as a retention gap
    or denied access, is raised only when every node gives one.
    """

    def __init__(self, chain: StellarChain, urls: Sequence[str], *, timeout: float = 30.0) -> None:
        """`timeout` is seconds of one request. Raises `ConfigurationError` without an http URL."""
        self.chain: ChainId = chain.id
        self._chain = chain
        self._nodes = NodePool(
            chain.id, [_CheckedRpc(chain, url, timeout) for url in http_urls(urls)]
        )
        self._headers: dict[Height, Block] = {}
        self._head: Block | None = None
        self._prefetch = EventPrefetch(chain)
        self._next: tuple[Height, int] | None = None
        """The ledger after the range that was read last, and how many ledgers were wanted then."""
        self._schedule = PollSchedule(chain.block_seconds)

    def close(self) -> None:
        """Close every connection."""
        self._prefetch.close()
        self._nodes.close()

    def check_identity(self) -> None:
        """Raise `WrongChain` or `UnsupportedProtocol` unless a node serves our chain.

        `ConfigurationError` when it runs software that loses events.
        """
        for node in self._nodes.nodes:
            node.invalidate()
        self._prefetch.drop()
        self._ask(lambda: None)

    def upgrade_ahead(self) -> Upgrade | None:
        """Protocol newer than this build that the node can apply; None if there is none."""
        return self._ask(lambda: upgrade_ahead(self._nodes.current))

    def head(self) -> Block:
        """The newest ledger seen. It never goes back, though instances of a node may differ."""

        def newest() -> Block:
            node = self._nodes.current
            _, latest = ledger_window(node, self.chain)
            if self._head is None or latest > self._head.height:
                self._request_ahead(latest)
                self._head = self._blocks(latest, latest)[0]
            return self._head

        return self._ask(newest)

    def block(self, height: Height) -> Block:
        """One ledger's header. `NodeBehind` or `RetentionGap` when the node does not have it."""
        return self._ask(lambda: self._blocks(height, height)[0])

    def read(self, first: Height, last: Height, watched: Watched) -> Range:
        """Ledgers and wanted events of `first … last` (`filters.py`)."""

        def read() -> Range:
            pages = event_pages(self._nodes.current, self._chain, first, last)
            return self._range(self._linked(first, last), pages, watched)

        return self._ask(read)

    def read_full(self, first: Height, last: Height, watched: Watched) -> "Range | LedgerColumns":
        """As `read`, but maybe not up to `last`; as columns, if there are many events."""

        def read() -> "Range | LedgerColumns":
            node = self._nodes.current
            events = self._prefetch.take(node, first, last)
            if events is None:
                events = collect_events(node, self._chain, first, last)
            blocks = self._linked(first, events.last)
            self._next = (Height(events.last + 1), last - first + 1)
            if self._head is not None:
                self._request_ahead(self._head.height)
            if events.columns is not None:
                from indexer.chains.stellar.event_columns import ledger_columns

                columns = ledger_columns(self._chain, blocks, events.columns, watched)
                if columns is not None:
                    return columns
            return self._range(blocks, [events.page], watched)

        return self._ask(read)

    def wait_for_head(self, above: Height, timeout: float) -> Block | None:
        """Poll for a head above `above` when one is due, for at most `timeout` seconds."""
        if self._head is not None and self._head.height > above:
            return self._head
        deadline = time.monotonic() + timeout
        while True:
            now = time.monotonic()
            remaining = max(0.0, deadline - now)
            pause = self._schedule.pause(now)
            with waiting("idle"):
                time.sleep(min(pause, remaining))
            if pause > remaining:
                return None
            head = self.head()
            self._schedule.record_poll(time.monotonic(), new=head.height - above)
            if head.height > above:
                return head

    def _request_ahead(self, latest: Height) -> None:
        """Request the events after the range that was read last, up to a ledger of the node."""
        if self._next is not None and self._next[0] <= latest:
            first, count = self._next
            last = Height(min(latest, first + count - 1))
            self._prefetch.start(self._nodes.current, first, last)

    def _linked(self, first: Height, last: Height) -> list[Block]:
        blocks = self._blocks(first, last)
        check_linked(blocks)
        return blocks

    def _range(
        self, blocks: Sequence[Block], pages: Iterable[EventPage], watched: Watched
    ) -> Range:
        by_height = {block.height: block for block in blocks}
        found: dict[str, StellarEvent] = {}
        requested = requested_contracts(self._chain)
        for page in pages:
            check_events(self.chain, blocks[0].height, blocks[-1].height, len(found))
            records = event_records(page, blocks[-1].height)
            events = [record.in_block(by_height.get(record.event_id.ledger)) for record in records]
            # One page at a time in `read`: a token may have more events than fit into memory.
            wrong = [event for event in events if event.contract not in requested]
            for event in requested_events(self._chain, watched, events):
                known = found.setdefault(event.event_id, event)
                if known is not event and known != event:
                    wrong.append(event)
            if wrong:
                raise InconsistentAnswer(f"event {wrong[0].event_id} is not what was asked for")
        return Range(tuple(blocks), tuple(found[event_id] for event_id in sorted(found)))

    # Calls.

    def _ask(self, ask: Callable[[], T]) -> T:
        """Result of `ask` at the current node (`NodePool.failover_on_permanent`).

        After a failure nothing that was requested ahead is used: the node is verified again first.
        """

        def ask_node(node: _CheckedRpc) -> T:
            try:
                return ask()
            except (UnsupportedProtocol, InconsistentAnswer) as error:
                node.invalidate()
                if node.host in str(error):
                    raise
                raise type(error)(f"{node.host}: {error}") from error

        try:
            return self._nodes.failover_on_permanent(ask_node, ConfigurationError)
        except IndexerError as error:
            self._prefetch.drop()
            self._next = None
            if isinstance(error, InconsistentAnswer):
                # Cached headers of the node may be wrong too.
                self._headers.clear()
                self._head = None
            raise

    # Headers.

    def _blocks(self, first: Height, last: Height) -> list[Block]:
        """Headers of `first … last`, from the cache or the node."""
        heights = [Height(height) for height in range(first, last + 1)]
        found = {height: self._headers[height] for height in heights if height in self._headers}
        missing = [height for height in heights if height not in found]
        while missing:
            start = missing[0]
            limit = min(LEDGERS_PER_CALL, missing[-1] - start + 1)
            params = {"startLedger": start, "pagination": {"limit": limit}}
            node = self._nodes.current
            with range_errors(node, self.chain, start, missing[-1]):
                page = node.call("getLedgers", params, skipped="metadataXdr")
            blocks = [_block(record, self.chain) for record in objects(page, "ledgers")]
            if not blocks:
                raise NodeBehind(f"{self.chain}: the node gave no ledger from {start} on")
            if [block.height for block in blocks] != list(range(start, start + len(blocks))):
                raise InconsistentAnswer(f"{self.chain}: ledgers from {start} on have gaps")
            found |= {block.height: block for block in blocks}
            missing = [height for height in missing if height not in found]
        for height, block in found.items():
            self._headers.setdefault(height, block)
        while len(self._headers) > _MAX_CACHED_HEADERS:
            del self._headers[next(iter(self._headers))]
        return [found[height] for height in heights]


def _block(record: Mapping[str, Any], chain: ChainId) -> Block:
    block = block_of_header(base64_bytes(field(record, "headerXdr", str)), chain)
    given = (record.get("sequence"), record.get("hash"), str(record.get("ledgerCloseTime")))
    if given != (block.height, block.hash, str(block.time)):
        raise InconsistentAnswer(f"{chain}: ledger {block.height} was given as {given}")
    return block
