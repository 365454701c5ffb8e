"""The sensors that have days done once they are over, by ledger and block time, and again later.

What is due, the warehouse says (and the export folder): no schedule by the machine's clock could
know that a chain is late, or that a backfill has changed a day of last month.
"""

import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

import dagster as dg
from sqlalchemy import Engine

from indexer.config.networks import Network
from pipelines.defs.days.names import DAYS
from pipelines.defs.resources import WarehouseResource
from pipelines.instance import range_tags
from pipelines.restart_sensor import last_materialized, runs_of
from pipelines.supervision import RunState, next_step

LOOK_EVERY_SECONDS = 60

Due = Callable[[Engine], list[date]]


def compute_sensor(
    job: str, family: str, progress: dg.AssetKey, network: Network
) -> dg.SensorDefinition:
    """Has days computed; `progress` is an asset that the job materializes."""

    def due(engine: Engine) -> list[date]:
        # Here, not above: whoever only lists sensors does not wait for the import of polars.
        from indexer.analytics.daily import FIGURES, due_days

        figure = next(each for each in FIGURES if each.name == family)
        with engine.connect() as conn:
            return due_days(conn, network, figure)

    return _sensor(job, progress, due)


def export_sensor(job: str, name: str, progress: dg.AssetKey, folder: Path) -> dg.SensorDefinition:
    """Has days exported into a folder."""

    def due(engine: Engine) -> list[date]:
        from indexer.analytics.export import SETS, due_days

        what = next(each for each in SETS if each.name == name)
        with engine.connect() as conn:
            return due_days(conn, what, folder)

    return _sensor(job, progress, due)


def _sensor(job: str, progress: dg.AssetKey, due: Due) -> dg.SensorDefinition:
    @dg.sensor(
        name=f"{job}_sensor",
        job_name=job,
        description=f"Starts {job} for days that are over and not done as their facts are now.",
        minimum_interval_seconds=LOOK_EVERY_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def sensor(
        context: dg.SensorEvaluationContext, warehouse: WarehouseResource
    ) -> dg.RunRequest | dg.SkipReason:
        with warehouse.engine() as engine:
            wanted = [day for day in due(engine) if DAYS.has_partition_key(str(day))]
        if not wanted:
            return dg.SkipReason("every day that is over is done")
        standing = RunState(
            f"{len(wanted)} days are due, the first is {wanted[0]}",
            last_materialized(context.instance, progress),
        )
        step = next_step(standing, runs_of(context.instance, job), time.time())
        if isinstance(step, dg.SkipReason):
            return step
        return dg.RunRequest(tags=range_tags(*first_range(wanted)))

    return sensor


def first_range(wanted: list[date]) -> tuple[str, str]:
    """The first days in a row, as the keys of the first and the last."""
    from indexer.analytics.daily import contiguous_ranges

    first, last = contiguous_ranges(wanted)[0]
    return str(first), str(last)
