"""Facts by the day: which heights a UTC day has, when a day is over, whether its facts changed.

A day of a chain is the run of stored heights whose block times lie in it; times never go down with
height. It is over once a final block of the next day is stored, so that no reorganisation can reach
it any more. What can is a backfill, a revision, or a chain that breaks its word: whoever changes
facts behind a cursor counts that in `facts.changed_days`, in the transaction that does it.
"""

from collections.abc import Collection, Iterator, Sequence
from datetime import date, timedelta

from sqlalchemy import (
    ARRAY,
    Connection,
    Date,
    Text,
    bindparam,
    func,
    literal,
    select,
)
from sqlalchemy.dialects.postgresql import insert

from warehouse_schema.columns import day_of as day_column
from warehouse_schema.facts import blocks, changed_days, cursors, evm_logs, stellar_events
from warehouse_schema.identifiers import ChainId, Height, UnixSeconds, is_evm
from warehouse_schema.queries import any_of

SECONDS = 86_400
_EPOCH = date(1970, 1, 1)
_ONE = timedelta(days=1)


def day_of(time: UnixSeconds) -> date:
    """The UTC day of a block's time."""
    return _EPOCH + timedelta(days=time // SECONDS)


def start_of(day: date) -> UnixSeconds:
    """Its first second."""
    return UnixSeconds((day - _EPOCH).days * SECONDS)


def days_between(first: date, last: date) -> Iterator[date]:
    """Each day from `first` to `last` inclusive."""
    while first <= last:
        yield first
        first += _ONE


def day_before(day: date) -> date:
    """The one before."""
    return day - _ONE


def ingested_chains(conn: Connection) -> list[ChainId]:
    """The chains that have a cursor: whose days count."""
    return [ChainId(chain) for chain in conn.scalars(select(cursors.c.chain).order_by("chain"))]


def first_day(conn: Connection, chains: Sequence[ChainId]) -> date | None:
    """The earliest day of which one of the chains has a block."""
    times = [
        conn.scalar(
            select(blocks.c.time).where(blocks.c.chain == chain).order_by(blocks.c.height).limit(1)
        )
        for chain in chains
    ]
    return min((day_of(time) for time in times if time is not None), default=None)


def first_event_day(conn: Connection, chains: Sequence[ChainId]) -> date | None:
    """The earliest day in which anything of ours happened on one of the chains.

    Blocks are stored without events too, and a local chain's first block may be of 1970.
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
    """The first day that is not over on all of these chains; None: none is known to be over.

    By the time of each chain's last final block.
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
    """A height below which every stored block is older than `time`, and from which on none is."""
    edges = select(func.min(blocks.c.height), func.max(blocks.c.height) + 1)
    low, high = conn.execute(edges.where(blocks.c.chain == chain)).one()
    if low is None:
        return Height(0)
    # An index on times would cost every block that comes in; this costs some twenty look-ups.
    while low < high:
        middle = (low + high) // 2
        next_one = select(blocks.c.time).where(blocks.c.chain == chain, blocks.c.height >= middle)
        next_time = conn.execute(next_one.order_by(blocks.c.height).limit(1)).scalar_one()
        low, high = (low, middle) if next_time >= time else (middle + 1, high)
    return Height(low)


def heights_of(conn: Connection, chain: ChainId, first: date, last: date) -> tuple[Height, Height]:
    """Where the days `first … last` of a chain begin, and where the day after them does."""
    return (
        height_at(conn, chain, start_of(first)),
        height_at(conn, chain, start_of(last + _ONE)),
    )


# Changes.


def record_change(conn: Connection, chain: ChainId, first: Height, last: Height | None) -> None:
    """Count a change of the facts at these heights (None: all from `first` on), by the days of the
    blocks that are stored there now."""
    height = blocks.c.height
    where = height >= first if last is None else height.between(first, last)
    day = day_column("time")
    touched = select(day).where(blocks.c.chain == chain, where).distinct().order_by(day)
    record_changed_days(conn, chain, conn.scalars(touched).all())


def record_changed_days(conn: Connection, chain: ChainId, days: Collection[date]) -> None:
    """Count a change of the facts of these days."""
    if not days:
        return
    listed = func.unnest(bindparam(None, sorted(days), type_=ARRAY(Date))).column_valued("day")
    statement = insert(changed_days).from_select(
        ["chain", "day", "changes"], select(literal(chain, Text), listed, literal(1))
    )
    conn.execute(
        statement.on_conflict_do_update(
            index_elements=["chain", "day"], set_={"changes": changed_days.c.changes + 1}
        )
    )


def versions(
    conn: Connection, chains: Sequence[ChainId], first: date, last: date, *, looks_back: bool
) -> dict[date, int]:
    """For each of the days a number that is another one once facts of the day have changed.

    It counts the changes of the day and the chains that had begun by then: a chain that is taken up
    later comes by days that are over, and counts nothing. With `looks_back` changes of all earlier
    days count as well.
    """
    changes = _changes(conn, chains, date.min if looks_back else first, last)
    begun = [each for chain in chains if (each := first_day(conn, [chain])) is not None]
    before = sum(count for day, count in changes.items() if day < first)
    found = {}
    for day in days_between(first, last):
        before += changes.get(day, 0)
        counted = before if looks_back else changes.get(day, 0)
        found[day] = counted + sum(each <= day for each in begun)
    return found


def _changes(
    conn: Connection, chains: Sequence[ChainId], first: date, last: date
) -> dict[date, int]:
    """How often facts of each day changed, over these chains; without the days that did not."""
    query = (
        select(changed_days.c.day, func.sum(changed_days.c.changes))
        .where(changed_days.c.chain == any_of(chains), changed_days.c.day.between(first, last))
        .group_by(changed_days.c.day)
    )
    return {day: int(count) for day, count in conn.execute(query)}
