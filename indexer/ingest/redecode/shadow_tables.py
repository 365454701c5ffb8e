"""Shadow tables: decoded tables filled beside the live ones, then swapped in.

Two schemas exist during a redecode. `shadow` has a twin of every decoded table, the outcome of each
raw event, and a cursor per chain. `revised` has views, named as the live tables, of the facts as
they will be. `create` and `drop` need the database's owner, all else runs as the indexer. Every
function works inside the caller's transaction.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Delete,
    Insert,
    MetaData,
    PrimaryKeyConstraint,
    Select,
    Table,
    and_,
    case,
    delete,
    exists,
    func,
    insert,
    inspect,
    literal,
    or_,
    select,
    text,
    union_all,
    update,
)
from sqlalchemy.schema import CreateSchema, CreateView, DropSchema

from indexer.facts.alarms import clear_alarm, raise_alarm
from indexer.facts.days import record_changed_days
from indexer.facts.rows import EVENT_MAPPINGS, copy_into
from indexer.facts.store import UNDECODABLE, DecodedEvent, group_by_type, raw_table
from warehouse_schema.columns import chain as chain_column
from warehouse_schema.columns import day_of, number
from warehouse_schema.columns import height as height_column
from warehouse_schema.columns import text as text_column
from warehouse_schema.events import EVENT_TABLES
from warehouse_schema.identifiers import ChainId, Height
from warehouse_schema.metadata import FACTS
from warehouse_schema.metadata import metadata as live_metadata

SHADOW = "shadow"
REVISED = "revised"
AS_REVISED: Final[dict[str | None, str | None]] = {FACTS: REVISED}
"""`schema_translate_map` to read the facts as they will be."""

BELOW_FIRST = Height(-1)
"""Initial height of a cursor: below every chain's first block."""

_KEY = ("chain", "height", "block_hash", "position")
"""Columns by which rows are the same event: the key of facts, of the same block."""
_MAX_LISTED = 3

_metadata = MetaData(schema=SHADOW)

cursors = Table(
    "cursors",
    _metadata,
    chain_column(primary_key=True),
    height_column(comment="Last height whose raw events are decoded here"),
    comment="How far the redecode is. Moves in the transaction that writes the rows it stands for",
)

outcomes = Table(
    "outcomes",
    _metadata,
    chain_column(),
    height_column(),
    text_column("block_hash", "Hash of the block or ledger"),
    number("position", "Order within the block"),
    text_column("event", "Type it decodes to; null when to none", nullable=True),
    text_column("undecodable", "Why it cannot be decoded; null when it can", nullable=True),
    PrimaryKeyConstraint("chain", "height", "position"),
    comment="What becomes of each raw event, a row each",
)


@dataclass(frozen=True, slots=True)
class TableDifference:
    """Numbers of rows that a swap will change, and a description of the first few."""

    table: str
    added: int
    removed: int
    changed: int
    first: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableReplaced:
    """Rows that a swap removed from a table and added."""

    table: str
    removed: int
    added: int


def twin(table: Table) -> Table:
    """The table in `shadow`: columns, constraints and indexes."""
    known = _metadata.tables.get(f"{SHADOW}.{table.name}")
    if known is not None:
        return known
    copy = table.to_metadata(_metadata, schema=SHADOW)
    # Comments would be most of the statements of `create`.
    for item in (copy, *copy.columns):
        item.comment = None
    return copy


# Start and end.


def create(conn: Connection, chains: Sequence[ChainId]) -> None:
    """Create both schemas for a redecode of these chains. Needs the database's owner."""
    twins = [twin(table) for table in EVENT_TABLES.values()]
    conn.execute(CreateSchema(SHADOW))
    conn.execute(CreateSchema(REVISED))
    _metadata.create_all(conn, tables=[cursors, outcomes, *twins])
    for table in live_metadata.tables.values():
        if table.schema == FACTS:
            conn.execute(CreateView(_as_revised(table), table.name, schema=REVISED))
    conn.execute(text(_GRANTS))
    conn.execute(insert(cursors), [{"chain": chain, "height": BELOW_FIRST} for chain in chains])


