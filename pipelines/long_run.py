"""How a run that lasts for hours goes on: with a warehouse, its reports, its time and the stop."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Generic

import dagster as dg
from pydantic import Field
from sqlalchemy import Engine

from pipelines.defs.resources import WarehouseResource
from pipelines.failures import failures_for_dagster
from pipelines.reports import AssetReporter, Reporter, S
from pipelines.restart_sensor import MINUTES
from pipelines.stopping import stopping


class LongRunConfig(dg.Config):
    """How long to go on, and how often to say so."""

    minutes: float = Field(ge=0, le=MINUTES)
    """0 where a run may end by itself."""
    report_seconds: float = Field(
        default=10, gt=0, description="Seconds between reports of what was done."
    )


@dataclass(frozen=True, slots=True)
class ActiveRun(Generic[S]):
    """What a long run works with."""

    engine: Engine
    report: Reporter[S]
    is_over: Callable[[], bool]
    """Its time has passed, or somebody asks it to stop."""


@contextmanager
def long_run(
    context: dg.OpExecutionContext,
    warehouse: WarehouseResource,
    told: Sequence[AssetReporter[S]],
    config: LongRunConfig,
) -> Iterator[ActiveRun[S]]:
    """A long run, from its beginning to its last report.

    Raises what `failures_for_dagster` makes of the indexer's errors.
    """
    with ExitStack() as doors:
        doors.enter_context(failures_for_dagster(context))
        engine = doors.enter_context(warehouse.engine())
        report = Reporter(context.log_event, told, config.report_seconds)
        doors.callback(report.flush)
        deadline = time.monotonic() + 60 * (config.minutes or MINUTES)
        stop = doors.enter_context(stopping())
        yield ActiveRun(engine, report, lambda: stop.asked or time.monotonic() > deadline)
