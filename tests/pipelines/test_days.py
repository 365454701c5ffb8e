"""Day jobs: due once a day is over, run as a range, due again when facts change."""

from dataclasses import replace
from datetime import date
from pathlib import Path

import dagster as dg
import pytest
from sqlalchemy import Engine, text

from indexer.config.settings import Settings
from indexer.facts.days import record_changed_days
from pipelines import supervision
from pipelines.defs.days.assets import days
from pipelines.defs.days.sensors import first_range
from pipelines.defs.names import (
    AGREES,
    BOOK_JOB,
    CHECK_DAYS,
    FACT_FILES,
    FACTS_JOB,
    FIGURE_FILES,
    FIGURES_JOB,
    MARKET_DAYS,
    PROVIDER_DAYS,
    ROUTE_DAYS,
    ROUTES_JOB,
)
from pipelines.defs.projections.assets import projections
from pipelines.instance import range_tags
from tests.factories.book import CHAIN
from tests.factories.days import ingest_ledgers, slow_history
from tests.pipelines.factories import warehouse_of

DAYS = ["2026-11-18", "2026-11-19", "2026-11-20"]


@pytest.fixture
def definitions(settings: Settings, indexer_engine: Engine, tmp_path: Path) -> dg.Definitions:
    """The days of a warehouse of two days and a few seconds before them."""
    with indexer_engine.begin() as conn:
        ingest_ledgers(conn, slow_history(1, days=2))
    settings = replace(settings, export=tmp_path)
    return dg.Definitions.merge(
        projections(settings.network, settings.followed),
        days(settings),
        dg.Definitions(resources={"warehouse": warehouse_of(indexer_engine)}),
    )


@pytest.fixture
def run(definitions: dg.Definitions, instance: dg.DagsterInstance):
    """Call it to run a job, over a range of days if one is given."""

    def execute(job: str, first: str | None = None, last: str | None = None):
        return definitions.resolve_job_def(job).execute_in_process(
            instance=instance,
            tags=range_tags(first, last) if first and last else None,
            raise_on_error=False,
        )

    return execute


@pytest.fixture
def look(definitions: dg.Definitions, instance: dg.DagsterInstance, indexer_engine: Engine):
    """Call it for the range that a job's sensor asks for, or why it asks for none."""

    def evaluate(job: str) -> tuple[str, str] | str | None:
        sensor = definitions.resolve_sensor_def(f"{job}_sensor")
        with dg.build_sensor_context(
            instance=instance, resources={"warehouse": warehouse_of(indexer_engine)}
        ) as context:
            response = sensor(context)
        if isinstance(response, dg.SkipReason):
            return response.skip_message
        found = response.partition_key_range
        return found.start, found.end

    return evaluate


def test_each_day_job_does_its_sensors_days(run, look, instance, tmp_path):
    for job, keys in (
        (BOOK_JOB, (PROVIDER_DAYS, MARKET_DAYS)),
        (ROUTES_JOB, (ROUTE_DAYS,)),
        (FACTS_JOB, (FACT_FILES,)),
        (FIGURES_JOB, (FIGURE_FILES,)),
    ):
        dates = look(job)
        assert dates == (DAYS[0], DAYS[-1]), job
        result = run(job, *dates)
        assert result.success
        for key in keys:
            assert sorted(instance.get_materialized_partitions(key)) == DAYS
        assert look(job) == "every day that is over is done"
    assert len(list((tmp_path / "blocks").glob("day=*/blocks.parquet"))) == 3


def test_run_reports_days_and_rows(run, instance):
    result = run(BOOK_JOB, DAYS[0], DAYS[-1])
    events = result.asset_materializations_for_node("fold_book_days")
    metadata = {event.asset_key: event.metadata for event in events}[PROVIDER_DAYS]
    assert (metadata["days"].value, metadata["from"].value) == (3, DAYS[0])
    assert metadata["rows"].value > 0


def test_figures_are_exported_once_all_are_computed(run, look):
    assert look(FIGURES_JOB) == "every day that is over is done"
    run(BOOK_JOB, DAYS[0], DAYS[-1])
    assert look(FIGURES_JOB) == "every day that is over is done"
    run(ROUTES_JOB, DAYS[0], DAYS[1])
    assert look(FIGURES_JOB) == (DAYS[0], DAYS[1])


def test_day_with_changed_facts_is_due_again(run, look, indexer_engine):
    for job in (BOOK_JOB, ROUTES_JOB, FACTS_JOB):
        run(job, DAYS[0], DAYS[-1])
    with indexer_engine.begin() as conn:
        record_changed_days(conn, CHAIN, {date(2026, 11, 19)})
    assert look(FACTS_JOB) == look(ROUTES_JOB) == (DAYS[1], DAYS[1])
    # An order that opened on that day may have ended on any later one.
    assert look(BOOK_JOB) == (DAYS[1], DAYS[2])


def test_open_day_fails_its_run_with_a_reason(run):
    result = run(BOOK_JOB, "2026-11-20", "2026-11-21")
    (failed,) = [event for event in result.all_events if event.is_step_failure]
    metadata = failed.step_failure_data.user_failure_data.metadata
    assert metadata["kind"].value == "DayStillOpen"
    assert metadata["reason"].value.startswith("2026-11-21 is not over")


def test_failed_day_run_backs_off(run, look, engine, monkeypatch):
    # Longer than a busy machine may need to look.
    monkeypatch.setattr(supervision, "_BACKOFF", (0.0, 3_600.0))
    with engine.begin() as owner:
        owner.execute(text("ALTER TABLE projections.market_days ADD CONSTRAINT no CHECK (false)"))
    assert not run(BOOK_JOB, DAYS[0], DAYS[-1]).success
    assert look(BOOK_JOB).startswith("failed 1 times in a row; next start in")


def test_figures_unlike_views_fail_their_asset_check(run, engine):
    for job in (BOOK_JOB, ROUTES_JOB):
        run(job, DAYS[0], DAYS[-1])
    found = checks(run(CHECK_DAYS))
    assert {key: evaluation.passed for key, evaluation in found.items()} == {
        PROVIDER_DAYS: True,
        MARKET_DAYS: True,
        ROUTE_DAYS: True,
    }
    with engine.begin() as owner:
        owner.execute(text("UPDATE projections.market_days SET opened = opened + 1"))
    found = checks(run(CHECK_DAYS))
    assert [found[key].passed for key in (PROVIDER_DAYS, MARKET_DAYS)] == [True, False]
    assert "volume_daily says" in found[MARKET_DAYS].metadata["found"].value


def checks(result: dg.ExecuteInProcessResult) -> dict[dg.AssetKey, dg.AssetCheckEvaluation]:
    evaluations = result.get_asset_check_evaluations()
    assert {each.check_name for each in evaluations} == {AGREES}
    return {each.asset_key: each for each in evaluations}


def test_consecutive_days_are_one_range():
    wanted = [date(2026, 11, day) for day in (18, 19, 21)]
    assert first_range(wanted) == ("2026-11-18", "2026-11-19")
