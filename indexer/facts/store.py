"""Blocks, raw events and decoded events. Every function works inside the caller's transaction.

Events are ordered by chain, height and position. Heights of two chains are not comparable.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from functools import cache
from itertools import starmap
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Select,
    Table,
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
from indexer.facts.queries import CompiledQuery, QueryCall, fetch_all
from indexer.facts.rows import (
    EVENT_MAPPINGS,
    EVENT_TYPES,
    RAW_MAPPINGS,
    RowBatch,
    TableMapping,
    stream_rows,
    write_rows,
)
from warehouse_schema.facts import (
    blocks,
    orphans,
    quarantined_ledgers,
    unproven_blocks,
)
from warehouse_schema.identifiers import ChainId, Height, is_evm
from warehouse_schema.queries import any_in, any_of

if TYPE_CHECKING:
    from indexer.facts.columns_decode import DecodedColumns

_BATCH = 1_000
"""Rows of a server-side cursor that are in memory at once."""

_BLOCK_COLUMNS = [blocks.c[field.name] for field in fields(Block)]

UNDECODABLE = "undecodable"
"""Kind of alarm: an event of ours that could not be decoded."""

E = TypeVar("E", bound=Event)


@dataclass(frozen=True, slots=True)
class DecodedEvent:
    """A raw event and the result of decoding it; neither event nor reason: of no stored type."""

    raw: RawEvent
    event: Event | None
    undecodable: str | None
    """Why it could not be decoded."""

    @property
    def raw_row(self) -> tuple[Any, ...]:
        """Values of `raw_columns`."""
        name = None if self.event is None else type(self.event).__name__
        return (*RAW_MAPPINGS[type(self.raw)].row(self.raw), name, self.undecodable)

    @property
    def subject(self) -> str:
        """Subject of the alarm about an undecodable event."""
        seen = self.raw.seen
        return f"{seen.height}/{seen.tx_hash}/{seen.position}"


def raw_columns(raw_type: type[RawEvent]) -> list[Column[Any]]:
    """Columns of a raw table: the mapping's, and the result of decoding."""
    mapping = RAW_MAPPINGS[raw_type]
    return [*mapping.columns, mapping.table.c.event, mapping.table.c.undecodable]


def raw_table(chain: ChainId) -> Table:
    """The table of a chain's raw events."""
    return RAW_MAPPINGS[EvmLog if is_evm(chain) else StellarEvent].table


def group_by_type(
    decoded: Iterable[DecodedEvent],
) -> tuple[dict[type[RawEvent], list[DecodedEvent]], dict[type[Event], list[Event]]]:
    """The items by type of raw event, and their events by type."""
    raws: dict[type[RawEvent], list[DecodedEvent]] = defaultdict(list)
    events: dict[type[Event], list[Event]] = defaultdict(list)
    for item in decoded:
        raws[type(item.raw)].append(item)
        if item.event is not None:
            events[type(item.event)].append(item.event)
    return raws, events


# Writing.


def append(
    conn: Connection,
    new_blocks: Sequence[Block],
    decoded: Sequence[DecodedEvent],
    also: Sequence[RowBatch] = (),
    columns: "DecodedColumns | None" = None,
) -> None:
    """Write blocks, their raw events, and the decoded events, with other rows at no round trip.

    `columns` are events beside `decoded`, written as they are. A raw event that could not be
    decoded is stored with the reason, and alarmed. Raises SQLAlchemy's `IntegrityError` when one of
    the blocks or events is stored already; moving the cursor first in the same transaction prevents
    that.
    """
    counts = Counter(item.raw.seen.height for item in decoded)
    if columns is not None:
        counts.update(columns.counts)
        columns.write(conn)
    block_rows = [(*astuple(block), counts[block.height]) for block in new_blocks]
    raws, events = group_by_type(decoded)
    write_rows(
        conn,
        [
            RowBatch([*_BLOCK_COLUMNS, blocks.c.events], block_rows),
            *(
                RowBatch(raw_columns(raw_type), [item.raw_row for item in items])
                for raw_type, items in raws.items()
            ),
            *(
                RowBatch(mapping.columns, [mapping.row(event) for event in of_type])
                for mapping, of_type in (
                    (EVENT_MAPPINGS[event_type], of_type) for event_type, of_type in events.items()
                )
            ),
            *also,
        ],
    )
    for item in decoded:
        if item.undecodable is not None:
            raise_alarm(conn, item.raw.seen.chain, UNDECODABLE, item.subject, item.undecodable)