_GRANTS = f"""
    GRANT USAGE ON SCHEMA {SHADOW}, {REVISED} TO isthmus_indexer, isthmus_analyst;
    GRANT SELECT ON ALL TABLES IN SCHEMA {SHADOW}, {REVISED} TO isthmus_indexer, isthmus_analyst;
    GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {SHADOW} TO isthmus_indexer;
"""


def drop(conn: Connection) -> None:
    """Drop both schemas. Needs the database's owner."""
    for schema in (REVISED, SHADOW):
        conn.execute(DropSchema(schema, cascade=True, if_exists=True))


def exists_now(conn: Connection) -> bool:
    """True when the schemas exist, even after a swap."""
    return inspect(conn).has_schema(SHADOW)


def heights(conn: Connection) -> dict[ChainId, Height]:
    """The redecode's cursors by chain; empty when none is in progress."""
    if not exists_now(conn):
        return {}
    rows = conn.execute(select(cursors.c.chain, cursors.c.height).order_by(cursors.c.chain))
    return {ChainId(row.chain): Height(row.height) for row in rows}


def finish(conn: Connection) -> None:
    """Mark the redecode as swapped by deleting its cursors."""
    conn.execute(delete(cursors))


def _as_revised(live: Table) -> Any:
    """Query of a table's rows as they will be."""
    if live not in EVENT_TABLES.values():
        return select(live)
    new = twin(live)
    is_replaced = exists().where(cursors.c.chain == live.c.chain, cursors.c.height >= live.c.height)
    is_coming = exists().where(cursors.c.chain == new.c.chain)
    return union_all(select(live).where(~is_replaced), select(new).where(is_coming))


# Filling.


def lock_cursor(conn: Connection, chain: ChainId) -> Height | None:
    """The chain's cursor, locked until commit; None when the chain is not redecoded.

    The lock serializes concurrent fills of a chain.
    """
    if not exists_now(conn):
        return None
    query = select(cursors.c.height).where(cursors.c.chain == chain).with_for_update()
    return conn.scalar(query)


def end_of_range(
    conn: Connection, chain: ChainId, after: Height, limit: Height, events: int
) -> Height:
    """The height up to which about `events` raw events lie above `after`; at most `limit`."""
    raw = raw_table(chain)
    nth = (
        select(raw.c.height)
        .where(raw.c.chain == chain, raw.c.height > after, raw.c.height <= limit)
        .order_by(raw.c.height)
        .offset(events - 1)
        .limit(1)
    )
    return Height(conn.scalar(nth) or limit)


def write(conn: Connection, chain: ChainId, decoded: Sequence[DecodedEvent], last: Height) -> None:
    """Store the result of decoding one range, and move the cursor to its end."""
    rows = []
    for item in decoded:
        seen = item.raw.seen
        event = None if item.event is None else type(item.event).__name__
        place = (seen.chain, seen.height, seen.block_hash, seen.position)
        rows.append((*place, event, item.undecodable))
    copy_into(conn, list(outcomes.columns), rows)
    for event_type, events in group_by_type(decoded)[1].items():
        mapping = EVENT_MAPPINGS[event_type]
        shadowed = replace(mapping, table=twin(mapping.table))
        copy_into(conn, shadowed.columns, map(mapping.row, events))
    conn.execute(update(cursors).where(cursors.c.chain == chain).values(height=last))


def first_mismatch(conn: Connection, chain: ChainId, upto: Height) -> Height | None:
    """The lowest height at which the raw facts are not those that were redecoded; usually None.

    A backfill, or a deep reorg, changed raw facts below the redecode's cursor.
    """
    raw = raw_table(chain)
    here = select(raw.c.height, raw.c.block_hash, raw.c.position).where(
        raw.c.chain == chain, raw.c.height <= upto
    )
    there = select(outcomes.c.height, outcomes.c.block_hash, outcomes.c.position).where(
        outcomes.c.chain == chain
    )
    stored, decoded = here.subquery("stored"), there.subquery("decoded")
    both = stored.join(
        decoded,
        and_(stored.c.block_hash == decoded.c.block_hash, stored.c.position == decoded.c.position),
        full=True,
    )
    lowest = select(func.min(func.coalesce(stored.c.height, decoded.c.height)))
    mismatch = lowest.select_from(both).where(
        or_(stored.c.height.is_(None), decoded.c.height.is_(None))
    )
    return conn.scalar(mismatch)


