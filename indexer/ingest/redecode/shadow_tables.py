"""The decoded tables a second time, to be filled beside the live ones and put in their place.

Two schemas, there only while a revision is: `shadow` holds an empty twin of every decoded table,
what became of each raw event, and a cursor a chain; `revised` holds views under the live tables'
names that show the facts as they will be. `create` and `drop` need the owner of the database; all
else is done as the indexer. Every function works inside the caller's transaction.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Delete,
    Index,
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

from indexer.chains.raw import EvmLog, StellarEvent
from indexer.facts.alarms import clear_alarm, raise_alarm
from indexer.facts.days import record_changed_days
from indexer.facts.rows import EVENT_MAPPINGS, RAW_MAPPINGS, copy_into
from indexer.facts.store import DecodedEvent
from warehouse_schema.columns import chain as chain_column
from warehouse_schema.columns import day_of, number
from warehouse_schema.columns import height as height_column
from warehouse_schema.columns import text as text_column
from warehouse_schema.events import EVENT_TABLES
from warehouse_schema.identifiers import ChainId, Height, is_evm
from warehouse_schema.metadata import FACTS
from warehouse_schema.metadata import metadata as live_metadata

SHADOW = "shadow"
REVISED = "revised"
AS_REVISED: Final[dict[str | None, str | None]] = {FACTS: REVISED}
"""`schema_translate_map` of a connection that reads the facts as they will be."""

BELOW_FIRST = Height(-1)
"""Where a revision's cursor begins: below every chain's first block."""

_KEY = ("chain", "block_hash", "position")
_SHOWN = 3

_metadata = MetaData(schema=SHADOW)

cursors = Table(
    "cursors",
    _metadata,
    chain_column(primary_key=True),
    height_column(comment="Last height whose raw events are decoded here"),
    comment="How far the revision is. Moves in the transaction that writes the rows it stands for",
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
    PrimaryKeyConstraint(*_KEY),
    Index("ix_outcomes_chain_height", "chain", "height"),
    comment="What becomes of each raw event, a row each",
)


@dataclass(frozen=True, slots=True)
class TableDifference:
    """How a table will differ from what it is: rows counted, and the first few in words."""

    table: str
    added: int
    removed: int
    changed: int
    first: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableReplaced:
    """What one table gave up and took in."""

    table: str
    removed: int
    added: int


def twin(table: Table) -> Table:
    """The table's double in `shadow`: columns, constraints and indexes, without the comments."""
    known = _metadata.tables.get(f"{SHADOW}.{table.name}")
    if known is not None:
        return known
    double = table.to_metadata(_metadata, schema=SHADOW)
    # They would be most of the statements that a start consists of.
    for item in (double, *double.columns):
        item.comment = None
    return double


# A revision's beginning and end.


def create(conn: Connection, chains: Sequence[ChainId]) -> None:
    """Make both schemas, empty, for a revision of these chains. Needs the owner of the database."""
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
    """Remove both schemas. Needs the owner of the database."""
    for schema in (REVISED, SHADOW):
        conn.execute(DropSchema(schema, cascade=True, if_exists=True))


def exists_now(conn: Connection) -> bool:
    """Whether the schemas are there, of a revision under way or of one that was swapped."""
    return inspect(conn).has_schema(SHADOW)


def heights(conn: Connection) -> dict[ChainId, Height]:
    """The revision's cursors by chain; empty when no revision is under way."""
    if not exists_now(conn):
        return {}
    rows = conn.execute(select(cursors.c.chain, cursors.c.height).order_by(cursors.c.chain))
    return {ChainId(row.chain): Height(row.height) for row in rows}


def finish(conn: Connection) -> None:
    """Note that the revision is in place: it has no cursors any more."""
    conn.execute(delete(cursors))


def _as_revised(live: Table) -> Any:
    """A table's rows with the redecoded ones in the place of those that they will replace."""
    if live not in EVENT_TABLES.values():
        return select(live)
    new = twin(live)
    is_replaced = exists().where(cursors.c.chain == live.c.chain, cursors.c.height >= live.c.height)
    is_coming = exists().where(cursors.c.chain == new.c.chain)
    return union_all(select(live).where(~is_replaced), select(new).where(is_coming))


# Filling.


def lock_cursor(conn: Connection, chain: ChainId) -> Height | None:
    """The revision's cursor, kept from others until commit; None when it does not have the chain.

    Two that fill one chain take turns.
    """
    if not exists_now(conn):
        return None
    query = select(cursors.c.height).where(cursors.c.chain == chain).with_for_update()
    return conn.scalar(query)


