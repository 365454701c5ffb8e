"""Facts in, facts out. Every function works inside the caller's transaction.

Order, wherever events are given, is chain, height, position: the order in which they happened, as
far as they happened in one order at all (heights of two chains say nothing about each other).
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, fields, replace
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
    update,
)
from sqlalchemy.dialects import postgresql

from indexer.bridges.oft.events import OftSent
from indexer.chains.events import Event, Provenance
from indexer.chains.raw import Block, EvmLog, RawEvent, StellarEvent
from indexer.chains.upgrades import Upgrade
from indexer.errors import FollowerConflict
from indexer.facts import days
from indexer.facts.rows import EVENT_SHELVES, RAW_SHELVES, EventTable, copy_into, streaming
from indexer.facts.rows import copy_rows as copy_rows
from warehouse_schema.facts import (
    alarms,
    blocks,
    cursors,
    orphans,
    quarantined_ledgers,
    unproven_blocks,
)
from warehouse_schema.identifiers import BlockHash, ChainId, Height, TxHash, UnixSeconds, is_evm
from warehouse_schema.queries import any_of

_AT_ONCE = 1_000
"""Rows of a server-side cursor that are in memory at once."""

HIGHEST = Height(2**63 - 1)
"""Above every block: as an end, however far a chain is."""

_BLOCK_COLUMNS = [blocks.c[field.name] for field in fields(Block)]

UNDECODABLE = "undecodable"
"""Kind of alarm: an event of ours that could not be decoded."""

PROTOCOL_AHEAD = "protocol_ahead"
"""Kind of alarm: a node is ready for a protocol that this build cannot read."""
_PROTOCOL = "protocol"
"""What that alarm is about: no chain's own id, whose alarms go when the chain moves."""

E = TypeVar("E", bound=Event)


@dataclass(frozen=True, slots=True)
class Decoded:
    """A raw event and what became of it.

    Neither an event nor a reason means that the raw event is of no type that we keep.
    """

    raw: RawEvent
    event: Event | None
    undecodable: str | None
    """Why it could not be decoded."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a chain is: its last committed block, and the head that was known then.

    A stored block is final at or below `final_height`, safe at or below `safe_height`; None: no
    stored block is known to be.
    """

    chain: ChainId
    height: Height
    block_hash: BlockHash
    block_time: UnixSeconds
    head_height: Height
    head_time: UnixSeconds
    safe_height: Height | None = None
    final_height: Height | None = None

    @property
    def is_final(self) -> bool:
        """Whether the last committed block can no longer be replaced."""
        return self.final_height is not None and self.final_height >= self.height

    def finalized(self, *, safe: Height, final: Height) -> "Cursor":
        """The cursor once stored blocks became safe and final. What was final stays final."""
        final = final if self.final_height is None else max(final, self.final_height)
        safe = max(final, safe if self.safe_height is None else max(safe, self.safe_height))
        return replace(self, safe_height=safe, final_height=final)


@dataclass(frozen=True, slots=True)
class Alarm:
    """What an operator must look at, until it is cleared."""

    chain: ChainId
    kind: str
    subject: str
    detail: str


# In.


def append(conn: Connection, new_blocks: Sequence[Block], decoded: Sequence[Decoded]) -> None:
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
    raws: dict[type[RawEvent], list[Decoded]] = defaultdict(list)
    events: dict[type[Event], list[Event]] = defaultdict(list)
    for item in decoded:
        raws[type(item.raw)].append(item)
        if item.event is not None:
            events[type(item.event)].append(item.event)
    for raw_type, items in raws.items():
        _append_raw(conn, RAW_SHELVES[raw_type], items)
    for event_type, of_type in events.items():
        shelf = EVENT_SHELVES[event_type]
        copy_into(conn, shelf.columns, map(shelf.row, of_type))
    for item in decoded:
        if item.undecodable is not None:
            seen = item.raw.seen
            subject = undecodable_subject(seen.height, seen.tx_hash, seen.position)
            raise_alarm(conn, seen.chain, UNDECODABLE, subject, item.undecodable)


