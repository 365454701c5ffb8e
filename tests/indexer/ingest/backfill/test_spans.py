"""Backfill spans: read in parallel by several processes, committed in order."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, select

from indexer.errors import ConfigurationError, FollowerConflict, RangeRefused
from indexer.facts.checks import block_faults
from indexer.ingest.backfill import (
    BackfillProgress,
    Span,
    backfill,
    chunk_queue,
    earlier_spans,
    finish_backfill,
    ingest_span,
    plan_spans,
    run,
)
from indexer.ingest.backfill.chunk_queue import open_queue
from indexer.ingest.backfill.chunks import chunk_of_range
from indexer.ingest.backfill.commit import backfill_lease
from indexer.ingest.rebuild import differences
from tests.factories.fake_chain import ETHEREUM, FakeChain, fake_network
from tests.factories.fake_evm_node import FakeEvmNode
from tests.factories.ingesting import ingest_once
from tests.indexer.ingest.backfill.test_run import (
    LAST,
    NETWORK,
    config,
    ignore,
    make_chain,
    reading,
    stored,
    under_way,
)
from warehouse_schema.facts import blocks
from warehouse_schema.identifiers import Height

WHOLE: Span = (Height(1), Height(LAST))


@pytest.fixture(autouse=True)
def _alert(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(earlier_spans, "_POLL_SECONDS", 0.01)


@pytest.fixture
def expected(engine: Engine, indexer_engine: Engine) -> dict[str, list[Any]]:
    """What the backfill in one process leaves; then it is taken away."""
    backfill(indexer_engine, make_chain(), NETWORK, *WHOLE, ignore)
    rows = stored(indexer_engine)
    empty(engine, "facts.alarms")
    return rows


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
    folder: Path,
    *,
    report: Callable[[BackfillProgress], None] = ignore,
    check: Callable[[], None] = lambda: None,
    node: FakeEvmNode | None = None,
) -> None:
    with reading(node or FakeEvmNode(make_chain())) as reader:
        ingest_span(engine, reader, NETWORK, WHOLE, span, folder, report, check)


def heights(engine: Engine) -> list[int]:
    with engine.connect() as conn:
        return list(conn.scalars(select(blocks.c.height).order_by(blocks.c.height)))


# The plan


def test_spans_cover_range_once(indexer_engine: Engine):
    assert plan(indexer_engine, 25) == [(1, 25), (26, 50), (51, 60)]
    assert plan(indexer_engine, 60) == [(1, 60)]
    assert plan(indexer_engine, None) == [(1, 60)]


@pytest.mark.parametrize(("least", "spans"), [(1, 3), (25, 3), (40, 2)])
def test_span_count_and_size_are_bounded(
    indexer_engine: Engine, monkeypatch: pytest.MonkeyPatch, least: int, spans: int
):
    monkeypatch.setattr(run, "MAX_SPANS", 3)
    monkeypatch.setattr(run, "MIN_BLOCKS", least)
    planned = plan(indexer_engine, None)
    assert len(planned) == spans
    assert (planned[0][0], planned[-1][1]) == WHOLE


def test_plan_omits_committed_blocks(indexer_engine: Engine, tmp_path: Path):
    first, second, *_ = plan(indexer_engine, 25)
    bring(indexer_engine, first, tmp_path)
    assert plan(indexer_engine, 25) == [second, (51, 60)]
    assert plan(indexer_engine, 10)[0] == (26, 35)


def test_invalid_range_is_refused_before_reading(indexer_engine: Engine):
    with pytest.raises(RangeRefused, match="up to 79, not 85"):
        plan(indexer_engine, whole=(Height(1), Height(85)))
    busy = pytest.raises(FollowerConflict, match="another backfill")
    with backfill_lease(indexer_engine, ETHEREUM), busy:
        plan(indexer_engine)


# The order


def test_spans_give_equal_rows(indexer_engine: Engine, expected: Any, tmp_path: Path):
    reports: list[BackfillProgress] = []
    for span in plan(indexer_engine):
        bring(indexer_engine, span, tmp_path, report=reports.append)
    finish_backfill(indexer_engine, NETWORK, ETHEREUM, WHOLE, reports.append)
    done = [progress.done for progress in reports]
    assert done == sorted(done)
    assert (done[-1], reports[-1].events) == (LAST, 2 * LAST)
    assert stored(indexer_engine) == expected
    assert under_way(indexer_engine) == []
    assert differences(indexer_engine, NETWORK) == []


def test_later_span_waits_for_earlier(indexer_engine: Engine, expected: Any, tmp_path: Path):
    """The last span begins first, and each of the others when the one above it waits."""
    spans = plan(indexer_engine, 20)
    reports: list[BackfillProgress] = []
    nodes = [FakeEvmNode(make_chain()) for _ in spans]
    with ThreadPoolExecutor(len(spans)) as pool:
        for place in reversed(range(len(spans))):
            waits = threading.Event()
            pool.submit(
                bring,
                indexer_engine,
                spans[place],
                tmp_path,
                report=reports.append,
                check=waits.set,
                node=nodes[place],
            )
            assert waits.wait(20), f"{spans[place]} was not read"
            if place:
                assert heights(indexer_engine) == []
    for node, (first, last) in zip(nodes, spans, strict=True):
        assert (min(node.ranges)[0], max(node.ranges)[1]) == (first, last)
    assert [progress.done for progress in reports] == sorted(progress.done for progress in reports)
    finish_backfill(indexer_engine, NETWORK, ETHEREUM, WHOLE, ignore)
    assert stored(indexer_engine) == expected


def test_queue_on_disk_is_bounded(
    indexer_engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Chunks of one block: the first that is kept fills the disk, and few more are asked for."""
    monkeypatch.setattr(chunk_queue, "MAX_BYTES", 1)
    monkeypatch.setattr("indexer.ingest.backfill.fetch.FIRST_BLOCKS", 1)
    monkeypatch.setattr("indexer.ingest.backfill.fetch.CHUNK_EVENTS", 1)
    node, looks = FakeEvmNode(make_chain()), [0]

    class Enough(Exception):
        """It was looked at often enough."""

    def look() -> None:
        looks[0] += 1
        if looks[0] == 20:
            raise Enough

    with pytest.raises(Enough):
        bring(indexer_engine, (Height(30), Height(LAST)), tmp_path, check=look, node=node)
    assert 1 <= len(node.ranges) <= 5
    assert heights(indexer_engine) == []


