"""Daily figures in Postgres: which days are due, and computing them.

A day is due when it is over (`facts/days.py`) and has not been computed, or its facts have changed
since. So nothing has to tell who computes days of a late fact; `projections.days_done` says from
which state of the facts a day was computed, and whoever changes facts behind a cursor counts it.

Days are computed some at a time, each span in one snapshot and one transaction: rows leave and
come, and come out the same for the same facts.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, timedelta

import polars as pl
from sqlalchemy import Connection, Engine, Table, delete, insert, select, text

from indexer.analytics.book_days import SECONDS, DaySpan, market_days, provider_days
from indexer.analytics.orders import orders_of
from indexer.analytics.route_days import route_days
from indexer.analytics.sources import balance_frame, movement_frame, order_frames
from indexer.config.networks import Network
from indexer.errors import DayStillOpen, FollowerConflict
from indexer.facts import days
from indexer.facts.columns_copy import copy_text, text_of_frame
from warehouse_schema import locks
from warehouse_schema import projections as tables
from warehouse_schema.identifiers import ChainId
from warehouse_schema.leases import end_lease, take_lease
from warehouse_schema.lock_tables import leases

logger = logging.getLogger(__name__)

DAYS_AT_ONCE = 31
"""Days whose facts are in memory at once."""

Rows = dict[Table, pl.DataFrame]


@dataclass(frozen=True, slots=True)
class Figure:
    """Tables that are computed together."""

    name: str
    """In `projections.days_done`."""
    tables: tuple[Table, ...]
    chains: Callable[[Connection, Network], Sequence[ChainId]]
    """Whose facts they are computed from: a day is over when it is over on all of these."""
    looks_back: bool
    """Whether a fact of one day may count on any later one, as the opening of an order does."""
    fold: Callable[[Connection, Network, date, date], Rows]


@dataclass(frozen=True, slots=True)
class DaysWritten:
    """What became of a span of days."""

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
    return DaySpan(days.start_of(first) // SECONDS, days.start_of(last) // SECONDS)


# What is due.


def last_closed_day(conn: Connection, network: Network, figure: Figure) -> date | None:
    """The last day that is over for a figure; None if none is."""
    still_open = days.first_open_day(conn, figure.chains(conn, network))
    return None if still_open is None else days.day_before(still_open)


def due_days(conn: Connection, network: Network, figure: Figure) -> list[date]:
    """The days that are over and are not computed as their facts are now, oldest first."""
    chains = figure.chains(conn, network)
    first, last = days.first_event_day(conn, chains), last_closed_day(conn, network, figure)
    if first is None or last is None:
        return []
    done = _done(conn, figure)
    versions = days.versions(conn, chains, first, last, looks_back=figure.looks_back)
    return [day for day, version in versions.items() if done.get(day) != version]


def _done(conn: Connection, figure: Figure) -> dict[date, int]:
    done = tables.days_done.c
    query = select(done.day, done.version).where(done.figure == figure.name)
    return {row.day: row.version for row in conn.execute(query)}


def contiguous_ranges(wanted: Sequence[date]) -> list[tuple[date, date]]:
    """Days in order as ranges without a gap: first and last of each."""
    ranges: list[tuple[date, date]] = []
    for day in wanted:
        if ranges and days.day_before(day) == ranges[-1][1]:
            ranges[-1] = (ranges[-1][0], day)
        else:
            ranges.append((day, day))
    return ranges


# Computing.


def compute(
    engine: Engine, network: Network, figure: Figure, first: date, last: date
) -> Iterator[DaysWritten]:
    """Compute these days anew, whatever is stored of them; tells of each span when it is committed.

    Raises `DayStillOpen` for a day that is not over, before anything is written of its span, and
    `FollowerConflict` when another process computes the figure.
    """
    with _alone(engine, figure) as conn:
        while first <= last:
            until = min(last, first + timedelta(days=DAYS_AT_ONCE - 1))
            with conn.begin():
                written = _compute(conn, network, figure, first, until)
            logger.info("computed figure=%s from=%s to=%s", figure.name, first, until)
            yield written
            first = until + timedelta(days=1)


@contextmanager
def _alone(engine: Engine, figure: Figure) -> Iterator[Connection]:
    """A connection that alone may write a figure, each of whose transactions sees one snapshot."""
    with engine.connect() as conn:
        with conn.begin():
            key = take_lease(conn, leases, locks.DAYS, figure.name)
        if key is None:
            raise FollowerConflict(f"another process computes the days of {figure.name}")
        conn.execution_options(isolation_level="REPEATABLE READ")
        try:
            yield conn
        finally:
            if not conn.invalidated:
                conn.rollback()
                with conn.begin():
                    end_lease(conn, locks.DAYS, key)


def _compute(
    conn: Connection, network: Network, figure: Figure, first: date, last: date
) -> DaysWritten:
    # Before the snapshot is taken: a rebuild that lets all days be computed again is over, or waits
    # for us and takes our days back.
    conn.execute(text("LOCK TABLE projections.days_done IN ROW EXCLUSIVE MODE"))
    _refuse_open(conn, network, figure, last)
    folded = figure.fold(conn, network, first, last)
    for table in figure.tables:
        conn.execute(delete(table).where(table.c.day.between(first, last)))
        copy_text(conn, text_of_frame(table, folded[table]))
    _note_done(conn, network, figure, first, last)
    rows = {table.name: frame.height for table, frame in folded.items()}
    return DaysWritten(figure.name, first, last, rows)


def _refuse_open(conn: Connection, network: Network, figure: Figure, last: date) -> None:
    closed = last_closed_day(conn, network, figure)
    if closed is None or last > closed:
        raise DayStillOpen(
            f"{last} is not over: for {figure.name} the last day that is, by block and ledger"
            f" times, is {closed or 'not there yet'}"
        )


def _note_done(conn: Connection, network: Network, figure: Figure, first: date, last: date) -> None:
    done = tables.days_done
    of_days = (done.c.figure == figure.name) & done.c.day.between(first, last)
    conn.execute(delete(done).where(of_days))
    chains = figure.chains(conn, network)
    versions = days.versions(conn, chains, first, last, looks_back=figure.looks_back)
    conn.execute(
        insert(done),
        [{"figure": figure.name, "day": day, "version": n} for day, n in versions.items()],
    )
