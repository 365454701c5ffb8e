"""Daily figures in Postgres: due days and their computation.

A day is due when it is closed (`facts/days.py`) and was not computed, or its facts changed since:
`projections.days_done` has the version of the facts that a day was computed from, and
`projections.day_blocks` the last block of each chain that it covers.

Each span of days is computed in one snapshot and written in one transaction. The same facts give
the same rows.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import date, timedelta

import polars as pl
from sqlalchemy import Connection, Engine, Table, delete, insert, select, text

from indexer.analytics.book_days import DaySpan, market_days, provider_days
from indexer.analytics.orders import orders_of
from indexer.analytics.route_days import route_days
from indexer.analytics.sources import balance_frame, movement_frame, order_frames
from indexer.analytics.watermarks import watermarks
from indexer.config.networks import Network
from indexer.errors import DayStillOpen
from indexer.facts import days
from indexer.facts.columns_copy import copy_text, text_of_frame
from indexer.facts.sessions import check_lease, fences_itself, lease_session, read_one_snapshot
from warehouse_schema import daily as tables
from warehouse_schema import locks
from warehouse_schema.identifiers import ChainId

logger = logging.getLogger(__name__)

DAYS_AT_ONCE = 31
"""Days of a span: their facts are in memory at once."""

Rows = dict[Table, pl.DataFrame]


@dataclass(frozen=True, slots=True)
class Figure:
    """Tables that are computed together."""

    name: str
    """In `projections.days_done`."""
    tables: tuple[Table, ...]
    chains: Callable[[Connection, Network], Sequence[ChainId]]
    """Chains of the facts: a day is closed when it is closed on all of these."""
    looks_back: bool
    """True when a fact may count on any later day, as the opening of an order does."""
    fold: Callable[[Connection, Network, date, date], Rows]


@dataclass(frozen=True, slots=True)
class DaysWritten:
    """Result of one span of days."""

    figure: str
    first: date
    last: date
    rows: dict[str, int]
    """By table."""


def _stellar(conn: Connection, network: Network) -> Sequence[ChainId]:
    return [chain for chain in days.ingested_chains(conn) if chain == network.stellar.id]


def _all(conn: Connection, _: Network) -> Sequence[ChainId]:
    return days.ingested_chains(conn)


def _fold_book(conn: Connection, network: Network, first: date, last: date) -> Rows:
    chain, span = network.stellar.id, _span(first, last)
    orders = orders_of(*order_frames(conn, chain, first, last))
    balances = balance_frame(conn, chain, first, last)
    return {
        tables.provider_days: provider_days(orders, balances, span),
        tables.market_days: market_days(orders, span),
    }


def _fold_routes(conn: Connection, _: Network, first: date, last: date) -> Rows:
    return {tables.route_days: route_days(movement_frame(conn, first, last), _span(first, last))}


BOOK = Figure("book", (tables.provider_days, tables.market_days), _stellar, True, _fold_book)
ROUTES = Figure("routes", (tables.route_days,), _all, False, _fold_routes)
FIGURES = (BOOK, ROUTES)


def _span(first: date, last: date) -> DaySpan:
    return DaySpan(days.start_of(first) // days.SECONDS, days.start_of(last) // days.SECONDS)


# Due days.


def last_closed_day(conn: Connection, network: Network, figure: Figure) -> date | None:
    """The last day that is closed for a figure; None if none is."""
    still_open = days.first_open_day(conn, figure.chains(conn, network))
    return None if still_open is None else still_open - timedelta(days=1)


def due_days(conn: Connection, network: Network, figure: Figure) -> list[date]:
    """Closed days that are not computed from their facts' current version, oldest first."""
    chains = figure.chains(conn, network)
    first, last = days.first_event_day(conn, chains), last_closed_day(conn, network, figure)
    if first is None or last is None:
        return []
    columns = tables.days_done.c
    query = select(columns.day, columns.version).where(columns.figure == figure.name)
    done = {row.day: row.version for row in conn.execute(query)}
    versions = days.versions(conn, chains, first, last, looks_back=figure.looks_back)
    return [day for day, version in versions.items() if done.get(day) != version]


def contiguous_ranges(wanted: Sequence[date]) -> list[tuple[date, date]]:
    """Ordered days as ranges without gaps: first and last of each."""
    ranges: list[tuple[date, date]] = []
    for day in wanted:
        if ranges and day - timedelta(days=1) == ranges[-1][1]:
            ranges[-1] = (ranges[-1][0], day)
        else:
            ranges.append((day, day))
    return ranges


# Computing.


def compute(
    engine: Engine,
    network: Network,
    figure: Figure,
    first: date,
    last: date,
    *,
    lease_timeout: float = 0.0,
) -> Iterator[DaysWritten]:
    """Compute these days again; yields each span once it is committed.

    Raises `DayStillOpen` for a day that is not closed, before anything of its span is written, and
    `FollowerConflict` when another process still computes the figure after `lease_timeout` seconds.
    """
    busy = f"another process computes the days of {figure.name}"
    with lease_session(engine, locks.DAYS, figure.name, busy, timeout=lease_timeout) as conn:
        while first <= last:
            until = min(last, first + timedelta(days=DAYS_AT_ONCE - 1))
            with fences_itself(conn):
                written = _compute(conn, network, figure, first, until)
            logger.info("computed figure=%s from=%s to=%s", figure.name, first, until)
            yield written
            first = until + timedelta(days=1)


def _compute(
    conn: Connection, network: Network, figure: Figure, first: date, last: date
) -> DaysWritten:
    read_one_snapshot(conn)
    # Before the snapshot is taken: a rebuild that resets days is over, or waits for us and resets
    # ours as well.
    conn.execute(text("LOCK TABLE projections.days_done IN ROW EXCLUSIVE MODE"))
    check_lease(conn)
    closed = last_closed_day(conn, network, figure)
    if closed is None or last > closed:
        raise DayStillOpen(
            f"{last} is not over: for {figure.name} the last day that is, by block and ledger"
            f" times, is {closed or 'not there yet'}"
        )
    folded = figure.fold(conn, network, first, last)
    for table in figure.tables:
        conn.execute(delete(table).where(table.c.day.between(first, last)))
        copy_text(conn, text_of_frame(table, folded[table]))
    done = tables.days_done
    conn.execute(delete(done).where(done.c.figure == figure.name, done.c.day.between(first, last)))
    chains = figure.chains(conn, network)
    versions = days.versions(conn, chains, first, last, looks_back=figure.looks_back)
    conn.execute(
        insert(done),
        [{"figure": figure.name, "day": day, "version": n} for day, n in versions.items()],
    )
    blocks = [
        {"figure": figure.name, "day": day, "chain": chain, **asdict(mark)}
        for day, chain, mark in watermarks(conn, chains, first, last)
    ]
    if blocks:
        conn.execute(insert(tables.day_blocks), blocks)
    rows = {table.name: frame.height for table, frame in folded.items()}
    return DaysWritten(figure.name, first, last, rows)
