"""A day whose facts change after it was computed is due again."""

from datetime import date
from typing import Any

import pytest
from sqlalchemy import Engine, delete, select

from indexer.analytics.agreement import differences
from indexer.analytics.daily import BOOK, ROUTES, compute, due_days
from indexer.config.networks import Network, load_network
from indexer.facts.days import day_of, record_change
from indexer.ingest.backfill import backfill, chunks
from indexer.ingest.rebuild import rebuild
from indexer.ingest.redecode import run as redecode
from tests.factories.days import append_ledgers, ingest_ledgers, slow_history
from tests.factories.fake_chain import ETHEREUM, FakeChain, fake_network
from tests.factories.ingesting import ingest_once
from tests.indexer.ingest.test_redecode import decoding, old_decode
from warehouse_schema.daily import route_days
from warehouse_schema.events import oft_sent
from warehouse_schema.facts import changed_days
from warehouse_schema.identifiers import Height

HOURS_A_BLOCK = 6 * 3_600
"""The chain begins on 2023-11-14 at 22:13:20; four blocks a day."""
LATE_START = fake_network(confirmations=3, start_height=10)


def make_chain(grown: int = 30, network: Network = LATE_START) -> FakeChain:
    chain = FakeChain(network, block_seconds=HOURS_A_BLOCK)
    chain.grow(grown)
    return chain


def follow(engine: Engine, chain: FakeChain, network: Network = LATE_START) -> None:
    while ingest_once(engine, chain, network) is not None:
        pass


def due(engine: Engine, network: Network = LATE_START) -> list[date]:
    with engine.connect() as conn:
        return due_days(conn, network, ROUTES)


def run(engine: Engine, network: Network = LATE_START) -> None:
    wanted = due(engine, network)
    for _ in compute(engine, network, ROUTES, wanted[0], wanted[-1]):
        pass


def sent(engine: Engine) -> dict[int, int]:
    """Movements sent, by the day of November 2023."""
    with engine.connect() as conn:
        rows = conn.execute(select(route_days.c.day, route_days.c.sent).order_by(route_days.c.day))
        return {row.day.day: row.sent for row in rows}


def november(*numbers: int) -> list[date]:
    return [date(2023, 11, number) for number in numbers]


def test_growing_chain_makes_no_day_due_again(indexer_engine: Engine) -> None:
    chain = make_chain(27)
    follow(indexer_engine, chain)
    # Block 24 is final: 2023-11-20 at 22:13.
    assert due(indexer_engine) == november(17, 18, 19)
    run(indexer_engine)
    chain.grow(4)
    follow(indexer_engine, chain)
    assert due(indexer_engine) == november(20)
    run(indexer_engine)
    assert sent(indexer_engine) == {17: 3, 18: 4, 19: 4, 20: 4}
    with indexer_engine.connect() as conn:
        assert conn.execute(select(changed_days)).all() == []


def test_reorg_of_closed_day_makes_it_due(indexer_engine: Engine) -> None:
    # The chain breaks its word: what it called final goes.
    chain = make_chain(30)
    follow(indexer_engine, chain)
    run(indexer_engine)
    assert sent(indexer_engine) == {17: 3, 18: 4, 19: 4, 20: 4}
    shallow = fake_network(confirmations=20, start_height=10)
    with indexer_engine.begin() as conn:
        conn.exec_driver_sql("UPDATE facts.cursors SET final_height = 10, safe_height = 10")
    chain.drop(9)
    chain.grow(10, sends=2, fork="other")
    follow(indexer_engine, chain, shallow)
    # Blocks 22 to 30 went: from 2023-11-20 at 10:13 on. That day is open again, and due once it is
    # over again.
    assert due(indexer_engine) == []
    assert differences(indexer_engine, LATE_START) == []
    with indexer_engine.begin() as conn:
        conn.exec_driver_sql("UPDATE facts.cursors SET final_height = 28")
    assert due(indexer_engine) == november(20)
    run(indexer_engine)
    assert sent(indexer_engine) == {17: 3, 18: 4, 19: 4, 20: 7}
    assert differences(indexer_engine, LATE_START) == []


def test_backfill_makes_computed_days_due(indexer_engine: Engine) -> None:
    chain = make_chain(30)
    follow(indexer_engine, chain)
    run(indexer_engine)
    backfill(indexer_engine, chain, LATE_START, Height(1), Height(9), lambda _: None)
    assert due(indexer_engine) == november(15, 16, 17)
    run(indexer_engine)
    assert sent(indexer_engine) == {15: 4, 16: 4, 17: 4, 18: 4, 19: 4, 20: 4}
    assert due(indexer_engine) == []
    assert differences(indexer_engine, LATE_START) == []


