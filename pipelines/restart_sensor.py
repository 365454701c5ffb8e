"""Long runs' jobs, the sensor that keeps one run of a job going, and jobs of checks."""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import dagster as dg
from sqlalchemy import Engine

from pipelines.defs.resources import WarehouseResource
from pipelines.failures import stopped_by
from pipelines.instance import lost_process
from pipelines.supervision import ENDED, IN_FLIGHT, LongRun, RunState, next_step

if TYPE_CHECKING:
    from dagster._core.definitions.unresolved_asset_job_definition import (
        UnresolvedAssetJobDefinition,
    )

MINUTES = 360.0
"""How long a long run lasts. The next one starts within seconds; a run that never ended would not
take up a new release, and its page would grow without end."""

TICK_SECONDS = 5
"""Dagster's minimum for sensors."""
PROCESS_STARTED_AT = time.time()
"""Unix seconds. Sensors are evaluated in the code server's process, which imports this first."""
KEEPS_RUNNING = "isthmus/keeps_running"
"""Tag of restart sensors."""
_ENDED_RUNS = 6
"""Ended runs that a decision reads: one more than there are steps of backoff."""


def asset_job(
    name: str,
    selection: dg.AssetSelection,
    description: str,
    *,
    max_seconds: float,
    config: dg.RunConfig | None = None,
    tags: dict[str, str] | None = None,
    executor: dg.ExecutorDefinition = dg.in_process_executor,
) -> "UnresolvedAssetJobDefinition":
    """A job, in one process by default. Dagster ends a run that is not over by `max_seconds`."""
    return dg.define_asset_job(
        name=name,
        selection=selection,
        description=description,
        config=config,
        executor_def=executor,
        tags={**(tags or {}), "dagster/max_runtime": str(int(max_seconds))},
    )


def long_run_definitions(
    job: str,
    asset: dg.AssetsDefinition,
    progress: dg.AssetKey,
    state: Callable[[Engine, float | None], RunState],
    description: str,
    *,
    checks: Sequence[dg.AssetChecksDefinition] = (),
    config: dg.RunConfig | None = None,
    tags: dict[str, str] | None = None,
) -> dg.Definitions:
    """An asset with its job of long runs, which a sensor keeps going (`restart_sensor`)."""
    runs = asset_job(
        job,
        dg.AssetSelection.assets(asset).without_checks(),
        f"{description}, for {MINUTES / 60:g} hours.",
        max_seconds=MINUTES * 60 + 600,
        config=config,
        tags=tags,
    )
    return dg.Definitions(
        assets=[asset],
        asset_checks=checks,
        jobs=[runs],
        sensors=[restart_sensor(job, progress, state)],
    )


def sensor_name(job: str) -> str:
    """Name of the sensor that keeps a job going."""
    return f"{job}_sensor"


def restart_sensor(
    job: str, progress: dg.AssetKey, state: Callable[[Engine, float | None], RunState]
) -> dg.SensorDefinition:
    """A sensor that keeps one run of the job going.

    `progress` is the asset that a run materializes when it has achieved something. `state` gets
    the unix time of its latest materialization, None if there is none.
    """

    @dg.sensor(
        name=sensor_name(job),
        job_name=job,
        description=f"Keeps one run of {job} going. Off: it is not started again.",
        tags={KEEPS_RUNNING: "true"},
        minimum_interval_seconds=TICK_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def sensor(
        context: dg.SensorEvaluationContext, warehouse: WarehouseResource
    ) -> dg.RunRequest | dg.SkipReason:
        with warehouse.kept_engine() as engine:
            current = state(engine, last_materialized(context.instance, progress))
        runs = runs_of(context.instance, job)
        return next_step(current, runs, time.time(), PROCESS_STARTED_AT)

    return sensor


def state_by_asset(moved: str, *, never: str) -> Callable[[Engine, float | None], RunState]:
    """The state by the asset alone: `moved` so many seconds ago, or `never`."""

    def state(_: Engine, moved_at: float | None) -> RunState:
        if moved_at is None:
            return RunState(never)
        return RunState(f"{moved} {max(0.0, time.time() - moved_at):.0f} s ago", moved_at)

    return state


def scheduled_checks(name: str, asset: dg.AssetKey, question: str, cron: str) -> dg.Definitions:
    """A job that runs an asset's checks, and its schedule."""
    checks = dg.AssetSelection.checks_for_assets(asset)
    job = asset_job(name, checks, question, max_seconds=1800)
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
        dg.RunsFilter(job_name=job, statuses=list(ENDED)), limit=_ENDED_RUNS
    )
    return [
        LongRun(
            run_id=record.dagster_run.run_id,
            status=record.dagster_run.status,
            started_at=record.start_time,
            ended_at=record.end_time,
            permanent_error=stopped_by(record.dagster_run),
            lost_process=lost_process(record.dagster_run),
        )
        for record in (*running, *ended)
    ]