def end_of_range(
    conn: Connection, chain: ChainId, after: Height, limit: Height, events: int
) -> Height:
    """Up to which height about so many raw events lie above `after`; at most `limit`."""
    raw = _raw(chain)
    nth = (
        select(raw.c.height)
        .where(raw.c.chain == chain, raw.c.height > after, raw.c.height <= limit)
        .order_by(raw.c.height)
        .offset(events - 1)
        .limit(1)
    )
    return Height(conn.scalar(nth) or limit)


def write(conn: Connection, chain: ChainId, decoded: Sequence[DecodedEvent], last: Height) -> None:
    """Keep what the raw events of one range became, and move the cursor to the range's end."""
    copy_into(conn, _OUTCOME_COLUMNS, map(_outcome, decoded))
    for event_type in {type(item.event) for item in decoded if item.event is not None}:
        shelf = EVENT_MAPPINGS[event_type]
        shadowed = replace(shelf, table=twin(shelf.table))
        events = (item.event for item in decoded if type(item.event) is event_type)
        copy_into(conn, shadowed.columns, (shelf.row(event) for event in events if event))
    conn.execute(update(cursors).where(cursors.c.chain == chain).values(height=last))


_OUTCOME_COLUMNS = list(outcomes.columns)


def _outcome(item: DecodedEvent) -> tuple[Any, ...]:
    seen = item.raw.seen
    event = None if item.event is None else type(item.event).__name__
    return (seen.chain, seen.height, seen.block_hash, seen.position, event, item.undecodable)


def first_mismatch(conn: Connection, chain: ChainId, upto: Height) -> Height | None:
    """The lowest height at which raw facts and the revision's are not of the same events.

    A backfill brought events, or blocks were taken back, below the revision's cursor. None is the
    rule.
    """
    raw = _raw(chain)
    here = select(raw.c.height, raw.c.block_hash, raw.c.position).where(
        raw.c.chain == chain, raw.c.height <= upto
    )
    there = select(outcomes.c.height, outcomes.c.block_hash, outcomes.c.position).where(
        outcomes.c.chain == chain
    )
    kept, decoded = here.subquery("kept"), there.subquery("decoded")
    both = kept.join(
        decoded,
        and_(kept.c.block_hash == decoded.c.block_hash, kept.c.position == decoded.c.position),
        full=True,
    )
    lowest = select(func.min(func.coalesce(kept.c.height, decoded.c.height)))
    astray = lowest.select_from(both).where(
        or_(kept.c.height.is_(None), decoded.c.height.is_(None))
    )
    return conn.scalar(astray)


def rewind_cursor(conn: Connection, chain: ChainId, to: Height) -> None:
    """Forget what was decoded above a height."""
    for table in (outcomes, *map(twin, EVENT_TABLES.values())):
        conn.execute(delete(table).where(table.c.chain == chain, table.c.height > to))
    conn.execute(update(cursors).where(cursors.c.chain == chain).values(height=to))


# Checking.


def differences(conn: Connection, chain: ChainId, upto: Height) -> list[TableDifference]:
    """What putting the revision in place will change at and below a height, table by table."""
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
    return _told(conn, f"{FACTS}.{table.name}", joined, names)


def _compare_outcomes(conn: Connection, chain: ChainId, upto: Height) -> TableDifference:
    raw = _raw(chain)
    names = ["height", "tx_hash", "position", "event", "undecodable"]
    old = [raw.c[name].label(f"old_{name}") for name in names]
    new = [raw.c[name].label(f"new_{name}") for name in names[:3]]
    new += [outcomes.c[name].label(f"new_{name}") for name in names[3:]]
    joined = (
        select(literal("changed").label("verdict"), *old, *new)
        .select_from(raw.join(outcomes, _same(raw, outcomes, _KEY)))
        .where(raw.c.chain == chain, raw.c.height <= upto, _is_other_outcome(raw))
    )
    return _told(conn, f"{FACTS}.{raw.name}", joined, names)


def _told(
    conn: Connection, table: str, differing: Select[Any], names: Sequence[str]
) -> TableDifference:
    rows = differing.subquery()
    counted = conn.execute(select(rows.c.verdict, func.count()).group_by(rows.c.verdict))
    counts: dict[str, int] = dict(map(tuple, counted))
    place = [func.coalesce(rows.c[f"old_{n}"], rows.c[f"new_{n}"]) for n in ("height", "position")]
    shown = conn.execute(select(rows).order_by(*place).limit(_SHOWN)) if counts else ()
    return TableDifference(
        table,
        added=counts.get("added", 0),
        removed=counts.get("removed", 0),
        changed=counts.get("changed", 0),
        first=tuple(_in_words(row._asdict(), names) for row in shown),
    )