def rewind_cursor(conn: Connection, chain: ChainId, to: Height) -> None:
    """Delete what was redecoded above a height."""
    for table in (outcomes, *map(twin, EVENT_TABLES.values())):
        conn.execute(delete(table).where(table.c.chain == chain, table.c.height > to))
    conn.execute(update(cursors).where(cursors.c.chain == chain).values(height=to))


# Checking.


def differences(conn: Connection, chain: ChainId, upto: Height) -> list[TableDifference]:
    """Changes that a swap will make at and below a height, by table."""
    found = [_compare(conn, table, chain, upto) for table in EVENT_TABLES.values()]
    found.append(_compare_outcomes(conn, chain, upto))
    return [item for item in found if item.added or item.removed or item.changed]


def _compare(conn: Connection, table: Table, chain: ChainId, upto: Height) -> TableDifference:
    live, new = table.alias("live"), twin(table).alias("new")
    on_chain = select(live).where(live.c.chain == chain, live.c.height <= upto).subquery("here")
    decoded = select(new).where(new.c.chain == chain).subquery("there")
    verdict = case(
        (on_chain.c.chain.is_(None), "added"),
        (decoded.c.chain.is_(None), "removed"),
        else_="changed",
    ).label("verdict")
    names = [column.name for column in table.columns]
    joined = (
        select(
            verdict,
            *(on_chain.c[name].label(f"old_{name}") for name in names),
            *(decoded.c[name].label(f"new_{name}") for name in names),
        )
        .select_from(on_chain.join(decoded, _same(on_chain, decoded, _KEY), full=True))
        .where(_same(on_chain, decoded, names).is_not(True))
    )
    return _table_difference(conn, f"{FACTS}.{table.name}", joined, names)


def _compare_outcomes(conn: Connection, chain: ChainId, upto: Height) -> TableDifference:
    raw = raw_table(chain)
    names = ["height", "tx_hash", "position", "event", "undecodable"]
    old = [raw.c[name].label(f"old_{name}") for name in names]
    new = [raw.c[name].label(f"new_{name}") for name in names[:3]]
    new += [outcomes.c[name].label(f"new_{name}") for name in names[3:]]
    joined = (
        select(literal("changed").label("verdict"), *old, *new)
        .select_from(raw.join(outcomes, _same(raw, outcomes, _KEY)))
        .where(raw.c.chain == chain, raw.c.height <= upto, _is_other_outcome(raw))
    )
    return _table_difference(conn, f"{FACTS}.{raw.name}", joined, names)


def _table_difference(
    conn: Connection, table: str, differing: Select[Any], names: Sequence[str]
) -> TableDifference:
    rows = differing.subquery()
    counted = conn.execute(select(rows.c.verdict, func.count()).group_by(rows.c.verdict))
    counts: dict[str, int] = dict(map(tuple, counted))
    place = [func.coalesce(rows.c[f"old_{n}"], rows.c[f"new_{n}"]) for n in ("height", "position")]
    shown = conn.execute(select(rows).order_by(*place).limit(_MAX_LISTED)) if counts else ()
    return TableDifference(
        table,
        added=counts.get("added", 0),
        removed=counts.get("removed", 0),
        changed=counts.get("changed", 0),
        first=tuple(_describe(row._asdict(), names) for row in shown),
    )


def _describe(row: Mapping[str, Any], names: Sequence[str]) -> str:
    old = {name: row[f"old_{name}"] for name in names}
    new = {name: row[f"new_{name}"] for name in names}
    side = old if row["verdict"] == "removed" else new
    place = f"{row['verdict']} {side['height']}/{side['tx_hash']}/{side['position']}"
    if row["verdict"] == "changed":
        pairs = ((name, old[name], new[name]) for name in names if old[name] != new[name])
        return f"{place}: " + ", ".join(f"{name} {a!r} → {b!r}" for name, a, b in pairs)
    own = (f"{name} {side[name]!r}" for name in names[6:])
    return f"{place}: " + ", ".join(own)


