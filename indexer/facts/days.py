"""Facts by UTC day: its heights, its end, and the version of its facts.

A day of a chain is the run of stored heights whose block times lie in it; times never go down with
height. It is closed once a finalized block of the next day is stored: no reorg can reach it any
more. A backfill, a redecode or a deep reorg can, so each change of facts behind a cursor is counted
in `facts.changed_days`, in the same transaction.
"""

from collections.abc import Iterator, Sequence, Set
from datetime import date, timedelta

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Connection,
    Date,
    Text,
    bindparam,
    func,
    literal,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import insert

from warehouse_schema.columns import day_of as day_column
from warehouse_schema.facts import blocks, changed_days, cursors, evm_logs, stellar_events
from warehouse_schema.identifiers import ChainId, Height, UnixSeconds, is_evm
from warehouse_schema.queries import any_of

SECONDS = 86_400
_EPOCH = date(1970, 1, 1)
_ONE = timedelta(days=1)

# A binary search of some twenty lookups: an index on times would cost every ingested block.
_HEIGHT_AT = text("""
    WITH RECURSIVE search (low, high) AS (
        SELECT min(height), max(height) + 1 FROM facts.blocks WHERE chain = :chain
        UNION ALL
        SELECT CASE WHEN next_block.time < :time THEN middle + 1 ELSE low END,
               CASE WHEN next_block.time < :time THEN high ELSE middle END
        FROM search
        CROSS JOIN LATERAL (SELECT (low + high) / 2 AS middle) AS halves
        CROSS JOIN LATERAL (
            SELECT time FROM facts.blocks
            WHERE chain = :chain AND height >= middle ORDER BY height LIMIT 1
        ) AS next_block
        WHERE low < high
    )
    SELECT low FROM search WHERE low = high
""")


def day_of(time: UnixSeconds) -> date:
    """The UTC day of a block's time."""
    return _EPOCH + timedelta(days=time // SECONDS)


def start_of(day: date) -> UnixSeconds:
    """The day's first second."""
    return UnixSeconds((day - _EPOCH).days * SECONDS)


def days_between(first: date, last: date) -> Iterator[date]:
    """Each day from `first` to `last` inclusive."""
    while first <= last:
        yield first
        first += _ONE


def ingested_chains(conn: Connection) -> list[ChainId]:
    """The chains that have a cursor."""
    return [ChainId(chain) for chain in conn.scalars(select(cursors.c.chain).order_by("chain"))]


def first_day(conn: Connection, chains: Sequence[ChainId]) -> date | None:
    """The day of the earliest stored block of these chains."""
    times = [
        conn.scalar(
            select(blocks.c.time).where(blocks.c.chain == chain).order_by(blocks.c.height).limit(1)
        )
        for chain in chains
    ]
    return min((day_of(time) for time in times if time is not None), default=None)


def first_event_day(conn: Connection, chains: Sequence[ChainId]) -> date | None:
    """The day of the earliest raw event of these chains.

    Not of the first block: a local chain's may be of 1970.
    """
    times = [
        conn.scalar(
            select(raw.c.block_time).where(raw.c.chain == chain).order_by(raw.c.height).limit(1)
        )
        for chain in chains
        for raw in (evm_logs if is_evm(chain) else stellar_events,)
    ]
    return min((day_of(time) for time in times if time is not None), default=None)


def first_open_day(conn: Connection, chains: Sequence[ChainId]) -> date | None:
    """The first day that is not closed on all of these chains; None: no day is closed.

    By the time of each chain's last finalized block.
    """
    query = (
        select(cursors.c.chain, blocks.c.time)
        .join(
            blocks,
            (blocks.c.chain == cursors.c.chain) & (blocks.c.height == cursors.c.final_height),
        )
        .where(cursors.c.chain == any_of(chains))
    )
    times = {row.chain: row.time for row in conn.execute(query)}
    if not chains or set(times) != set(chains):
        return None
    return min(map(day_of, times.values()))


def height_at(conn: Connection, chain: ChainId, time: UnixSeconds) -> Height:
    """The height from which on stored blocks are not older than `time`; 0 when none is stored."""
    found = conn.scalar(_HEIGHT_AT, {"chain": chain, "time": time})
    return Height(found or 0)


def heights_of(conn: Connection, chain: ChainId, first: date, last: date) -> tuple[Height, Height]:
    """The first height of the days `first … last`, and of the day after them."""
    return (
        height_at(conn, chain, start_of(first)),
        height_at(conn, chain, start_of(last + _ONE)),
    )


# Changes.


def record_change(conn: Connection, chain: ChainId, first: Height, last: Height | None) -> None:
    """Count a change of the days of the stored blocks `first … last` (None: and all above)."""
    height = blocks.c.height
    where = height >= first if last is None else height.between(first, last)
    day = day_column("time").label("day")
    touched = select(day).where(blocks.c.chain == chain, where).distinct().subquery()
    _count_change(conn, chain, touched.c.day)


def record_changed_days(conn: Connection, chain: ChainId, days: Set[date]) -> None:
    """Count a change of the facts of these days."""
    listed = func.unnest(bindparam(None, list(days), type_=ARRAY(Date))).column_valued("day")
    _count_change(conn, chain, listed)


def _count_change(conn: Connection, chain: ChainId, day: ColumnElement[date]) -> None:
    """Count a change of each `day`, a column of distinct days."""
    # In their order, or two transactions would deadlock.
    counted = select(literal(chain, Text), day, literal(1)).order_by(day)
    statement = insert(changed_days).from_select(["chain", "day", "changes"], counted)
    conn.execute(
        statement.on_conflict_do_update(
            index_elements=["chain", "day"], set_={"changes": changed_days.c.changes + 1}
        )
    )


def versions(
    conn: Connection, chains: Sequence[ChainId], first: date, last: date, *, looks_back: bool
) -> dict[date, int]:
    """A number for each day that changes whenever facts of the day change.

    It is the number of changes of the day, plus the chains that had begun by then: a chain that is
    added later brings closed days without a counted change. With `looks_back` changes of all
    earlier days count as well.
    """
    since = date.min if looks_back else first
    query = (
        select(changed_days.c.day, func.sum(changed_days.c.changes))
        .where(changed_days.c.chain == any_of(chains), changed_days.c.day.between(since, last))
        .group_by(changed_days.c.day)
    )
    changes = {day: int(count) for day, count in conn.execute(query)}
    begun = [each for chain in chains if (each := first_day(conn, [chain])) is not None]
    before = sum(count for day, count in changes.items() if day < first)
    found = {}
    for day in days_between(first, last):
        before += changes.get(day, 0)
        counted = before if looks_back else changes.get(day, 0)
        found[day] = counted + sum(each <= day for each in begun)
    return found
