"""Days as ranges of heights, and change counts of late facts."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date

import pytest
from sqlalchemy import Connection, Engine, select

from indexer.facts import days, store
from indexer.facts.days import (
    day_of,
    first_day,
    first_open_day,
    height_at,
    heights_of,
    record_change,
    record_changed_days,
    start_of,
    versions,
)
from tests.factories.days import set_cursor
from tests.factories.events import EVM, STELLAR, make_block
from warehouse_schema.facts import changed_days
from warehouse_schema.identifiers import ChainId, Height, UnixSeconds

MIDNIGHT = 1_795_219_200
"""2026-11-21T00:00:00Z."""
TODAY = date(2026, 11, 21)
YESTERDAY, TOMORROW = date(2026, 11, 20), date(2026, 11, 22)


def store_blocks(conn: Connection, times: Sequence[tuple[int, int]], chain: ChainId = EVM) -> None:
    """Blocks of these (height, seconds after midnight)."""
    blocks = [
        replace(make_block(height, chain=chain), time=UnixSeconds(MIDNIGHT + seconds))
        for height, seconds in times
    ]
    store.append(conn, blocks, [])
    set_cursor(conn, blocks[-1])


@pytest.mark.parametrize(
    ("seconds", "day"), [(-1, YESTERDAY), (0, TODAY), (86_399, TODAY), (86_400, TOMORROW)]
)
def test_day_begins_at_midnight_utc(seconds: int, day: date) -> None:
    assert day_of(UnixSeconds(MIDNIGHT + seconds)) == day
    assert start_of(TODAY) == MIDNIGHT


@pytest.mark.parametrize(
    "times",
    [
        [(10, -2), (11, -1), (12, 0), (13, 1)],
        [(10, -1), (11, -1), (12, 0), (13, 0)],
        # A backfill left a hole.
        [(1, -9), (2, -8), (900, 0), (901, 5)],
        [(1, -9), (800, -8), (900, 3)],
        [(5, 0)],
        [(5, -1)],
        [(7, 0), (8, 100_000)],
    ],
)
def test_height_at_time_with_missing_blocks(
    connection: Connection, times: list[tuple[int, int]]
) -> None:
    store_blocks(connection, times)
    found = height_at(connection, EVM, UnixSeconds(MIDNIGHT))
    assert [seconds >= 0 for _, seconds in times] == [height >= found for height, _ in times]


def test_chain_without_blocks_has_height_zero(connection: Connection) -> None:
    assert heights_of(connection, EVM, TODAY, TOMORROW) == (0, 0)
    assert first_day(connection, [EVM]) is None


def test_days_partition_heights(connection: Connection) -> None:
    store_blocks(connection, [(n, n * 40_000) for n in range(10)])
    found = [
        heights_of(connection, EVM, day, day)
        for day in days.days_between(TODAY, date(2026, 11, 25))
    ]
    assert found == [(0, 3), (3, 5), (5, 7), (7, 9), (9, 10)]
    assert heights_of(connection, EVM, TODAY, date(2026, 11, 25)) == (0, 10)


def test_first_day_is_that_of_first_block(connection: Connection) -> None:
    store_blocks(connection, [(1, 0)])
    store_blocks(connection, [(9, -1), (10, 0)], STELLAR)
    assert first_day(connection, [EVM]) == TODAY
    assert first_day(connection, [EVM, STELLAR]) == YESTERDAY


def test_first_open_day_is_slowest_chains(connection: Connection) -> None:
    assert first_open_day(connection, []) is None
    assert first_open_day(connection, [EVM]) is None
    store_blocks(connection, [(1, -1), (2, 0)])
    store_blocks(connection, [(9, 86_400)], STELLAR)
    assert first_open_day(connection, [EVM, STELLAR]) == TODAY
    assert first_open_day(connection, [STELLAR]) == TOMORROW
    set_cursor(connection, make_block(2), final=Height(1))
    assert first_open_day(connection, [EVM, STELLAR]) == YESTERDAY


def test_change_counts_on_days_of_blocks(connection: Connection) -> None:
    store_blocks(connection, [(n, n * 40_000) for n in range(10)])
    record_change(connection, EVM, Height(2), Height(4))
    record_change(connection, EVM, Height(4), Height(4))
    record_change(connection, EVM, Height(9), None)
    record_change(connection, EVM, Height(70), None)
    record_changed_days(connection, STELLAR, {TODAY})
    rows = connection.execute(select(changed_days).order_by("chain", "day")).all()
    assert [(row.chain, row.day.day, row.changes) for row in rows] == [
        (EVM, 21, 1),
        (EVM, 22, 2),
        (EVM, 25, 1),
        (STELLAR, 21, 1),
    ]


def test_day_version_changes_with_facts_and_chains(
    connection: Connection,
) -> None:
    def found(looks_back: bool = False) -> list[int]:
        last = date(2026, 11, 23)
        chains = [EVM, STELLAR]
        return list(versions(connection, chains, TODAY, last, looks_back=looks_back).values())

    assert found() == [0, 0, 0]
    store_blocks(connection, [(1, -86_400), (2, 0)])
    assert found() == [1, 1, 1]
    # A chain that is taken up later, and begins on a day that was over.
    store_blocks(connection, [(9, 86_400)], STELLAR)
    assert found() == [1, 2, 2]
    record_changed_days(connection, EVM, {YESTERDAY, TOMORROW})
    record_changed_days(connection, STELLAR, {TOMORROW})
    assert found() == [1, 4, 2]
    assert found(looks_back=True) == [2, 5, 5]


def test_change_count_is_transactional(indexer_engine: Engine) -> None:
    with indexer_engine.begin() as conn:
        store_blocks(conn, [(n, n * 40_000) for n in range(4)])
    with indexer_engine.connect() as conn:
        store.delete_above(conn, EVM, above=Height(1))
        assert len(conn.execute(select(changed_days)).all()) == 2
        conn.rollback()
        assert conn.execute(select(changed_days)).all() == []