def delete_above(conn: Connection, chain: ChainId, *, above: Height) -> list[Event]:
    """Delete all blocks above a height and everything seen in them, for a reorg.

    Returns the deleted events. Raw events move to `facts.orphans`. Alarms about what was deleted
    are cleared; the new blocks raise their own.
    """
    first = Height(above + 1)
    subjects = undecodable_subjects(conn, chain, first, None)
    orphan_columns = ("chain", "height", "block_hash", "tx_hash", "position", "event")
    for mapping in RAW_MAPPINGS.values():
        table = mapping.table
        whole_row = func.row_to_json(table.table_valued()).cast(Text)
        orphaned = select(*(table.c[name] for name in orphan_columns), whole_row).where(
            _in_range(table, chain, first, None)
        )
        conn.execute(insert(orphans).from_select([*orphan_columns, "row"], orphaned))
    deleted = remove_range(conn, chain, first, None)
    subjects |= {event.seen.tx_hash for event in deleted}
    subjects |= {event.guid for event in deleted if isinstance(event, OftSent)}
    clear_alarms_about(conn, chain, *subjects)
    return deleted


def undecodable_subjects(
    conn: Connection, chain: ChainId, first: Height, last: Height | None
) -> set[str]:
    """Alarm subjects of the undecodable events of `first … last` (None: and all above)."""
    raw = raw_table(chain)
    places = select(raw.c.height, raw.c.tx_hash, raw.c.position).where(
        _in_range(raw, chain, first, last), raw.c.undecodable.is_not(None)
    )
    return {"/".join(map(str, row)) for row in conn.execute(places)}


def remove_range(
    conn: Connection, chain: ChainId, first: Height, last: Height | None
) -> list[Event]:
    """Delete the blocks `first … last` (None: all above) and everything seen in them.

    Returns the deleted events; the caller refolds what they touched. Counts as a change of their
    days. For a reorg use `delete_above`, which keeps the raw events as orphans.
    """
    days.record_change(conn, chain, first, last)
    deleted = list(read_events(conn, EVENT_MAPPINGS, chain, first, last))
    event_tables = [EVENT_MAPPINGS[each].table for each in {type(event) for event in deleted}]
    raw_tables = (mapping.table for mapping in RAW_MAPPINGS.values())
    for table in (*event_tables, *raw_tables, quarantined_ledgers, unproven_blocks, blocks):
        conn.execute(delete(table).where(_in_range(table, chain, first, last)))
    return deleted


def _in_range(
    table: Table, chain: ChainId, first: Height, last: Height | None
) -> ColumnElement[bool]:
    above = (table.c.chain == chain) & (table.c.height >= first)
    return above if last is None else above & (table.c.height <= last)


# Reading.


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
    streams = [_stream(conn, EVENT_MAPPINGS[each], chain, first, last) for each in event_types]
    return heapq.merge(*streams, key=_order)


def read_raw(conn: Connection, chain: ChainId, first: Height, last: Height) -> Iterator[RawEvent]:
    """Raw events in order, from `first` to `last` inclusive, streamed as `read_events` does."""
    mapping = RAW_MAPPINGS[EvmLog if is_evm(chain) else StellarEvent]
    return _stream(conn, mapping, chain, first, last)


def values_between(
    conn: Connection,
    event_type: type[Event],
    column: str,
    chain: ChainId,
    first: Height,
    last: Height,
) -> set[Any]:
    """What events of a type, from `first` to `last` inclusive, have in a column, except null."""
    table = EVENT_MAPPINGS[event_type].table
    values = table.c[column]
    found = select(values).where(_in_range(table, chain, first, last), values.is_not(None))
    return set(conn.scalars(found.distinct()))


def events_by_key(
    conn: Connection, event_type: type[E], column: str, values: Collection[str]
) -> list[E]:
    """Events of a type whose text column has one of these values, in order."""
    if not values:
        return []
    table = EVENT_MAPPINGS[event_type].table
    return events_where(conn, event_type, table.c[column] == any_of(values))


def events_where(
    conn: Connection, event_type: type[E], *conditions: ColumnElement[bool]
) -> list[E]:
    """Events of a type whose rows meet these conditions on its table, in order."""
    mapping = EVENT_MAPPINGS[event_type]
    return [mapping.item(row) for row in conn.execute(_query(mapping).where(*conditions))]