# Swapping.


def put_in_place(conn: Connection, chain: ChainId) -> list[TableReplaced]:
    """Make a chain's live tables equal to the shadow tables, writing only rows that differ.

    The redecode must have reached the chain's cursor.
    """
    changed_days: set[date] = set()
    replaced = [_replace(conn, table, chain, changed_days) for table in EVENT_TABLES.values()]
    _sync_alarms(conn, chain)
    replaced.append(_replace_outcomes(conn, chain, changed_days))
    record_changed_days(conn, chain, changed_days)
    return [item for item in replaced if item.removed or item.added]


def _replace(
    conn: Connection, live: Table, chain: ChainId, changed_days: set[date]
) -> TableReplaced:
    new = twin(live)
    names = [column.name for column in live.columns]
    is_equal = exists().where(_same(live, new, names))
    removed = _count(conn, delete(live).where(live.c.chain == chain, ~is_equal), live, changed_days)
    is_stored = exists().where(_same(live, new, _KEY))
    missing = select(*(new.c[name] for name in names)).where(new.c.chain == chain, ~is_stored)
    added = _count(conn, insert(live).from_select(names, missing), live, changed_days)
    return TableReplaced(f"{FACTS}.{live.name}", removed, added)


def _count(conn: Connection, change: Insert | Delete, table: Table, changed_days: set[date]) -> int:
    """Execute a change. Returns its number of rows and adds their days to `changed_days`."""
    changed = change.returning(table.c.block_time).cte("changed")
    day = day_of("changed.block_time")
    counts = conn.execute(select(day, func.count()).select_from(changed).group_by(day)).all()
    changed_days.update(each for each, _ in counts)
    return sum(count for _, count in counts)


def _replace_outcomes(conn: Connection, chain: ChainId, changed_days: set[date]) -> TableReplaced:
    raw = raw_table(chain)
    names = [column.name for column in raw.columns]
    columns = [
        outcomes.c[name] if name in ("event", "undecodable") else raw.c[name] for name in names
    ]
    # The indexer's role may not update facts: one statement deletes the rows and inserts them with
    # the new outcome.
    deleted = (
        delete(raw)
        .where(raw.c.chain == chain, _same(raw, outcomes, _KEY), _is_other_outcome(raw))
        .returning(*(column.label(name) for column, name in zip(columns, names, strict=True)))
        .cte("deleted")
    )
    again = select(*(deleted.c[name] for name in names))
    count = _count(conn, insert(raw).from_select(names, again), raw, changed_days)
    return TableReplaced(f"{FACTS}.{raw.name}", count, count)


def _sync_alarms(conn: Connection, chain: ChainId) -> None:
    """Clear alarms of events that decode now; raise those of events that do not."""
    raw = raw_table(chain)
    changed = (
        select(raw.c.height, raw.c.tx_hash, raw.c.position, outcomes.c.undecodable)
        .join(outcomes, _same(raw, outcomes, _KEY))
        .where(raw.c.chain == chain, raw.c.undecodable.is_distinct_from(outcomes.c.undecodable))
    )
    for height, tx_hash, position, undecodable in conn.execute(changed).all():
        subject = f"{height}/{tx_hash}/{position}"
        if undecodable is None:
            clear_alarm(conn, chain, UNDECODABLE, subject)
        else:
            raise_alarm(conn, chain, UNDECODABLE, subject, undecodable)


def _same(one: Any, other: Any, names: Sequence[str]) -> ColumnElement[bool]:
    """Equality of columns; key columns are never null, so that an index can be used."""
    return and_(
        *(
            one.c[name] == other.c[name]
            if name in _KEY
            else one.c[name].is_not_distinct_from(other.c[name])
            for name in names
        )
    )


def _is_other_outcome(raw: Table) -> ColumnElement[bool]:
    return or_(
        raw.c.event.is_distinct_from(outcomes.c.event),
        raw.c.undecodable.is_distinct_from(outcomes.c.undecodable),
    )
