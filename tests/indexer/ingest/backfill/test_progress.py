"""Backfill progress: rates and time left."""

from dataclasses import replace

from indexer.facts.backfills import BackfillTotals
from indexer.ingest.backfill.progress import BackfillProgress, Meter
from tests.factories.fake_chain import ETHEREUM
from warehouse_schema.identifiers import Height

BEGUN = BackfillTotals(ETHEREUM, Height(1), Height(1_000), committed=0, folded=0, events=0)


def at(committed: int, folded: int, events: int) -> BackfillTotals:
    return replace(BEGUN, committed=committed, folded=folded, events=events)


def test_rates_are_of_this_run():
    now = [100.0]
    meter = Meter(at(200, 200, 5_000), lambda: now[0])
    now[0] += 10
    progress = meter.progress(at(400, 400, 9_000))
    assert (progress.blocks_per_second, progress.events_per_second) == (20.0, 400.0)
    assert (progress.share, progress.seconds_left, progress.step) == (0.4, 30.0, "facts")


def test_movement_rate_starts_after_facts():
    now = [0.0]
    meter = Meter(BEGUN, lambda: now[0])
    now[0] = 10.0
    last_of_facts = meter.progress(at(1_000, 100, 50_000))
    assert (last_of_facts.step, last_of_facts.share) == ("facts", 1.0)
    now[0] = 12.0
    progress = meter.progress(at(1_000, 400, 50_000))
    assert (progress.blocks_per_second, progress.seconds_left) == (150.0, 4.0)
    assert (progress.step, progress.share) == ("movements", 0.4)
    done = meter.progress(at(1_000, 1_000, 50_000))
    assert (done.share, done.seconds_left) == (1.0, 0.0)


def test_folding_run_has_own_rate():
    now = [0.0]
    meter = Meter(at(1_000, 500, 50_000), lambda: now[0])
    now[0] = 5.0
    progress = meter.progress(at(1_000, 600, 50_000))
    assert (progress.blocks_per_second, progress.seconds_left) == (20.0, 20.0)


def test_time_left_is_unknown_at_start():
    progress = Meter(BEGUN, lambda: 0.0).progress(BEGUN)
    assert (progress.share, progress.seconds_left) == (0.0, None)


def test_progress_line():
    progress = BackfillProgress(
        ETHEREUM, Height(1), Height(1_000), 500, 20_000, "facts", 0, 20.0, 1_234.5
    )
    assert str(progress) == (
        "eip155:1 1–1000 facts [███████████████···············]  50.0% 20 blocks/s"
        " 1,234 events/s 0:00:25 left"
    )
