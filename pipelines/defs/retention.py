"""Forgetting old runs. Dagster purges ticks by itself, runs and their events never."""

from datetime import UTC, datetime, timedelta

import dagster as dg
from pydantic import Field

from pipelines.defs.facts.supervision import IN_FLIGHT
from pipelines.instance import pool_connections

FORGET_JOB = "forget_old_runs"
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
    pool_connections(context.instance)
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


definitions = dg.Definitions(
    jobs=[_forget_old_runs],
    schedules=[
        dg.ScheduleDefinition(
            job=_forget_old_runs,
            cron_schedule="17 3 * * *",
            default_status=dg.DefaultScheduleStatus.RUNNING,
        )
    ],
)
