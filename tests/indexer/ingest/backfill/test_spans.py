"""Backfill spans: read and committed beside each other by any processes, then folded."""

import multiprocessing
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Engine, select
from sqlalchemy.engine import make_url

from indexer.errors import ConfigurationError, FollowerConflict, InconsistentAnswer, RangeRefused
from indexer.facts.backfills import unfinished_totals
from indexer.facts.checks import block_faults
from indexer.ingest.backfill import (
    BackfillProgress,
    Span,
    backfill,
    commit,
    fetch,
    finish_backfill,
    ingest_span,
    plan_spans,
    run,
)
from indexer.ingest.backfill_lease import backfill_lease
from indexer.ingest.rebuild import differences
from tests.factories.fake_chain import ETHEREUM, FakeChain, fake_network
from tests.factories.fake_evm_node import FakeEvmNode
from tests.factories.ingesting import ingest_once
from tests.indexer.ingest.backfill.test_run import (
    LAST,
    NETWORK,
    ignore,
    make_chain,
    reading,
    stored,
    under_way,
)
from warehouse_schema.engine import make_engine
from warehouse_schema.facts import blocks
from warehouse_schema.identifiers import Height

WHOLE: Span = (Height(1), Height(LAST))


@pytest.fixture
def expected(engine: Engine, indexer_engine: Engine) -> dict[str, list[Any]]:
    """What the backfill in one process leaves; then it is taken away."""
    backfill(indexer_engine, make_chain(), NETWORK, *WHOLE, ignore)
    rows = stored(indexer_engine)
    empty(engine, "facts.alarms")
    return rows


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of a few blocks."""
    monkeypatch.setattr(fetch, "FIRST_BLOCKS", 4)
    monkeypatch.setattr(fetch, "CHUNK_EVENTS", 8)


def empty(engine: Engine, *also: str) -> None:
    tables = ("facts.blocks", "facts.evm_logs", "facts.oft_sent", "projections.movements")
    with engine.begin() as conn:
        conn.exec_driver_sql(f"TRUNCATE {', '.join((*tables, *also))}")


def plan(engine: Engine, wide: int | None = 7, *, whole: Span = WHOLE) -> list[Span]:
    with reading(FakeEvmNode(make_chain())) as reader:
        return plan_spans(engine, reader, NETWORK, *whole, wide)


def bring(
    engine: Engine,
    span: Span,
    *,
    report: Callable[[BackfillProgress], None] = ignore,
    check: Callable[[], None] = lambda: None,
    node: FakeEvmNode | None = None,
) -> None:
    with reading(node or FakeEvmNode(make_chain())) as reader:
        ingest_span(engine, reader, NETWORK, WHOLE, span, report, check)


def finish(engine: Engine) -> None:
    finish_backfill(engine, NETWORK, ETHEREUM, WHOLE, ignore)


def heights(engine: Engine) -> list[int]:
    with engine.connect() as conn:
        return list(conn.scalars(select(blocks.c.height).order_by(blocks.c.height)))


# The plan


@pytest.mark.parametrize(
    ("blocks", "spans"),
    [(25, [(1, 25), (26, 50), (51, 60)]), (60, [(1, 60)]), (None, [(1, 60)])],
)
def test_spans_cover_range_once(indexer_engine: Engine, blocks: int | None, spans: list[Span]):
    assert plan(indexer_engine, blocks) == spans


@pytest.mark.parametrize(("least", "spans"), [(1, 3), (25, 3), (40, 2)])
def test_span_count_and_size_are_bounded(
    indexer_engine: Engine, monkeypatch: pytest.MonkeyPatch, least: int, spans: int
):
    monkeypatch.setattr(run, "MAX_SPANS", 3)
    monkeypatch.setattr(run, "MIN_BLOCKS", least)
    planned = plan(indexer_engine, None)
    assert len(planned) == spans
    assert (planned[0][0], planned[-1][1]) == WHOLE


def test_second_plan_keeps_spans_that_are_not_done(indexer_engine: Engine):
    first, second, third = plan(indexer_engine, 25)
    bring(indexer_engine, second)
    assert plan(indexer_engine, 25) == [first, third]
    # Steps of the first plan may be under way: another size would take their rows from them.
    assert plan(indexer_engine, 10) == [first, third]


@pytest.mark.usefixtures("long_leases")
def test_invalid_range_is_refused_before_reading(
    indexer_engine: Engine, monkeypatch: pytest.MonkeyPatch
):
    with pytest.raises(RangeRefused, match="up to 79, not 85"):
        plan(indexer_engine, whole=(Height(1), Height(85)))
    monkeypatch.setattr(run, "PLAN_TIMEOUT", 0.0)
    busy = pytest.raises(FollowerConflict, match="another backfill")
    with backfill_lease(indexer_engine, ETHEREUM), busy:
        plan(indexer_engine)


# Spans beside each other


@pytest.mark.parametrize("order", [1, -1], ids=["upwards", "downwards"])
def test_spans_in_any_order_give_equal_rows(indexer_engine: Engine, expected: Any, order: int):
    reports: list[BackfillProgress] = []
    for span in plan(indexer_engine)[::order]:
        bring(indexer_engine, span, report=reports.append)
        assert block_faults(indexer_engine, ETHEREUM) == []
        assert differences(indexer_engine, NETWORK) == []
    finish(indexer_engine)
    committed = [progress.committed for progress in reports]
    assert committed == sorted(committed)
    assert (committed[-1], reports[-1].events) == (LAST, 2 * LAST)
    assert stored(indexer_engine) == expected
    assert under_way(indexer_engine) == []
    assert differences(indexer_engine, NETWORK) == []


@pytest.mark.usefixtures("small")
def test_parallel_processes_give_equal_rows(indexer_engine: Engine, expected: Any):
    spans = plan(indexer_engine, 9)
    with ThreadPoolExecutor(len(spans)) as pool:
        for brought in [pool.submit(bring, indexer_engine, span) for span in spans]:
            brought.result(60)
    finish(indexer_engine)
    assert stored(indexer_engine) == expected


@pytest.mark.usefixtures("small")
def test_two_processes_of_one_span_commit_each_chunk_once(indexer_engine: Engine, expected: Any):
    """As when a broker delivers a task again whose worker it took for lost."""
    (span,) = plan(indexer_engine, LAST)
    reports: list[BackfillProgress] = []
    with ThreadPoolExecutor(2) as pool:
        twice = [pool.submit(bring, indexer_engine, span, report=reports.append) for _ in range(2)]
        for brought in twice:
            brought.result(60)
    finish(indexer_engine)
    assert reports[-1].events == 2 * LAST
    assert stored(indexer_engine) == expected


@pytest.mark.usefixtures("small")
def test_process_of_an_ended_backfill_writes_nothing(indexer_engine: Engine, expected: Any):
    """A process that lost its connection for a while, and whose span another one finished."""
    (span,) = plan(indexer_engine, LAST)
    goes_on, waits = threading.Event(), threading.Event()

    def check() -> None:
        waits.set()
        assert goes_on.wait(60)

    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(bring, indexer_engine, span, check=check)
        assert waits.wait(60)
        bring(indexer_engine, span)
        finish(indexer_engine)
        goes_on.set()
        with pytest.raises(FollowerConflict):
            late.result(60)
    bring(indexer_engine, span)
    assert stored(indexer_engine) == expected
    assert under_way(indexer_engine) == []


@pytest.mark.usefixtures("long_leases")
def test_chunk_waits_for_lease(indexer_engine: Engine):
    """Of a swap, or of a backfill in one process; and that waits for the chunk's transaction."""
    (span,) = plan(indexer_engine, LAST)
    waits = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        with backfill_lease(indexer_engine, ETHEREUM):
            brought = pool.submit(bring, indexer_engine, span, check=waits.set)
            assert waits.wait(20)
            assert heights(indexer_engine) == []
        brought.result(20)
    assert heights(indexer_engine) == [*range(1, LAST + 1)]


