"""The sensor that keeps one run of a job going, and what it reads for that."""

import time
from collections.abc import Callable

import dagster as dg
from sqlalchemy import Engine

from pipelines.defs.resources import WarehouseResource
from pipelines.failures import stopped_by
from pipelines.instance import died
from pipelines.supervision import IN_FLIGHT, LongRun, RunState, next_step

MINUTES = 360.0
"""How long a long run lasts. The next one starts within seconds; a run that never ended would
never take up a new release, and its page would grow without end."""

LOOK_EVERY_SECONDS = 5
"""The least that Dagster's sensor daemon does."""
_ENDED_RUNS = 6
"""Ended runs that a decision looks at: one more than there are steps of patience."""
_ENDED = tuple(status for status in dg.DagsterRunStatus if status not in IN_FLIGHT)

LONG_RUN_TAGS = {
    # A run that neither works nor ends is ended, a little after its own time.
    "dagster/max_runtime": str(int(MINUTES * 60) + 600),
}


def keeper(
    job: str, progress: dg.AssetKey, standing: Callable[[Engine, float | None], RunState]
) -> dg.SensorDefinition:
    """A sensor that keeps one run of the job going.

    `progress` is the asset that a run materializes when it has achieved something. `standing` says
    how things stand, given when that last was (unix seconds, None: never).
    """

    @dg.sensor(
        name=f"{job}_sensor",
        job_name=job,
        description=f"Keeps one run of {job} going. Off: it is not started again.",
        minimum_interval_seconds=LOOK_EVERY_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def sensor(
        context: dg.SensorEvaluationContext, warehouse: WarehouseResource
    ) -> dg.RunRequest | dg.SkipReason:
        with warehouse.engine() as engine:
            stands = standing(engine, last_materialized(context.instance, progress))
        return next_step(stands, runs_of(context.instance, job), time.time())

    return sensor


def since(moved: str, *, never: str) -> Callable[[Engine, float | None], RunState]:
    """How things stand by the asset alone: `moved` so many seconds ago, or `never`."""

    def standing(_: Engine, moved_at: float | None) -> RunState:
        if moved_at is None:
            return RunState(never)
        return RunState(f"{moved} {max(0.0, time.time() - moved_at):.0f} s ago", moved_at)

    return standing


def checked(name: str, asset: dg.AssetKey, question: str, cron: str) -> dg.Definitions:
    """A job that runs an asset's checks, and its schedule."""
    job = dg.define_asset_job(
        name=name,
        selection=dg.AssetSelection.checks_for_assets(asset),
        description=question,
        executor_def=dg.in_process_executor,
        tags={"dagster/max_runtime": "1800"},
    )
    schedule = dg.ScheduleDefinition(
        job=job, cron_schedule=cron, default_status=dg.DefaultScheduleStatus.RUNNING
    )
    return dg.Definitions(jobs=[job], schedules=[schedule])


def last_materialized(instance: dg.DagsterInstance, key: dg.AssetKey) -> float | None:
    """Unix time of an asset's latest materialization; None if there is none."""
    event = instance.get_latest_materialization_event(key)
    return None if event is None else event.timestamp


def runs_of(instance: dg.DagsterInstance, job: str) -> list[LongRun]:
    """The runs of a job: all in flight, then the latest ended ones, newest first."""
    running = instance.get_run_records(dg.RunsFilter(job_name=job, statuses=list(IN_FLIGHT)))
    ended = instance.get_run_records(
        dg.RunsFilter(job_name=job, statuses=list(_ENDED)), limit=_ENDED_RUNS
    )
    return [_long_run(record) for record in (*running, *ended)]


def _long_run(record: dg.RunRecord) -> LongRun:
    return LongRun(
        run_id=record.dagster_run.run_id,
        status=record.dagster_run.status,
        started_at=record.start_time,
        ended_at=record.end_time,
        needs_a_person=stopped_by(record.dagster_run),
        died=died(record.dagster_run),
    )
