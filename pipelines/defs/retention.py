"""Forgetting what is old: runs, which Dagster never purges by itself, and rows of the warehouse."""

from datetime import UTC, datetime, timedelta

import dagster as dg
from pydantic import Field

from indexer.ingest.retention import RETENTION_DAYS
from indexer.ingest.retention import delete_old_rows as forget_old
from pipelines.defs.resources import WarehouseResource
from pipelines.supervision import IN_FLIGHT

FORGET_JOB = "forget_old_runs"
FORGET_ROWS_JOB = "forget_old_rows"
POOL = "forgets"
_AT_ONCE = 200


class ForgetConfig(dg.Config):
    """How long a run is remembered."""

    days: float = Field(
        default=14, ge=0, description="Runs that began longer ago and have ended are forgotten."
    )


def forget(instance: dg.DagsterInstance, before: datetime) -> int:
    """Delete runs created before then that have ended, and their events; returns how many.

    The facts, and what a follower did to them, are in the warehouse: this is the record of runs.
    """
    ended = [status for status in dg.DagsterRunStatus if status not in IN_FLIGHT]
    old = dg.RunsFilter(statuses=ended, created_before=before)
    count = 0
    while records := instance.get_run_records(old, limit=_AT_ONCE):
        for record in records:
            instance.delete_run(record.dagster_run.run_id)
        count += len(records)
    return count


@dg.op(pool=POOL, out=dg.Out(dg.Nothing))
def forget_runs(context: dg.OpExecutionContext, config: ForgetConfig) -> None:
    """Forget what is old enough."""
    before = datetime.now(UTC) - timedelta(days=config.days)
    context.log.info(f"forgot {forget(context.instance, before)} runs from before {before:%F %T}")


@dg.job(
    name=FORGET_JOB,
    description="Deletes the records of runs that ended two weeks ago.",
    executor_def=dg.in_process_executor,
    tags={"dagster/max_runtime": "3600"},
)
def _forget_old_runs() -> None:
    forget_runs()


class ForgetRowsConfig(dg.Config):
    """How long rows are kept that nobody asks for any more."""

    days: float = Field(
        default=RETENTION_DAYS,
        ge=1,
        description="Events that were followed by another, and quotes that nobody used, go so long "
        "after they were told or expired.",
    )


@dg.op(pool=POOL, out=dg.Out(dg.Nothing))
def forget_rows(
    context: dg.OpExecutionContext, config: ForgetRowsConfig, warehouse: WarehouseResource
) -> None:
    """Forget what is old enough."""
    with warehouse.engine() as engine, engine.begin() as conn:
        forgotten = forget_old(conn, config.days)
    context.log.info(f"forgot {forgotten.events} events and {forgotten.quotes} quotes")


@dg.job(
    name=FORGET_ROWS_JOB,
    description="Deletes what owners were told a month ago and what was told after, and quotes "
    "that nobody used.",
    executor_def=dg.in_process_executor,
    tags={"dagster/max_runtime": "3600"},
)
def _forget_old_rows() -> None:
    forget_rows()


definitions = dg.Definitions(
    jobs=[_forget_old_runs, _forget_old_rows],
    schedules=[
        dg.ScheduleDefinition(
            job=_forget_old_rows,
            cron_schedule="47 3 * * *",
            default_status=dg.DefaultScheduleStatus.RUNNING,
        ),
        dg.ScheduleDefinition(
            job=_forget_old_runs,
            cron_schedule="17 3 * * *",
            default_status=dg.DefaultScheduleStatus.RUNNING,
        ),
    ],
)