@pytest.mark.usefixtures("long_leases")
def test_chunk_gives_up_on_a_lease_that_is_held_for_long(
    indexer_engine: Engine, monkeypatch: pytest.MonkeyPatch
):
    (span,) = plan(indexer_engine, LAST)
    monkeypatch.setattr(commit, "LEASE_TIMEOUT", 0.0)
    busy = pytest.raises(FollowerConflict, match="another backfill")
    with backfill_lease(indexer_engine, ETHEREUM), busy:
        bring(indexer_engine, span)
    assert heights(indexer_engine) == []


def test_spans_of_two_histories_do_not_join(indexer_engine: Engine, expected: Any):
    """Committed at the same time, neither sees the other's blocks; so the end compares them."""
    other = FakeChain(NETWORK)
    other.grow(90, fork="other")
    low, high = plan(indexer_engine, 30)
    bring(indexer_engine, low)
    with indexer_engine.connect() as conn:
        hidden = conn.execute(select(blocks).where(blocks.c.height == 30)).mappings().one()
        conn.execute(blocks.delete().where(blocks.c.height == 30))
        conn.commit()
        bring(indexer_engine, high, node=FakeEvmNode(other))
        conn.execute(blocks.insert().values(**hidden))
        conn.commit()
    with pytest.raises(InconsistentAnswer, match="block 31 does not join below"):
        finish(indexer_engine)
    assert under_way(indexer_engine) == []