def test_correcting_backfill_makes_days_due(indexer_engine: Engine) -> None:
    chain = make_chain(30)
    follow(indexer_engine, chain)
    with indexer_engine.begin() as conn:
        conn.execute(delete(oft_sent).where(oft_sent.c.height == 15))
    rebuild(indexer_engine, LATE_START)
    run(indexer_engine)
    assert sent(indexer_engine)[18] == 3
    backfill(indexer_engine, chain, LATE_START, Height(15), Height(15), lambda _: None)
    assert due(indexer_engine) == november(18)
    run(indexer_engine)
    assert sent(indexer_engine)[18] == 4


def test_late_movements_make_days_due(
    indexer_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "MAX_MOVEMENTS", 0)
    chain = make_chain(30)
    follow(indexer_engine, chain)
    seen: list[dict[int, int]] = []

    def look(_: object) -> None:
        if due(indexer_engine):
            run(indexer_engine)
        seen.append(sent(indexer_engine))

    backfill(indexer_engine, chain, LATE_START, Height(1), Height(9), look)
    assert 15 not in seen[0], "the facts were there, the movements were not"
    if due(indexer_engine):
        run(indexer_engine)
    assert sent(indexer_engine) == {15: 4, 16: 4, 17: 4, 18: 4, 19: 4, 20: 4}
    assert differences(indexer_engine, LATE_START) == []


@pytest.fixture
def revised(engine: Engine, indexer_engine: Engine) -> Engine:
    """Ingested and computed by an old decoder, with the redecode that mends it filled."""
    network = fake_network(confirmations=3)
    with decoding(old_decode):
        follow(indexer_engine, make_chain(30, network), network)
    run(indexer_engine, network)
    redecode.start(engine, network, [ETHEREUM])
    return indexer_engine


def test_redecode_makes_days_due(revised: Engine) -> None:
    network = fake_network(confirmations=3)
    assert sent(revised) == {15: 3, 16: 3, 17: 2, 18: 3, 19: 3, 20: 2}
    redecode.swap(revised, network)
    with revised.connect() as conn:
        noted = set(conn.scalars(select(changed_days.c.day)))
    assert set(november(15, 16, 17, 18, 19, 20)) <= noted
    assert due(revised, network) == november(15, 16, 17, 18, 19, 20)
    run(revised, network)
    assert sent(revised) == {15: 4, 16: 4, 17: 4, 18: 4, 19: 4, 20: 4}
    assert differences(revised, network) == []


def test_rebuild_makes_every_day_due(indexer_engine: Engine) -> None:
    follow(indexer_engine, make_chain(30))
    run(indexer_engine)
    rebuild(indexer_engine, LATE_START)
    assert due(indexer_engine) == november(17, 18, 19, 20)


def test_late_order_book_facts_make_days_due(indexer_engine: Engine) -> None:
    network = load_network("devnet")
    history = slow_history(1, days=3)
    busy = [ledger for ledger in history if len(ledger[1]) > 1]
    gap = busy[len(busy) // 2 :][:3]
    with indexer_engine.begin() as conn:
        ingest_ledgers(conn, [ledger for ledger in history if ledger not in gap])
        days = due_days(conn, network, BOOK)
    list(compute(indexer_engine, network, BOOK, days[0], days[-1]))
    before = computed(indexer_engine)
    with indexer_engine.begin() as conn:
        append_ledgers(conn, gap)
        for ledger, _ in gap:
            record_change(conn, ledger.chain, ledger.height, ledger.height)
        late = due_days(conn, network, BOOK)
    # An order that opened in the gap may have ended on any day since.
    first = day_of(gap[0][0].close_time)
    assert late == [day for day in days if day >= first] != days
    list(compute(indexer_engine, network, BOOK, days[0], days[-1]))
    assert computed(indexer_engine) != before
    # The order book itself is folded forward; what was late comes into it by a rebuild.
    assert differences(indexer_engine, network) != []
    rebuild(indexer_engine, network)
    list(compute(indexer_engine, network, BOOK, days[0], days[-1]))
    assert differences(indexer_engine, network) == []


def computed(engine: Engine) -> list[Any]:
    with engine.connect() as conn:
        tables = ("provider_days", "market_days")
        return [
            tuple(row)
            for name in tables
            for row in conn.exec_driver_sql(f"SELECT * FROM projections.{name} ORDER BY 1, 2, 3, 4")
        ]
