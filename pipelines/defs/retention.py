"""Deletes old records: Dagster's runs, which it never purges by itself, and warehouse rows."""

from datetime import UTC, datetime, timedelta

import dagster as dg
from pydantic import Field

from indexer.config.settings import load_settings
from indexer.ingest.retention import RETENTION_DAYS, delete_old_rows
from pipelines.defs.resources import WarehouseResource
from pipelines.supervision import ENDED

RUNS_JOB = "delete_old_runs"
ROWS_JOB = "delete_old_rows"
POOL = "retention"
_BATCH = 200


class RunRetention(dg.Config):
    """How long runs are kept."""

    days: float = Field(default=14, ge=0, description="Ended runs that began earlier are deleted.")


class RowRetention(dg.Config):
    """How long rows are kept that no client needs any more."""

    days: float = Field(
        default=RETENTION_DAYS,
        ge=1,
        description="Age of events that were followed by another, and of expired quotes.",
    )


def delete_runs(instance: dg.DagsterInstance, before: datetime) -> int:
    """Delete ended runs created before then, and their events; returns how many.

    The facts, and what a follower did to them, are in the warehouse.
    """
    old = dg.RunsFilter(statuses=list(ENDED), created_before=before)
    count = 0
    while records := instance.get_run_records(old, limit=_BATCH):
        for record in records:
            instance.delete_run(record.dagster_run.run_id)
        count += len(records)
    return count


@dg.op(name="delete_runs", pool=POOL, out=dg.Out(dg.Nothing))
def runs_op(context: dg.OpExecutionContext, config: RunRetention) -> None:
    """Delete old runs."""
    before = datetime.now(UTC) - timedelta(days=config.days)
    deleted = delete_runs(context.instance, before)
    context.log.info(f"deleted {deleted} runs from before {before:%F %T}")
    if load_settings().executor == "celery":
        # Imported here: it needs an extra.
        from pipelines.celery_worker import delete_old_results

        delete_old_results()


@dg.op(name="delete_rows", pool=POOL, out=dg.Out(dg.Nothing))
def rows_op(
    context: dg.OpExecutionContext, config: RowRetention, warehouse: WarehouseResource
) -> None:
    """Delete old rows."""
    with warehouse.engine() as engine, engine.begin() as conn:
        deleted = delete_old_rows(conn, config.days)
    context.log.info(f"deleted {deleted.events} events and {deleted.quotes} quotes")


@dg.job(
    name=RUNS_JOB,
    description="Deletes the records of runs that ended two weeks ago.",
    executor_def=dg.in_process_executor,
    tags={"dagster/max_runtime": "3600"},
)
def _delete_old_runs() -> None:
    runs_op()


@dg.job(
    name=ROWS_JOB,
    description="Deletes transfer events that are a month old and followed by another, and expired "
    "quotes without a transfer.",
    executor_def=dg.in_process_executor,
    tags={"dagster/max_runtime": "3600"},
)
def _delete_old_rows() -> None:
    rows_op()


definitions = dg.Definitions(
    jobs=[_delete_old_runs, _delete_old_rows],
    schedules=[
        dg.ScheduleDefinition(
            job=job, cron_schedule=cron, default_status=dg.DefaultScheduleStatus.RUNNING
        )
        for job, cron in ((_delete_old_rows, "47 3 * * *"), (_delete_old_runs, "17 3 * * *"))
    ],
)