def _in_words(row: Mapping[str, Any], names: Sequence[str]) -> str:
    old = {name: row[f"old_{name}"] for name in names}
    new = {name: row[f"new_{name}"] for name in names}
    side = old if row["verdict"] == "removed" else new
    place = f"{row['verdict']} {side['height']}/{side['tx_hash']}/{side['position']}"
    if row["verdict"] == "changed":
        pairs = ((name, old[name], new[name]) for name in names if old[name] != new[name])
        return f"{place}: " + ", ".join(f"{name} {a!r} → {b!r}" for name, a, b in pairs)
    own = (f"{name} {side[name]!r}" for name in names[6:])
    return f"{place}: " + ", ".join(own)


# Putting in place.


def put_in_place(conn: Connection, chain: ChainId) -> list[TableReplaced]:
    """Make the live tables of a chain equal to the revision, writing the rows that differ alone.

    The revision must have come as far as the chain. Readers see all of it at commit or nothing.
    """
    touched: set[date] = set()
    replaced = [_replace(conn, table, chain, touched) for table in EVENT_TABLES.values()]
    _settle_alarms(conn, chain)
    replaced.append(_replace_outcomes(conn, chain, touched))
    record_changed_days(conn, chain, touched)
    return [item for item in replaced if item.removed or item.added]


def _replace(conn: Connection, live: Table, chain: ChainId, touched: set[date]) -> TableReplaced:
    new = twin(live)
    names = [column.name for column in live.columns]
    stays = exists().where(_same(live, new, names))
    gone = _count(conn, delete(live).where(live.c.chain == chain, ~stays), live, touched)
    is_there = exists().where(_same(live, new, _KEY))
    coming = select(*(new.c[name] for name in names)).where(new.c.chain == chain, ~is_there)
    come = _count(conn, insert(live).from_select(names, coming), live, touched)
    return TableReplaced(f"{FACTS}.{live.name}", gone, come)


def _count(conn: Connection, change: Insert | Delete, table: Table, touched: set[date]) -> int:
    """Execute it; how many rows it was. Adds their days to `touched`."""
    changed = change.returning(table.c.block_time).cte("changed")
    day = day_of("changed.block_time")
    counts = conn.execute(select(day, func.count()).select_from(changed).group_by(day)).all()
    touched.update(each for each, _ in counts)
    return sum(count for _, count in counts)


def _replace_outcomes(conn: Connection, chain: ChainId, touched: set[date]) -> TableReplaced:
    raw = _raw(chain)
    names = [column.name for column in raw.columns]
    judged = [
        outcomes.c[name] if name in ("event", "undecodable") else raw.c[name] for name in names
    ]
    # The indexer's role may not update a fact, so that no bug can. The rows leave and come back,
    # in one statement: it hands over each row that it has deleted.
    leaving = (
        delete(raw)
        .where(raw.c.chain == chain, _same(raw, outcomes, _KEY), _is_other_outcome(raw))
        .returning(*(column.label(name) for column, name in zip(judged, names, strict=True)))
        .cte("leaving")
    )
    again = select(*(leaving.c[name] for name in names))
    back = _count(conn, insert(raw).from_select(names, again), raw, touched)
    return TableReplaced(f"{FACTS}.{raw.name}", back, back)


def _settle_alarms(conn: Connection, chain: ChainId) -> None:
    """Clear the alarms of events that decode by now; raise those of events that do not."""
    raw = _raw(chain)
    turned = (
        select(raw.c.height, raw.c.tx_hash, raw.c.position, outcomes.c.undecodable)
        .join(outcomes, _same(raw, outcomes, _KEY))
        .where(raw.c.chain == chain, raw.c.undecodable.is_distinct_from(outcomes.c.undecodable))
    )
    for height, tx_hash, position, undecodable in conn.execute(turned).all():
        subject = f"{height}/{tx_hash}/{position}"
        if undecodable is None:
            clear_alarm(conn, chain, "undecodable", subject)
        else:
            raise_alarm(conn, chain, "undecodable", subject, undecodable)


def _raw(chain: ChainId) -> Table:
    return RAW_MAPPINGS[EvmLog if is_evm(chain) else StellarEvent].table


def _same(one: Any, other: Any, names: Sequence[str]) -> ColumnElement[bool]:
    """Key columns are never null, so that an index can answer for them."""
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
