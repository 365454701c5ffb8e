"""Deletion of old runs and their events."""

from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import dagster as dg
from dagster import DagsterRunStatus
from dagster._core.test_utils import create_run_for_test
from sqlalchemy import func, select, update

from pipelines.defs.resources import WarehouseResource
from pipelines.defs.retention import RunRetention, definitions, delete_runs
from tests.factories.started import insert_quote
from warehouse_schema.intake import quotes


def with_warehouse(warehouse: WarehouseResource) -> dg.Definitions:
    return dg.Definitions.merge(definitions, dg.Definitions(resources={"warehouse": warehouse}))


def test_only_ended_runs_are_deleted(instance):
    kept = [
        create_run_for_test(instance, status=status)
        for status in (DagsterRunStatus.STARTED, DagsterRunStatus.CANCELING)
    ]
    for status in (DagsterRunStatus.SUCCESS, DagsterRunStatus.FAILURE, DagsterRunStatus.CANCELED):
        create_run_for_test(instance, status=status)
    now = datetime.now(UTC)
    assert delete_runs(instance, now - timedelta(hours=1)) == 0
    assert delete_runs(instance, now + timedelta(seconds=1)) == 3
    assert {run.run_id for run in instance.get_runs()} == {run.run_id for run in kept}


def test_events_of_a_deleted_run_are_deleted(instance):
    @dg.asset
    def blocks() -> None:
        pass

    run_id = dg.materialize([blocks], instance=instance).run_id
    assert instance.all_logs(run_id)
    delete_runs(instance, datetime.now(UTC) + timedelta(seconds=1))
    assert instance.all_logs(run_id) == []


def test_default_retention_is_two_weeks(instance):
    create_run_for_test(instance, status=DagsterRunStatus.SUCCESS)
    job = with_warehouse(WarehouseResource()).resolve_job_def("delete_old_runs")
    assert job.execute_in_process(instance=instance).success
    assert len(instance.get_runs()) == 2
    config = dg.RunConfig(ops={"delete_runs": RunRetention(days=0)})
    last = job.execute_in_process(instance=instance, run_config=config)
    assert [run.run_id for run in instance.get_runs()] == [last.run_id]


def test_daily_job_deletes_old_rows(instance, engine, indexer_engine):
    with engine.begin() as conn:
        quote = insert_quote(conn)
        long_ago = func.now() - timedelta(days=31)
        made = long_ago - timedelta(minutes=5)
        conn.execute(update(quotes).values(created_at=made, expires_at=long_ago))
        assert conn.scalars(select(quotes.c.id)).all() == [quote]

    class Given(WarehouseResource):
        @contextmanager
        def engine(self):
            yield indexer_engine

    job = with_warehouse(Given()).resolve_job_def("delete_old_rows")
    assert job.execute_in_process(instance=instance).success
    with engine.connect() as conn:
        assert conn.scalars(select(quotes.c.id)).all() == []