def events_query(event_type: type[E], *conditions: ColumnElement[bool]) -> CompiledQuery[E]:
    """Query of the events of a type whose rows meet these conditions on its table, in order."""
    mapping = EVENT_MAPPINGS[event_type]
    return CompiledQuery(_query(mapping).where(*conditions), mapping.item)


def events_by_column(event_type: type[E], column: str) -> CompiledQuery[E]:
    """Query of the events of a type whose text column has one of the `values`, in order."""
    return events_query(event_type, EVENT_MAPPINGS[event_type].table.c[column] == any_in("values"))


_PLACE = ("chain", "height", "block_hash", "tx_hash")
"""Columns that say in which transaction an event is; the key begins with the first two."""


@cache
def _of_transactions(event_type: str) -> CompiledQuery[Any]:
    columns = [
        bindparam(name, type_=ARRAY(BigInteger if name == "height" else Text)) for name in _PLACE
    ]
    wanted = func.unnest(*columns).table_valued(*_PLACE).render_derived("wanted")
    mapping = EVENT_MAPPINGS[EVENT_TYPES[event_type]]
    same = and_(*(mapping.table.c[column.name] == column for column in wanted.c))
    return CompiledQuery(_query(mapping).join(wanted, same), mapping.item)


def events_of_transactions(
    conn: Connection, event_types: Collection[type[E]], transactions: Collection[Provenance]
) -> list[E]:
    """Events of these types in the transactions (and blocks) of these places, in order."""
    [events] = events_of_transaction_groups(conn, [(event_types, transactions)])
    return events


def events_of_transaction_groups(
    conn: Connection,
    groups: Sequence[tuple[Collection[type[E]], Collection[Provenance]]],
) -> list[list[E]]:
    """`events_of_transactions` of each group, all in one round trip."""
    calls: list[list[QueryCall]] = []
    for event_types, transactions in groups:
        places = sorted({attrgetter(*_PLACE)(seen) for seen in transactions})
        values = {name: [place[n] for place in places] for n, name in enumerate(_PLACE)}
        calls.append([(_of_transactions(each.__name__), values) for each in event_types if places])
    found = iter(fetch_all(conn, [call for group in calls for call in group]))
    return [sorted((event for _ in group for event in next(found)), key=_order) for group in calls]


def block_at(conn: Connection, chain: ChainId, height: Height) -> Block | None:
    """The stored block at a height."""
    return blocks_at(conn, chain, height).get(height)


def blocks_at(conn: Connection, chain: ChainId, *heights: Height) -> dict[Height, Block]:
    """Those of the stored blocks at these heights, by height."""
    query = stored_blocks(chain).where(blocks.c.height.in_(heights))
    found = (Block(*row) for row in conn.execute(query))
    return {block.height: block for block in found}


def last_block(conn: Connection, chain: ChainId, first: Height, last: Height) -> Block | None:
    """The highest stored block of `first … last`."""
    within = stored_blocks(chain).where(blocks.c.height.between(first, last))
    row = conn.execute(within.order_by(blocks.c.height.desc()).limit(1)).one_or_none()
    return None if row is None else Block(*row)


def blocks_between(
    conn: Connection, chain: ChainId, first: Height, last: Height
) -> Iterator[Block]:
    """Stored blocks from `first` to `last` inclusive, in order, streamed as `read_events` does."""
    query = stored_blocks(chain).where(blocks.c.height.between(first, last))
    for rows in stream_rows(conn, query.order_by(blocks.c.height), _BATCH):
        yield from starmap(Block, rows)


def stored_blocks(chain: ChainId) -> Select[Any]:
    """Query of a chain's stored blocks; a row has the fields of `Block`."""
    return select(*_BLOCK_COLUMNS).where(blocks.c.chain == chain)


def _stream(
    conn: Connection,
    mapping: TableMapping,
    chain: ChainId | None,
    first: Height | None,
    last: Height | None,
) -> Iterator[Any]:
    columns = mapping.table.c
    query = _query(mapping)
    if chain is not None:
        query = query.where(columns.chain == chain)
    if first is not None:
        query = query.where(columns.height >= first)
    if last is not None:
        query = query.where(columns.height <= last)
    for rows in stream_rows(conn, query, _BATCH):
        yield from map(mapping.item, rows)


def _query(mapping: TableMapping) -> Select[Any]:
    columns = mapping.table.c
    return select(*mapping.columns).order_by(columns.chain, columns.height, columns.position)


def _order(item: Event | RawEvent) -> tuple[ChainId, Height, int]:
    return (item.seen.chain, item.seen.height, item.seen.position)
