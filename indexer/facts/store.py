"""Facts in, facts out. Every function works inside the caller's transaction.

Order, wherever events are given, is chain, height, position: the order in which they happened, as
far as they happened in one order at all (heights of two chains say nothing about each other).
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from itertools import starmap
from typing import Any, TypeVar

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Connection,
    Select,
    Table,
    TableValuedAlias,
    Text,
    and_,
    bindparam,
    delete,
    func,
    insert,
    select,
)

from indexer.bridges.oft.events import OftSent
from indexer.chains.events import Event, Provenance
from indexer.chains.raw import Block, EvmLog, RawEvent, StellarEvent
from indexer.facts import days
from indexer.facts.alarms import clear_alarms_about, raise_alarm
from indexer.facts.rows import EVENT_MAPPINGS, RAW_MAPPINGS, TableMapping, copy_into, stream_rows
from indexer.facts.rows import copy_rows as copy_rows
from warehouse_schema.facts import (
    blocks,
    orphans,
    quarantined_ledgers,
    unproven_blocks,
)
from warehouse_schema.identifiers import ChainId, Height, TxHash, is_evm
from warehouse_schema.queries import any_of

_AT_ONCE = 1_000
"""Rows of a server-side cursor that are in memory at once."""

MAX_HEIGHT = Height(2**63 - 1)
"""Above every block: as an end, however far a chain is."""

_BLOCK_COLUMNS = [blocks.c[field.name] for field in fields(Block)]

UNDECODABLE = "undecodable"
"""Kind of alarm: an event of ours that could not be decoded."""

E = TypeVar("E", bound=Event)


@dataclass(frozen=True, slots=True)
class DecodedEvent:
    """A raw event and what became of it.

    Neither an event nor a reason means that the raw event is of no type that we keep.
    """

    raw: RawEvent
    event: Event | None
    undecodable: str | None
    """Why it could not be decoded."""


# In.


def append(conn: Connection, new_blocks: Sequence[Block], decoded: Sequence[DecodedEvent]) -> None:
    """Write blocks, their raw events, and the events decoded from these.

    A raw event that could not be decoded is kept, marked with the reason, and alarmed. Raises
    SQLAlchemy's `IntegrityError` when one of the blocks or events is there already; the
    cursor, moved first in the same transaction, keeps that from happening.
    """
    counts = Counter(item.raw.seen.height for item in decoded)
    copy_into(
        conn,
        [*_BLOCK_COLUMNS, blocks.c.events],
        ((*astuple(block), counts[block.height]) for block in new_blocks),
    )
    raws: dict[type[RawEvent], list[DecodedEvent]] = defaultdict(list)
    events: dict[type[Event], list[Event]] = defaultdict(list)
    for item in decoded:
        raws[type(item.raw)].append(item)
        if item.event is not None:
            events[type(item.event)].append(item.event)
    for raw_type, items in raws.items():
        _append_raw(conn, RAW_MAPPINGS[raw_type], items)
    for event_type, of_type in events.items():
        shelf = EVENT_MAPPINGS[event_type]
        copy_into(conn, shelf.columns, map(shelf.row, of_type))
    for item in decoded:
        if item.undecodable is not None:
            seen = item.raw.seen
            subject = undecodable_subject(seen.height, seen.tx_hash, seen.position)
            raise_alarm(conn, seen.chain, UNDECODABLE, subject, item.undecodable)


def undecodable_subject(height: Height, tx_hash: TxHash, position: int) -> str:
    """What the alarm about an undecodable event is about."""
    return f"{height}/{tx_hash}/{position}"


def _append_raw(conn: Connection, shelf: TableMapping, items: Iterable[DecodedEvent]) -> None:
    outcome = [shelf.table.c.event, shelf.table.c.undecodable]
    rows = (
        (
            *shelf.row(item.raw),
            None if item.event is None else type(item.event).__name__,
            item.undecodable,
        )
        for item in items
    )
    copy_into(conn, [*shelf.columns, *outcome], rows)


def delete_above(conn: Connection, chain: ChainId, *, above: Height) -> list[Event]:
    """Remove every block above a height and all that was seen in it; the events that were there.

    The raw events move to `facts.orphans`. Alarms about what was seen are cleared: nobody has to
    look at what did not happen, and what happens again in another block raises its alarm anew.
    """
    first = Height(above + 1)
    gone = {*undecodable_subjects(conn, chain, first, None)}
    for shelf in RAW_MAPPINGS.values():
        _orphan(conn, shelf.table, chain, above)
    taken = remove_range(conn, chain, first, None)
    gone |= {subject for event in taken for subject in _subjects(event)}
    clear_alarms_about(conn, chain, *gone)
    return taken


def _subjects(event: Event) -> Iterator[str]:
    """What alarms about an event may be about, beside the event itself."""
    yield event.seen.tx_hash
    if isinstance(event, OftSent):
        yield event.guid


def undecodable_subjects(
    conn: Connection, chain: ChainId, first: Height, last: Height | None
) -> Iterator[str]:
    """Subjects of the undecodable events of `first … last` (None: and all above)."""
    raw = RAW_MAPPINGS[EvmLog if is_evm(chain) else StellarEvent].table
    places = select(raw.c.height, raw.c.tx_hash, raw.c.position).where(
        _lies_in(raw, chain, first, last), raw.c.undecodable.is_not(None)
    )
    for height, tx_hash, position in conn.execute(places):
        yield undecodable_subject(height, tx_hash, position)


def remove_range(
    conn: Connection, chain: ChainId, first: Height, last: Height | None
) -> list[Event]:
    """Remove the blocks `first … last` (None: all above) and all that was seen in them.

    Counts as a change of their days. Gives the events that were there; the caller refolds what they
    touched. For blocks that the
    chain took back use `delete_above`, which keeps the raw events as orphans.
    """
    days.record_change(conn, chain, first, last)
    taken = list(read_events(conn, EVENT_MAPPINGS, chain, first, last))
    emptied = [EVENT_MAPPINGS[event_type].table for event_type in {type(event) for event in taken}]
    raw = (shelf.table for shelf in RAW_MAPPINGS.values())
    for table in (*emptied, *raw, quarantined_ledgers, unproven_blocks, blocks):
        conn.execute(delete(table).where(_lies_in(table, chain, first, last)))
    return taken


def _orphan(conn: Connection, table: Table, chain: ChainId, above: Height) -> None:
    kept = ("chain", "height", "block_hash", "tx_hash", "position", "event")
    whole_row = func.row_to_json(table.table_valued()).cast(Text)
    leaving = select(*(table.c[name] for name in kept), whole_row).where(
        _lies_in(table, chain, Height(above + 1), None)
    )
    conn.execute(insert(orphans).from_select([*kept, "row"], leaving))


def _lies_in(
    table: Table, chain: ChainId, first: Height, last: Height | None
) -> ColumnElement[bool]:
    lies_in = (table.c.chain == chain) & (table.c.height >= first)
    return lies_in if last is None else lies_in & (table.c.height <= last)


# Out.


def read_events(
    conn: Connection,
    event_types: Collection[type[E]],
    chain: ChainId | None = None,
    first: Height | None = None,
    last: Height | None = None,
) -> Iterator[E]:
    """Events of these types in order, of one chain or all, from `first` to `last` inclusive.

    Streams: memory is bounded by the number of types. The caller's transaction has to stay open
    until the last event is read.
    """
    streams = [
        _stream(conn, EVENT_MAPPINGS[event_type], chain, first, last) for event_type in event_types
    ]
    return heapq.merge(*streams, key=_order)


def read_raw(conn: Connection, chain: ChainId, first: Height, last: Height) -> Iterator[RawEvent]:
    """Raw events in order, from `first` to `last` inclusive, streamed as `read_events` does."""
    return _stream(
        conn, RAW_MAPPINGS[EvmLog if is_evm(chain) else StellarEvent], chain, first, last
    )


def events_by_key(
    conn: Connection, event_type: type[E], column: str, values: Collection[str]
) -> list[E]:
    """Events of a type whose text column has one of these values, in order."""
    if not values:
        return []
    shelf = EVENT_MAPPINGS[event_type]
    query = _query(shelf).where(shelf.table.c[column] == any_of(values))
    return [shelf.item(row) for row in conn.execute(query)]


def events_where(
    conn: Connection, event_type: type[E], *conditions: ColumnElement[bool]
) -> list[E]:
    """Events of a type whose rows meet these conditions on its table, in order."""
    shelf = EVENT_MAPPINGS[event_type]
    return [shelf.item(row) for row in conn.execute(_query(shelf).where(*conditions))]


def events_of_transactions(
    conn: Connection, event_types: Collection[type[E]], transactions: Collection[Provenance]
) -> list[E]:
    """Events of these types in the very transactions (and blocks) of these places, in order."""
    places = sorted({(seen.chain, seen.block_hash, seen.tx_hash) for seen in transactions})
    if not places:
        return []
    columns = [bindparam(None, list(part), type_=ARRAY(Text)) for part in zip(*places, strict=True)]
    wanted = func.unnest(*columns).table_valued("chain", "block_hash", "tx_hash")
    wanted = wanted.render_derived("wanted")
    found: list[E] = []
    for event_type in event_types:
        shelf = EVENT_MAPPINGS[event_type]
        query = _query(shelf).join(wanted, _same_columns(shelf.table, wanted))
        found.extend(shelf.item(row) for row in conn.execute(query))
    return sorted(found, key=_order)


def block_at(conn: Connection, chain: ChainId, height: Height) -> Block | None:
    """The stored block at a height."""
    query = stored_blocks(chain).where(blocks.c.height == height)
    row = conn.execute(query).one_or_none()
    return None if row is None else Block(*row)


def last_block(conn: Connection, chain: ChainId, first: Height, last: Height) -> Block | None:
    """The highest stored block of `first … last`."""
    within = stored_blocks(chain).where(blocks.c.height.between(first, last))
    row = conn.execute(within.order_by(blocks.c.height.desc()).limit(1)).one_or_none()
    return None if row is None else Block(*row)


def blocks_between(
    conn: Connection, chain: ChainId, first: Height, last: Height
) -> Iterator[Block]:
    """Stored blocks from `first` to `last` inclusive, in order, streamed as `read_events` does."""
    query = (
        stored_blocks(chain).where(blocks.c.height.between(first, last)).order_by(blocks.c.height)
    )
    for rows in stream_rows(conn, query, _AT_ONCE):
        yield from starmap(Block, rows)


def stored_blocks(chain: ChainId) -> Select[Any]:
    """The stored blocks of a chain: a row is the fields of `Block`."""
    return select(*_BLOCK_COLUMNS).where(blocks.c.chain == chain)


def _stream(
    conn: Connection,
    shelf: TableMapping,
    chain: ChainId | None,
    first: Height | None,
    last: Height | None,
) -> Iterator[Any]:
    columns = shelf.table.c
    query = _query(shelf)
    if chain is not None:
        query = query.where(columns.chain == chain)
    if first is not None:
        query = query.where(columns.height >= first)
    if last is not None:
        query = query.where(columns.height <= last)
    for rows in stream_rows(conn, query, _AT_ONCE):
        yield from map(shelf.item, rows)


def _query(shelf: TableMapping) -> Select[Any]:
    columns = shelf.table.c
    return select(*shelf.columns).order_by(columns.chain, columns.height, columns.position)


def _order(item: Event | RawEvent) -> tuple[ChainId, Height, int]:
    return (item.seen.chain, item.seen.height, item.seen.position)


def _same_columns(table: Table, wanted: TableValuedAlias) -> ColumnElement[bool]:
    return and_(*(table.c[column.name] == column for column in wanted.c))
