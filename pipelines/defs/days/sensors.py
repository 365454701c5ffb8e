"""Sensors that compute and export days once they are over, and again when their facts change.

The warehouse and the export folder say what is due: a schedule by the machine's clock would not
know that a chain is late, or that a backfill has changed a day of last month.
"""

import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

import dagster as dg
from sqlalchemy import Engine

from indexer.config.networks import Network
from pipelines.defs.names import DAYS
from pipelines.defs.resources import WarehouseResource
from pipelines.instance import range_tags
from pipelines.restart_sensor import PROCESS_STARTED_AT, last_materialized, runs_of
from pipelines.supervision import RunState, next_step

TICK_SECONDS = 60


def compute_sensor(
    job: str, family: str, progress: dg.AssetKey, network: Network
) -> dg.SensorDefinition:
    """Starts the computation of days; `progress` is an asset that the job materializes."""

    def due(engine: Engine) -> list[date]:
        # Imported here: it imports polars, for which a list of sensors must not wait.
        from indexer.analytics.daily import FIGURES, due_days

        figure = next(each for each in FIGURES if each.name == family)
        with engine.connect() as conn:
            return due_days(conn, network, figure)

    return _sensor(job, progress, due)


def export_sensor(job: str, name: str, progress: dg.AssetKey, folder: Path) -> dg.SensorDefinition:
    """Starts the export of days into a folder."""

    def due(engine: Engine) -> list[date]:
        from indexer.analytics.export import SETS, due_days

        export_set = next(each for each in SETS if each.name == name)
        with engine.connect() as conn:
            return due_days(conn, export_set, folder)

    return _sensor(job, progress, due)


def _sensor(
    job: str, progress: dg.AssetKey, due: Callable[[Engine], list[date]]
) -> dg.SensorDefinition:
    @dg.sensor(
        name=f"{job}_sensor",
        job_name=job,
        description=f"Starts {job} for days that are over and not done as their facts are now.",
        minimum_interval_seconds=TICK_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def sensor(
        context: dg.SensorEvaluationContext, warehouse: WarehouseResource
    ) -> dg.RunRequest | dg.SkipReason:
        with warehouse.kept_engine() as engine:
            days = [day for day in due(engine) if DAYS.has_partition_key(str(day))]
        if not days:
            return dg.SkipReason("every day that is over is done")
        state = RunState(
            f"{len(days)} days are due, the first is {days[0]}",
            last_materialized(context.instance, progress),
        )
        runs = runs_of(context.instance, job)
        step = next_step(state, runs, time.time(), PROCESS_STARTED_AT)
        if isinstance(step, dg.SkipReason):
            return step
        return dg.RunRequest(tags=range_tags(*first_range(days)))

    return sensor


def first_range(days: list[date]) -> tuple[str, str]:
    """The first contiguous days, as the partition keys of the first and the last."""
    from indexer.analytics.daily import contiguous_ranges

    first, last = contiguous_ranges(days)[0]
    return str(first), str(last)
