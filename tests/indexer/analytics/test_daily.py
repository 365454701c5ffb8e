"""Day figures: due once a day is over, reproducible, and equal to the views."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from sqlalchemy import Engine, Table, select, text

from indexer.analytics import daily
from indexer.analytics.agreement import differences
from indexer.analytics.daily import (
    BOOK,
    FIGURES,
    ROUTES,
    DaysWritten,
    Figure,
    compute,
    contiguous_ranges,
    due_days,
)
from indexer.config.networks import load_network
from indexer.errors import DayStillOpen, FollowerConflict
from indexer.facts import store
from indexer.market.escrow_events import OrderOpen
from tests.factories.book import CHAIN
from tests.factories.days import (
    BEGIN,
    DAY,
    Ledger,
    ingest_ledgers,
    ledger_block,
    set_cursor,
    slow_history,
)
from tests.factories.events import make_block
from tests.factories.leases import wait_for_blocked
from warehouse_schema.daily import days_done, market_days, provider_days
from warehouse_schema.identifiers import BaseUnits, Height, UnixSeconds

NETWORK = load_network("devnet")
FIRST = date(2026, 11, 18)
LAST = date(2026, 11, 21)


def ingest(engine: Engine, history: Sequence[Ledger]) -> None:
    with engine.begin() as conn:
        ingest_ledgers(conn, history)


def due(engine: Engine, figure: Figure = BOOK) -> list[date]:
    with engine.connect() as conn:
        return due_days(conn, NETWORK, figure)


def run(engine: Engine, first: date, last: date, figure: Figure = BOOK) -> list[DaysWritten]:
    return list(compute(engine, NETWORK, figure, first, last))


def rows(engine: Engine, *tables: Table) -> list[Any]:
    with engine.connect() as conn:
        return [
            tuple(row)
            for table in tables
            for row in conn.execute(select(table).order_by(*table.primary_key))
        ]


@pytest.mark.parametrize("seed", range(4))
def test_figures_equal_views_for_any_span_size(
    indexer_engine: Engine, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest(indexer_engine, slow_history(seed, days=3))
    assert due(indexer_engine) == [date(2026, 11, day) for day in (18, 19, 20, 21)]
    (written,) = run(indexer_engine, FIRST, LAST)
    at_once = rows(indexer_engine, provider_days, market_days)
    assert written.rows == {
        "provider_days": len(rows(indexer_engine, provider_days)),
        "market_days": len(rows(indexer_engine, market_days)),
    }
    assert differences(indexer_engine, NETWORK) == []
    assert due(indexer_engine) == []
    monkeypatch.setattr(daily, "DAYS_AT_ONCE", 1)
    assert len(run(indexer_engine, FIRST, LAST)) == 4
    assert rows(indexer_engine, provider_days, market_days) == at_once


@pytest.mark.parametrize("seed", range(3))
def test_figures_equal_views_with_missing_events(indexer_engine: Engine, seed: int) -> None:
    # The book calls such providers stale; what is known of their orders counts all the same.
    history = [
        (ledger, [event for n, event in enumerate(events) if (ledger.height + n) % 5])
        for ledger, events in slow_history(seed, days=2)
    ]
    ingest(indexer_engine, history)
    run(indexer_engine, FIRST, date(2026, 11, 20))
    assert rows(indexer_engine, market_days)
    assert differences(indexer_engine, NETWORK) == []


def test_generated_history_covers_cases(indexer_engine: Engine) -> None:
    ingest(indexer_engine, slow_history(1, days=3))
    run(indexer_engine, FIRST, LAST)
    totals = (
        "SELECT sum(opened), sum(fulfilled), sum(cancelled), sum(expired), sum(partial),"
        " sum(manual) FROM projections.market_days"
    )
    with indexer_engine.connect() as conn:
        assert min(conn.execute(text(totals)).one()) > 0
        held = text("SELECT count(*) FROM projections.provider_days WHERE locked_seconds > 0")
        assert conn.scalar(held) > 5


def test_day_closes_with_final_block_of_next_day(indexer_engine: Engine) -> None:
    history = slow_history(2, days=2)
    before = next(n for n, (ledger, _) in enumerate(history) if ledger.close_time >= BEGIN + DAY)
    ingest(indexer_engine, history[:before])
    assert due(indexer_engine) == [FIRST]
    with pytest.raises(DayStillOpen, match="2026-11-19 is not over: for book the last day that is"):
        run(indexer_engine, FIRST, date(2026, 11, 19))
    assert rows(indexer_engine, provider_days, days_done) == []
    with indexer_engine.begin() as conn:
        ingest_ledgers(conn, history[before : before + 1])
        block = ledger_block(history[before][0])
        set_cursor(conn, block, final=Height(block.height - 1))
    assert due(indexer_engine) == [FIRST]
    with indexer_engine.begin() as conn:
        set_cursor(conn, block)
    assert due(indexer_engine) == [FIRST, date(2026, 11, 19)]


def test_day_is_not_due_without_final_block(indexer_engine: Engine) -> None:
    assert [due(indexer_engine, figure) for figure in FIGURES] == [[], []]
    with pytest.raises(DayStillOpen, match="not there yet"):
        run(indexer_engine, FIRST, FIRST)
    ingest(indexer_engine, slow_history(2, days=2))
    with indexer_engine.begin() as conn:
        conn.execute(text("UPDATE facts.cursors SET final_height = NULL, safe_height = NULL"))
    assert [due(indexer_engine, figure) for figure in FIGURES] == [[], []]


def test_route_day_closes_on_every_chain(indexer_engine: Engine) -> None:
    ingest(indexer_engine, slow_history(2, days=2))
    assert len(due(indexer_engine, ROUTES)) == 3
    with indexer_engine.begin() as conn:
        block = replace(make_block(5), time=UnixSeconds(BEGIN + 9))
        store.append(conn, [block], [])
        set_cursor(conn, block)
    assert due(indexer_engine, ROUTES) == [FIRST]
    assert len(due(indexer_engine, BOOK)) == 3


def test_empty_day_is_marked_done(indexer_engine: Engine) -> None:
    ingest(indexer_engine, slow_history(2, days=2))
    (written,) = run(indexer_engine, FIRST, FIRST, ROUTES)
    assert written.rows == {"route_days": 0}
    assert FIRST not in due(indexer_engine, ROUTES)


def test_second_computation_is_refused(indexer_engine: Engine) -> None:
    ingest(indexer_engine, slow_history(2, days=2))
    under_way = compute(indexer_engine, NETWORK, BOOK, FIRST, FIRST)
    next(under_way)
    with pytest.raises(FollowerConflict, match="another process computes the days of book"):
        run(indexer_engine, FIRST, FIRST)
    run(indexer_engine, FIRST, FIRST, ROUTES)
    list(under_way)
    run(indexer_engine, FIRST, FIRST)


@pytest.mark.usefixtures("long_leases")
def test_lease_is_released_beside_a_renewal(indexer_engine: Engine) -> None:
    ingest(indexer_engine, slow_history(2, days=2))
    under_way = compute(indexer_engine, NETWORK, BOOK, FIRST, FIRST)
    next(under_way)
    with ThreadPoolExecutor(1) as pool:
        with indexer_engine.begin() as renewing:
            renewing.execute(text("UPDATE locks.leases SET expires_at = expires_at"))
            rest = pool.submit(list, under_way)
            wait_for_blocked(renewing)
        assert rest.result(30) == []
    run(indexer_engine, FIRST, FIRST)


def test_failed_span_keeps_old_rows(
    indexer_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest(indexer_engine, slow_history(2, days=2))
    run(indexer_engine, FIRST, FIRST)
    before = rows(indexer_engine, provider_days, market_days, days_done)

    def broken(*_: Any) -> None:
        raise RuntimeError("the disk is full")

    monkeypatch.setattr(daily, "DaysWritten", broken)
    with pytest.raises(RuntimeError):
        run(indexer_engine, FIRST, FIRST)
    assert rows(indexer_engine, provider_days, market_days, days_done) == before


def test_difference_is_a_sentence(engine: Engine, indexer_engine: Engine) -> None:
    ingest(indexer_engine, slow_history(1, days=3))
    run(indexer_engine, FIRST, LAST)
    run(indexer_engine, FIRST, FIRST, ROUTES)
    with engine.begin() as conn:
        conn.execute(
            text("UPDATE projections.market_days SET released = released + 1 WHERE fulfilled > 0")
        )
        conn.execute(text("DELETE FROM projections.provider_days WHERE day = '2026-11-20'"))
    with engine.begin() as conn:
        conn.execute(
            text(
                "INSERT INTO projections.route_days VALUES"
                " ('2026-11-18', 'oft', 'eip155:1', 'elsewhere', 1, 5, 0, 0, 0)"
            )
        )
    found = "\n".join(differences(indexer_engine, NETWORK))
    assert "provider_days 2026-11-20 G" in found
    assert "is not there, and provider_daily has it" in found
    assert "route_days 2026-11-18 oft eip155:1 elsewhere: is there, and route_volume_daily" in found
    assert "released is " in found
    assert [line for line in differences(indexer_engine, NETWORK, ROUTES) if "market" in line] == []


def test_due_days_are_not_compared_with_views(indexer_engine: Engine) -> None:
    ingest(indexer_engine, slow_history(1, days=3))
    run(indexer_engine, FIRST, LAST)
    with indexer_engine.begin() as conn:
        conn.execute(text("UPDATE projections.market_days SET opened = opened + 1"))
        conn.execute(
            text("INSERT INTO facts.changed_days SELECT :chain, day, 1 FROM projections.days_done"),
            {"chain": CHAIN},
        )
    assert len(due(indexer_engine)) == 4
    assert differences(indexer_engine, NETWORK) == []


def test_absurd_fiat_is_null_in_its_market_only(indexer_engine: Engine) -> None:
    # A provider can ask for any rate, and be its own taker.
    history = [
        (
            ledger,
            [
                replace(event, fiat_amount=BaseUnits(2**126))
                if isinstance(event, OrderOpen) and event.rail == "venmo"
                else event
                for event in events
            ],
        )
        for ledger, events in slow_history(1, days=3)
    ]
    ingest(indexer_engine, history)
    run(indexer_engine, FIRST, LAST)
    with indexer_engine.connect() as conn:
        fiat = {
            row.rail: row.fiat for row in conn.execute(select(market_days)) if row.fulfilled > 0
        }
    assert fiat.pop("venmo") is None
    assert None not in fiat.values()
    assert differences(indexer_engine, NETWORK) == []


@pytest.mark.parametrize(
    ("wanted", "ranges"),
    [
        ([], []),
        ([1], [(1, 1)]),
        ([1, 2, 3, 5, 7, 8], [(1, 3), (5, 5), (7, 8)]),
    ],
)
def test_days_become_contiguous_ranges(wanted: list[int], ranges: list[tuple[int, int]]) -> None:
    def day(number: int) -> date:
        return date(2026, 11, number)

    assert contiguous_ranges([day(n) for n in wanted]) == [(day(a), day(b)) for a, b in ranges]