def undecodable_subject(height: Height, tx_hash: TxHash, position: int) -> str:
    """What the alarm about an undecodable event is about."""
    return f"{height}/{tx_hash}/{position}"


def _append_raw(conn: Connection, shelf: EventTable, items: Iterable[Decoded]) -> None:
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
    gone = {*undecodables(conn, chain, first, None)}
    for shelf in RAW_SHELVES.values():
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


def undecodables(
    conn: Connection, chain: ChainId, first: Height, last: Height | None
) -> Iterator[str]:
    """Subjects of the undecodable events of `first … last` (None: and all above)."""
    raw = RAW_SHELVES[EvmLog if is_evm(chain) else StellarEvent].table
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
    days.note_change(conn, chain, first, last)
    taken = list(read_events(conn, EVENT_SHELVES, chain, first, last))
    emptied = [EVENT_SHELVES[event_type].table for event_type in {type(event) for event in taken}]
    raw = (shelf.table for shelf in RAW_SHELVES.values())
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
        _stream(conn, EVENT_SHELVES[event_type], chain, first, last) for event_type in event_types
    ]
    return heapq.merge(*streams, key=_order)


def read_raw(conn: Connection, chain: ChainId, first: Height, last: Height) -> Iterator[RawEvent]:
    """Raw events in order, from `first` to `last` inclusive, streamed as `read_events` does."""
    return _stream(conn, RAW_SHELVES[EvmLog if is_evm(chain) else StellarEvent], chain, first, last)


def events_by_key(
    conn: Connection, event_type: type[E], column: str, values: Collection[str]
) -> list[E]:
    """Events of a type whose text column has one of these values, in order."""
    if not values:
        return []
    shelf = EVENT_SHELVES[event_type]
    query = _query(shelf).where(shelf.table.c[column] == any_of(values))
    return [shelf.item(row) for row in conn.execute(query)]


def events_where(
    conn: Connection, event_type: type[E], *conditions: ColumnElement[bool]
) -> list[E]:
    """Events of a type whose rows meet these conditions on its table, in order."""
    shelf = EVENT_SHELVES[event_type]
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
        shelf = EVENT_SHELVES[event_type]
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
    for rows in streaming(conn, query, _AT_ONCE):
        yield from starmap(Block, rows)


def stored_blocks(chain: ChainId) -> Select[Any]:
    """The stored blocks of a chain: a row is the fields of `Block`."""
    return select(*_BLOCK_COLUMNS).where(blocks.c.chain == chain)


