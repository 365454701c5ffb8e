"""Progress of ranges summed into reports."""

import dagster as dg

from pipelines.reports import (
    AssetReporter,
    Event,
    IngestReport,
    LaterReports,
    Reporter,
    add_reports,
    chain_metadata,
)
from tests.pipelines.factories import make_progress

KEY = dg.AssetKey("cursor")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def reporting(every: float = 10.0, later: LaterReports = LaterReports.MATERIALIZE):
    clock = Clock()
    events: list[Event] = []
    reporter = Reporter(events.append, [AssetReporter(KEY, chain_metadata, later)], every, clock)
    return clock, events, reporter


def test_no_report_before_the_first_range():
    _, events, reporter = reporting()
    reporter.flush()
    assert events == []


def test_first_range_is_reported_at_once_then_at_intervals():
    clock, events, reporter = reporting()
    for clock.now in (0.0, 1.0, 9.9):
        reporter(IngestReport.of(make_progress(blocks=2, events=3)))
    assert len(events) == 1
    clock.now = 10.0
    reporter(IngestReport.of(make_progress(blocks=2, events=3)))
    assert events[1].metadata["blocks"].value == 6
    assert events[1].metadata["events"].value == 9
    assert events[1].metadata["blocks_per_second"].value == 0.6


def test_flush_reports_pending_ranges_once():
    _, events, reporter = reporting()
    reporter(IngestReport.of(make_progress(97)))
    reporter(IngestReport.of(make_progress(98)))
    reporter.flush()
    reporter.flush()
    assert [event.metadata["height"].value for event in events] == [97, 98]


def test_reorg_is_counted_without_reducing_blocks():
    rewound = make_progress(90, blocks=-8, events=-2)
    report = add_reports(
        IngestReport.of(make_progress(98, blocks=8, events=5)), IngestReport.of(rewound)
    )
    assert (report.blocks, report.events, report.reorgs) == (8, 3, 1)
    assert report.latest == rewound


def test_later_reports_may_be_observations_or_omitted():
    kinds = {}
    for later in LaterReports:
        _, events, reporter = reporting(every=0.0, later=later)
        reporter(IngestReport.of(make_progress(97)))
        reporter(IngestReport.of(make_progress(98)))
        kinds[later] = [type(event) for event in events]
    assert kinds == {
        LaterReports.MATERIALIZE: [dg.AssetMaterialization, dg.AssetMaterialization],
        LaterReports.OBSERVE: [dg.AssetMaterialization, dg.AssetObservation],
        LaterReports.NOTHING: [dg.AssetMaterialization],
    }
