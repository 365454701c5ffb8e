"""Events of a Stellar node: the pages of getEvents, and what is in them.

getEvents gives no proof of its events; the reader compares them with the headers.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from indexer.chains import range_size
from indexer.chains.raw import Block, StellarEvent
from indexer.chains.stellar.filters import EventFilter, event_filters
from indexer.chains.stellar.ledger_window import range_errors
from indexer.chains.stellar.rpc import (
    RequestRefused,
    StellarRpc,
    base64_bytes,
    field,
    objects,
    unix_seconds,
)
from indexer.chains.stellar.xdr.event_ids import EventId, parse_event_id
from indexer.config.networks import StellarChain
from indexer.errors import InconsistentAnswer, NodeBehind, RangeTooWide, RetentionGap
from warehouse_schema.identifiers import Height, StellarAddress, TxHash

if TYPE_CHECKING:
    import polars as pl

_CURSOR = re.compile("[0-9]{1,19}-[0-9]{1,10}")
FEWER_EVENTS = 1_000
"""Where a node refuses or cannot give as many."""
MIN_COLUMNAR = 1_000
"""Events that are read as columns: fewer cost no more as objects, without polars."""


class EventNode(StellarRpc):
    """A node, and what it was found to give."""

    events_per_call = 5_000
    """At first half of what a node gives by default: one small page after the other takes a full
    ledger a while."""


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


class _Page(NamedTuple):
    """A page of one set of filters, and how far it goes."""

    events: EventPage
    reached: Height
    """The ledger of its cursor. All events of the ledgers before are there."""
    is_inside: bool
    """Whether the cursor is an event of that ledger, of which there may be more."""

    def is_last(self, last: Height) -> bool:
        """Whether all events up to that ledger are there."""
        return self.reached > last or (self.reached == last and not self.is_inside)


@dataclass(frozen=True, slots=True)
class CollectedEvents:
    """All events of a range of ledgers, and maybe some of later ones."""

    last: Height
    """The range's last ledger."""
    page: EventPage
    columns: "pl.DataFrame | None"
    """The same as `event_columns.record_frame`; None when they are few, or not well-formed."""


def collect_events(
    node: EventNode, chain: StellarChain, first: Height, last: Height
) -> CollectedEvents:
    """The events of ledgers from `first` on that match `event_filters`, at once.

    Up to `last`, or to an earlier ledger, at least `first`, once `MAX_EVENTS` are there.
    """
    found: EventPage = []
    for filters in event_filters(chain):
        for page in _pages(node, chain, first, last, filters):
            found += page.events
            if len(found) >= range_size.MAX_EVENTS and not page.is_last(last):
                last = Height(max(first, page.reached - 1))
            if page.is_last(last):
                break
    if len(found) < MIN_COLUMNAR:
        return CollectedEvents(last, found, None)
    # Imported here: polars takes 40 MB and a tenth of a second.
    from indexer.chains.stellar.event_columns import record_frame

    return CollectedEvents(last, found, record_frame(found))


def event_pages(
    node: EventNode, chain: StellarChain, first: Height, last: Height
) -> Iterator[EventPage]:
    """Events of `first … last` that match `event_filters`, and maybe later ones, by page."""
    for filters in event_filters(chain):
        for page in _pages(node, chain, first, last, filters):
            yield page.events


def event_records(page: EventPage, last: Height) -> list[EventRecord]:
    """The events up to a ledger. Raises `InconsistentAnswer` for one that is malformed."""
    return [
        _record(event_id, record)
        for record in page
        # A record beyond `last` does not end the range; the cursor does.
        if (event_id := _event_id(record)).ledger <= last
    ]


def _pages(
    node: EventNode,
    chain: StellarChain,
    first: Height,
    last: Height,
    filters: list[EventFilter],
) -> Iterator[_Page]:
    """Pages of one set of filters, up to the one that has all events up to `last`.

    A page may end before `last` even if it is not full, or empty: only its cursor says how far the
    node searched. After a full page, or what a gateway calls one, it is the last event's id.
    """
    where: dict[str, Any] = {"startLedger": first, "endLedger": last + 1}
    cursor, previous, limit = None, (-1, -1), node.events_per_call
    while True:
        pagination = {"limit": limit} | ({"cursor": cursor} if cursor else {})
        params = {**where, "filters": filters, "pagination": pagination}
        with range_errors(node, chain.id, first, last):
            try:
                page = node.call("getEvents", params)
            except (RangeTooWide, RequestRefused) as error:
                # The caller halves a range; one ledger comes in smaller pages. What the node
                # refuses may be the limit.
                is_halved = first < last and isinstance(error, RangeTooWide)
                if is_halved or limit <= FEWER_EVENTS:
                    raise
                limit = FEWER_EVENTS
                continue
        # Only now is it known that the limit was to blame.
        node.events_per_call = limit
        # The instance that answered must have the range itself: others behind the same address
        # may be ahead. Nodes before RPC 23 do not report the oldest ledger of their events.
        latest = field(page, "latestLedger", int)
        oldest = field({"oldestLedger": 0, **page}, "oldestLedger", int)
        if latest < last:
            raise NodeBehind(f"{chain.id}: events end at {latest}, before {last}")
        if oldest > first:
            raise RetentionGap(f"{chain.id}: events begin at {oldest}, after {first}")
        records = objects(page, "events")
        cursor = field(page, "cursor", str)
        place = _place(cursor)
        if place <= previous:
            raise InconsistentAnswer(f"{chain.id}: getEvents stands still at {cursor}")
        previous = place
        found = _Page(
            [each for each in records if each.get("inSuccessfulContractCall", True)],
            reached=Height(place[0] >> 32),
            is_inside=bool(records) and cursor == records[-1].get("id"),
        )
        yield found
        if found.is_last(last):
            return
        # getEvents refuses a range beside a cursor; the cursor continues beyond the range.
        where = {}


def _place(cursor: str) -> tuple[int, int]:
    """TOID and index of a cursor, which rise from page to page."""
    if not _CURSOR.fullmatch(cursor):
        raise InconsistentAnswer(f"{cursor[:60]!r} is no cursor of getEvents")
    toid, _, index = cursor.partition("-")
    return int(toid), int(index)


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