def test_stalled_earlier_span_raises(
    indexer_engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(earlier_spans, "STALL_SECONDS", 0.05)
    with pytest.raises(
        FollowerConflict, match="block 1 comes before 30, and nothing was committed"
    ):
        bring(indexer_engine, (Height(30), Height(LAST)), tmp_path)


def test_span_waits_for_lease(indexer_engine: Engine, tmp_path: Path):
    """The one before has committed its last chunk and not let go of the lock yet; or a swap."""
    waits = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        with backfill_lease(indexer_engine, ETHEREUM):
            brought = pool.submit(
                bring, indexer_engine, WHOLE, tmp_path, check=waits.set, report=ignore
            )
            assert waits.wait(20)
            assert heights(indexer_engine) == []
        brought.result(20)
    assert heights(indexer_engine) == [*range(1, LAST + 1)]


# Killed


class Killed(Exception):
    """The process ends here."""


def test_killed_span_is_planned_from_progress(
    indexer_engine: Engine, expected: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("indexer.ingest.backfill.fetch.FIRST_BLOCKS", 4)
    monkeypatch.setattr("indexer.ingest.backfill.fetch.CHUNK_EVENTS", 8)

    def die(progress: BackfillProgress) -> None:
        if progress.done >= 34:
            raise Killed

    first, second, _ = plan(indexer_engine, 25)
    bring(indexer_engine, first, tmp_path, report=die)
    with pytest.raises(Killed):
        bring(indexer_engine, second, tmp_path, report=die)
    ((_, _, done, _),) = under_way(indexer_engine)
    assert 34 <= done < 50
    with pytest.raises(ConfigurationError, match=f"blocks from {done + 1} on are missing"):
        finish_backfill(indexer_engine, NETWORK, ETHEREUM, WHOLE, ignore)
    again = plan(indexer_engine, 9)
    assert again[0] == (done + 1, done + 9)
    # The steps of the run that was killed may be asked for once more, too: nothing is left to do.
    bring(indexer_engine, (Height(1), Height(25)), tmp_path)
    # And a process that nobody could reach may bring its own in: it and the new one mix.
    bring(indexer_engine, (Height(26), Height(50)), tmp_path)
    for span in again:
        bring(indexer_engine, span, tmp_path)
    finish_backfill(indexer_engine, NETWORK, ETHEREUM, WHOLE, ignore)
    assert stored(indexer_engine) == expected


def test_queue_leaves_no_files(indexer_engine: Engine, tmp_path: Path):
    folder = tmp_path / "queue"

    def look() -> None:
        assert list(folder.iterdir()) == []
        raise Killed

    with pytest.raises(Killed):
        bring(indexer_engine, (Height(30), Height(LAST)), folder, check=look)
    assert list(folder.iterdir()) == []


# The queue


def test_queued_chunks_round_trip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    chain = make_chain()
    made = [
        chunk_of_range(config(), chain.read(Height(first), Height(first + 9), []))
        for first in (1, 11, 21)
    ]
    assert made[0].undecodable
    assert made[1].movements is not None
    with open_queue(tmp_path) as kept:
        for _ in range(2):
            for chunk in made:
                kept.put(chunk)
            assert list(kept.drain()) == made
            assert list(kept.drain()) == []
        monkeypatch.setattr(chunk_queue, "MAX_BYTES", 100)
        full = [kept.is_full]
        kept.put(made[0])
        full.append(kept.is_full)
        assert list(kept.drain()) == made[:1]
        assert [*full, kept.is_full] == [False, True, False]


def test_unwritable_folder_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(ConfigurationError, match=r"chunks cannot be kept in .*file/queue"),
        open_queue(tmp_path / "file" / "queue"),
    ):
        pass
    chunk = chunk_of_range(config(), make_chain().read(Height(1), Height(9), []))
    with Path("/dev/full").open("r+b", buffering=0) as full:
        kept = chunk_queue.ChunkQueue(full, tmp_path)
        with pytest.raises(ConfigurationError, match="No space left on device"):
            kept.put(chunk)


# The seam to what is followed


@pytest.mark.parametrize("start", range(2, 13))
@pytest.mark.parametrize("replaced", [False, True], ids=["up to it", "beyond it"])
def test_cutover_at_any_offset_keeps_every_row(
    engine: Engine, indexer_engine: Engine, tmp_path: Path, start: int, replaced: bool
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
        ingest_span(indexer_engine, chain, late, whole, span, tmp_path, ignore)
        chain.grow(1, sends=2)
        ingest_once(indexer_engine, chain, late)
    finish_backfill(indexer_engine, late, ETHEREUM, whole, ignore)
    assert differences(indexer_engine, late) == []
    assert block_faults(indexer_engine, ETHEREUM) == []
    found = stored(indexer_engine)
    empty(engine, "facts.cursors")
    ingest_once(indexer_engine, chain, straight)
    assert found == stored(indexer_engine)
