"""How a run that lasts for hours goes on: with a warehouse, its reports, its time and the stop."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Generic

import dagster as dg
from pydantic import Field
from sqlalchemy import Engine

from pipelines.defs.resources import Warehouse
from pipelines.failures import told_to_dagster
from pipelines.keeping import MINUTES
from pipelines.reports import Reporter, S, Told
from pipelines.stopping import stopping


class ShiftConfig(dg.Config):
    """How long to go on, and how often to say so."""

    minutes: float = Field(ge=0, le=MINUTES)
    """0 where a run may end by itself."""
    report_seconds: float = Field(
        default=10, gt=0, description="Seconds between reports of what was done."
    )


@dataclass(frozen=True, slots=True)
class Shift(Generic[S]):
    """What a long run works with."""

    engine: Engine
    report: Reporter[S]
    is_over: Callable[[], bool]
    """Its time has passed, or somebody asks it to stop."""


@contextmanager
def shift(
    context: dg.OpExecutionContext,
    warehouse: Warehouse,
    told: Sequence[Told[S]],
    config: ShiftConfig,
) -> Iterator[Shift[S]]:
    """A long run, from its beginning to its last report.

    Raises what `told_to_dagster` makes of the indexer's errors.
    """
    with ExitStack() as doors:
        doors.enter_context(told_to_dagster(context))
        engine = doors.enter_context(warehouse.engine())
        report = Reporter(context.log_event, told, config.report_seconds)
        doors.callback(report.flush)
        deadline = time.monotonic() + 60 * (config.minutes or MINUTES)
        stop = doors.enter_context(stopping())
        yield Shift(engine, report, lambda: stop.asked or time.monotonic() > deadline)
