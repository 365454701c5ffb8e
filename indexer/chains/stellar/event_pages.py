"""Events of a Stellar node: the pages of getEvents, and those of a ledger requested ahead.

getEvents gives no proof of its events; the reader compares them with the headers.
"""

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from indexer.chains.raw import Block, StellarEvent
from indexer.chains.stellar.filters import EventFilter, event_filters
from indexer.chains.stellar.ledger_window import range_errors
from indexer.chains.stellar.rpc import StellarRpc, base64_bytes, field, objects, unix_seconds
from indexer.chains.stellar.xdr.event_ids import EventId, parse_event_id
from indexer.config.networks import StellarChain
from indexer.errors import InconsistentAnswer, NodeBehind, RangeTooWide, RetentionGap
from indexer.metrics.collectors import waiting
from warehouse_schema.identifiers import Height, StellarAddress, TxHash

if TYPE_CHECKING:
    import polars as pl

EVENTS_PER_CALL = 5_000
"""Half of what a node gives by default. One call after the other takes a full ledger a while."""
FEWER_EVENTS = 1_000
"""Of one ledger, where a node cannot give as many."""
MIN_COLUMNAR = 1_000
"""Events of a ledger that are read as columns: fewer cost no more as objects, without polars."""


class EventRecord(NamedTuple):
    """An event as a node gives it: its ledger is known by number and close time alone."""

    event_id: EventId
    text: str
    """The id as given."""
    closed_at: float
    """Unix seconds."""
    tx_hash: TxHash
    contract: StellarAddress
    topics: tuple[bytes, ...]
    value: bytes

    def in_block(self, block: Block | None) -> StellarEvent:
        """The event in its ledger. Raises `InconsistentAnswer` for another ledger, or none."""
        if block is None or self.closed_at != block.time:
            raise InconsistentAnswer(f"event {self.text} is not of the ledger it says")
        return StellarEvent(
            seen=block.provenance(self.tx_hash, self.event_id.position),
            event_id=self.text,
            contract=self.contract,
            topics=self.topics,
            value=self.value,
        )


EventPage: TypeAlias = list[Mapping[str, Any]]
"""Events as a node gives them, without those of failed calls."""


def event_pages(
    node: StellarRpc, chain: StellarChain, first: Height, last: Height
) -> Iterator[EventPage]:
    """Events of `first … last` that match `event_filters`, and maybe some behind, by page."""
    for filters in event_filters(chain):
        yield from _pages(node, chain, first, last, filters)


def event_records(page: EventPage, last: Height) -> list[EventRecord]:
    """The events up to a ledger. Raises `InconsistentAnswer` for one that is malformed."""
    return [
        _record(event_id, record)
        for record in page
        # A record beyond `last` does not end the range; the cursor does.
        if (event_id := _event_id(record)).ledger <= last
    ]


def _pages(
    node: StellarRpc,
    chain: StellarChain,
    first: Height,
    last: Height,
    filters: list[EventFilter],
) -> Iterator[EventPage]:
    """Pages of one set of filters.

    A page may end before `last` even if it is not full, or empty: only its cursor says how far the
    node searched.
    """
    where: dict[str, Any] = {"startLedger": first, "endLedger": last + 1}
    cursor, limit = None, EVENTS_PER_CALL
    while True:
        pagination = {"limit": limit} | ({"cursor": cursor} if cursor else {})
        params = {**where, "filters": filters, "pagination": pagination}
        with range_errors(node, chain.id, first, last):
            try:
                page = node.call("getEvents", params)
            except RangeTooWide:
                # The caller halves a range; one ledger comes in smaller pages.
                if first < last or limit <= FEWER_EVENTS:
                    raise
                limit = FEWER_EVENTS
                continue
        # The instance that answered must have the range itself: others behind the same address
        # may be ahead. Nodes before RPC 23 do not report the oldest ledger of their events.
        latest = field(page, "latestLedger", int)
        oldest = field({"oldestLedger": 0, **page}, "oldestLedger", int)
        if latest < last:
            raise NodeBehind(f"{chain.id}: events end at {latest}, before {last}")
        if oldest > first:
            raise RetentionGap(f"{chain.id}: events begin at {oldest}, after {first}")
        records = objects(page, "events")
        yield [each for each in records if each.get("inSuccessfulContractCall", True)]
        previous, cursor = cursor, field(page, "cursor", str)
        toid, dash, _ = cursor.partition("-")
        if not dash or not toid.isdecimal():
            raise InconsistentAnswer(f"{cursor!r} is no cursor of getEvents")
        # A full page may end inside a ledger.
        reached = int(toid) >> 32
        if reached > last or (reached == last and len(records) < limit):
            return
        if cursor == previous:
            raise InconsistentAnswer(f"{chain.id}: getEvents stands still at {cursor}")
        # getEvents refuses a range beside a cursor; the cursor continues beyond the range.
        where = {}


@dataclass(frozen=True, slots=True)
class EventsAhead:
    """The events of a ledger that were requested ahead."""

    page: EventPage
    columns: "pl.DataFrame | None"
    """The same as `event_columns.record_frame`, where they are many."""


class EventPrefetch:
    """Requests the events of a new ledger in a thread, while its header is on its way.

    getLedgers sends a ledger's whole meta with its header, which takes as long as the events of a
    full ledger.
    """

    def __init__(self, chain: StellarChain) -> None:
        self._chain = chain
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="event-prefetch")
        self._started: tuple[StellarRpc, Height, Future[EventsAhead]] | None = None

    def start(self, node: StellarRpc, height: Height) -> None:
        """Request the events of a ledger that the node has; those of an earlier one are dropped.

        Nothing is requested while an earlier request is still running: what one node delays must
        not delay the answer of another.
        """
        if self._started is not None and not self._started[2].done():
            return
        events = self._executor.submit(_ledger_events, node, self._chain, height)
        self._started = (node, height, events)

    def take(self, node: StellarRpc, first: Height, last: Height) -> EventsAhead | None:
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


def _ledger_events(node: StellarRpc, chain: StellarChain, height: Height) -> EventsAhead:
    page = [each for page in event_pages(node, chain, height, height) for each in page]
    if len(page) < MIN_COLUMNAR:
        return EventsAhead(page, None)
    # Imported here: polars takes 40 MB and a tenth of a second.
    from indexer.chains.stellar.event_columns import record_frame

    return EventsAhead(page, record_frame(page))


def _event_id(record: Mapping[str, Any]) -> EventId:
    """The id of an event, whose ledger must equal the record's."""
    ledger, text = field(record, "ledger", int), field(record, "id", str)
    try:
        event_id = parse_event_id(text)
    except ValueError as error:
        raise InconsistentAnswer(f"event {text}: {error}") from error
    if event_id.ledger != ledger:
        raise InconsistentAnswer(f"event {text} is not of the ledger {ledger} that it says")
    return event_id


def _record(event_id: EventId, record: Mapping[str, Any]) -> EventRecord:
    text = field(record, "id", str)
    try:
        closed_at = unix_seconds(field(record, "ledgerClosedAt", str))
    except ValueError as error:
        raise InconsistentAnswer(f"event {text}: {error}") from error
    # Nodes leave out the list of an event without topics.
    topics = field(record, "topic", list) if "topic" in record else []
    return EventRecord(
        event_id=event_id,
        text=text,
        closed_at=closed_at,
        tx_hash=TxHash(field(record, "txHash", str)),
        contract=StellarAddress(field(record, "contractId", str)),
        topics=tuple(map(base64_bytes, topics)),
        value=base64_bytes(field(record, "value", str)),
    )