def _stream(
    conn: Connection,
    shelf: EventTable,
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
    for rows in streaming(conn, query, _AT_ONCE):
        yield from map(shelf.item, rows)


def _query(shelf: EventTable) -> Select[Any]:
    columns = shelf.table.c
    return select(*shelf.columns).order_by(columns.chain, columns.height, columns.position)


def _order(item: Event | RawEvent) -> tuple[ChainId, Height, int]:
    return (item.seen.chain, item.seen.height, item.seen.position)


def _same_columns(table: Table, wanted: TableValuedAlias) -> ColumnElement[bool]:
    return and_(*(table.c[column.name] == column for column in wanted.c))


# Cursors.


_CURSOR_COLUMNS = [cursors.c[field.name] for field in fields(Cursor)]


def read_cursor(conn: Connection, chain: ChainId) -> Cursor | None:
    """How far a chain is; None before its first range."""
    row = conn.execute(select(*_CURSOR_COLUMNS).where(cursors.c.chain == chain)).one_or_none()
    return None if row is None else Cursor(*row)


def move_cursor(conn: Connection, expected: Cursor | None, new: Cursor) -> None:
    """Put the cursor at `new`, and take the chain off hold.

    Raises `FollowerConflict` unless the cursor stood at `expected` (None: nowhere).
    """
    values = {field.name: getattr(new, field.name) for field in fields(Cursor)}
    if expected is None:
        statement: Any = postgresql.insert(cursors).values(values).on_conflict_do_nothing()
    else:
        statement = (
            update(cursors)
            .where(
                cursors.c.chain == expected.chain,
                cursors.c.height == expected.height,
                cursors.c.block_hash == expected.block_hash,
            )
            .values(
                **values,
                held=None,
                failure=None,
                updated_at=func.clock_timestamp(),
                reported_at=func.clock_timestamp(),
            )
        )
    if conn.execute(statement.returning(cursors.c.chain)).one_or_none() is None:
        stood = "nowhere" if expected is None else f"at {expected.height} {expected.block_hash}"
        raise FollowerConflict(f"the cursor of {new.chain} did not stand {stood} any more")


def note_finality(conn: Connection, cursor: Cursor) -> None:
    """Record which stored blocks are safe and final by now."""
    conn.execute(
        update(cursors)
        .where(cursors.c.chain == cursor.chain)
        .values(safe_height=cursor.safe_height, final_height=cursor.final_height)
    )


def report(conn: Connection, chain: ChainId, failure: str | None) -> None:
    """Note that the chain's follower lives, and why its node could not be read, if it could not.

    A range that is committed reports as well. A chain that never moved has no cursor to note it on.
    """
    conn.execute(
        update(cursors)
        .where(cursors.c.chain == chain)
        .values(reported_at=func.clock_timestamp(), failure=failure)
    )


def note_upgrade(conn: Connection, chain: ChainId, upgrade: Upgrade | None) -> None:
    """Record which protocol is ahead that cannot be read, with its alarm, or that none is."""
    protocol = None if upgrade is None else upgrade.protocol
    conn.execute(update(cursors).where(cursors.c.chain == chain).values(protocol_ahead=protocol))
    if upgrade is None:
        clear_alarm(conn, chain, PROTOCOL_AHEAD, _PROTOCOL)
    else:
        raise_alarm(conn, chain, PROTOCOL_AHEAD, _PROTOCOL, upgrade.detail)


def hold(conn: Connection, chain: ChainId, reason: str) -> None:
    """Note why a chain does not move; the next range that is committed takes it away.

    A chain that never moved has no cursor to note it on; its alarm has to do.
    """
    conn.execute(update(cursors).where(cursors.c.chain == chain).values(held=reason))


# Alarms.


def raise_alarm(conn: Connection, chain: ChainId, kind: str, subject: str, detail: str) -> None:
    """Call for an operator. One that stands for that kind and subject takes the newest detail."""
    row = {"chain": chain, "kind": kind, "subject": subject, "detail": detail}
    conn.execute(
        postgresql.insert(alarms)
        .values(row)
        .on_conflict_do_update(
            index_elements=["chain", "kind", "subject"],
            index_where=alarms.c.cleared_at.is_(None),
            set_={"detail": detail},
        )
    )


def clear_alarm(conn: Connection, chain: ChainId, kind: str, subject: str) -> None:
    """Note that what an alarm was about is mended. Nothing happens if none stands."""
    conn.execute(
        update(alarms)
        .where(
            alarms.c.chain == chain,
            alarms.c.kind == kind,
            alarms.c.subject == subject,
            alarms.c.cleared_at.is_(None),
        )
        .values(cleared_at=func.clock_timestamp())
    )


def clear_alarms_about(conn: Connection, chain: ChainId, *subjects: str) -> int:
    """Note that whatever stood about these subjects is mended; how many alarms that were."""
    return conn.execute(
        update(alarms)
        .where(
            alarms.c.chain == chain,
            alarms.c.subject == any_of(subjects),
            alarms.c.cleared_at.is_(None),
        )
        .values(cleared_at=func.clock_timestamp())
    ).rowcount


def open_alarms(conn: Connection) -> list[Alarm]:
    """The alarms that stand, oldest first."""
    columns = [alarms.c[field.name] for field in fields(Alarm)]
    query = select(*columns).where(alarms.c.cleared_at.is_(None)).order_by(alarms.c.id)
    return [Alarm(*row) for row in conn.execute(query)]