# Killed


class Killed(Exception):
    """The process ends here."""


@pytest.mark.usefixtures("small")
def test_killed_span_resumes_from_progress(indexer_engine: Engine, expected: Any):
    def die(progress: BackfillProgress) -> None:
        if progress.committed >= 34:
            raise Killed

    first, second, third = plan(indexer_engine, 25)
    bring(indexer_engine, first, report=die)
    with pytest.raises(Killed):
        bring(indexer_engine, second, report=die)
    with indexer_engine.connect() as conn:
        (totals,) = unfinished_totals(conn)
    assert 34 <= totals.committed < 50
    with pytest.raises(ConfigurationError, match=r"blocks from .* on are missing"):
        finish(indexer_engine)
    assert plan(indexer_engine, 9) == [second, third]
    node = FakeEvmNode(make_chain())
    for span in (first, second, third):
        bring(indexer_engine, span, node=node)
    assert min(node.ranges)[0] == totals.committed + 1
    finish(indexer_engine)
    # As when the process that did it is killed before it can say so.
    finish(indexer_engine)
    assert stored(indexer_engine) == expected


def test_one_process_continues_a_backfill_of_spans(indexer_engine: Engine, expected: Any):
    _, second, _ = plan(indexer_engine, 25)
    bring(indexer_engine, second)
    node = FakeEvmNode(make_chain())
    with reading(node) as reader:
        backfill(indexer_engine, reader, NETWORK, *WHOLE, ignore)
    assert not [each for each in node.ranges if 25 < each[0] <= 50]
    assert stored(indexer_engine) == expected


def _bring_in_a_child(url: str, database: str, span: Span) -> None:
    from indexer.chains.evm.reader import EvmReader
    from indexer.decode.evm import event_topics
    from tests.indexer.ingest.backfill.test_run import config

    fetch.FIRST_BLOCKS = fetch.MAX_BLOCKS_COLUMNAR = 1
    engine = make_engine(make_url(database), role="indexer")
    reader = EvmReader(config(), [url], event_topics, timeout=30.0)
    # Slow enough for its parent to kill it before its end.
    ingest_span(engine, reader, NETWORK, WHOLE, span, lambda _: time.sleep(0.05))


def test_killed_process_leaves_whole_chunks(indexer_engine: Engine, expected: Any):
    spans = plan(indexer_engine, 30)
    database = indexer_engine.url.render_as_string(hide_password=False)
    with reading(FakeEvmNode(make_chain())) as reader:
        child = multiprocessing.get_context("spawn").Process(
            target=_bring_in_a_child, args=(reader.urls[0], database, spans[1])
        )
        child.start()
        deadline = threading.Event()
        while len(heights(indexer_engine)) < 5:
            assert child.is_alive()
            deadline.wait(0.005)
        child.kill()
        child.join()
    assert heights(indexer_engine) == [*range(31, under_way(indexer_engine)[-1][2] + 1)]
    for span in spans:
        bring(indexer_engine, span)
    finish(indexer_engine)
    assert stored(indexer_engine) == expected


# The seam to what is followed


@pytest.mark.parametrize("start", range(2, 13))
@pytest.mark.parametrize("replaced", [False, True], ids=["up to it", "beyond it"])
def test_cutover_at_any_offset_keeps_every_row(
    engine: Engine, indexer_engine: Engine, start: int, replaced: bool
):
    """A chain that is followed from a block on, filled in up to it, or over what was followed.

    Meanwhile the chain grows, and the follower goes on between any two spans.
    """
    late, straight = (fake_network(confirmations=3, start_height=first) for first in (start, 1))
    chain = FakeChain(late)
    chain.grow(14, sends=2)
    ingest_once(indexer_engine, chain, late)
    whole = (Height(1), Height(11 if replaced else start - 1))
    for span in plan_spans(indexer_engine, chain, late, *whole, 2):
        ingest_span(indexer_engine, chain, late, whole, span, ignore)
        chain.grow(1, sends=2)
        ingest_once(indexer_engine, chain, late)
    finish_backfill(indexer_engine, late, ETHEREUM, whole, ignore)
    assert differences(indexer_engine, late) == []
    assert block_faults(indexer_engine, ETHEREUM) == []
    found = stored(indexer_engine)
    empty(engine, "facts.cursors")
    ingest_once(indexer_engine, chain, straight)
    assert found == stored(indexer_engine)
