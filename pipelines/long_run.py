"""A run that lasts for hours: its configuration, warehouse, reports, deadline and stop signal."""

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Generic

import dagster as dg
from pydantic import Field
from sqlalchemy import Engine

from indexer.tracing import start_tracing, stop_tracing
from pipelines.defs.resources import WarehouseResource
from pipelines.failures import failures_for_dagster
from pipelines.reports import AssetReporter, Reporter, S
from pipelines.restart_sensor import MINUTES

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class LongRunConfig(dg.Config):
    """How long to run, and how often to report."""

    minutes: float = Field(default=MINUTES, gt=0, le=MINUTES, description="Minutes to run.")
    report_seconds: float = Field(default=10, gt=0, description="Seconds between reports.")


class CatchUpConfig(LongRunConfig):
    """As `LongRunConfig`; by default the run ends when it has caught up."""

    minutes: float = Field(
        default=0, ge=0, le=MINUTES, description="Minutes to run. 0: catch up, then end."
    )


@dataclass
class Stop:
    """Whether the run was asked to end."""

    signal_number: int | None = None

    @property
    def requested(self) -> bool:
        """True from the first signal on."""
        return self.signal_number is not None

    def note(self, number: int, frame: FrameType | None) -> None:
        """Signal handler."""
        self.signal_number = number


@contextmanager
def stopping() -> Iterator[Stop]:
    """Note SIGINT and SIGTERM, so that a step ends between two transactions.

    The step checks `Stop.requested` between ranges and returns. SIGINT is how Dagster cancels a
    run: it is raised again at the end, so that the run is recorded as cancelled. SIGTERM is how a
    machine stops its services: a run that obeys has succeeded.

    For the main thread, where Dagster runs steps in process.
    """
    stop = Stop()
    before = {number: signal.signal(number, stop.note) for number in _SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if stop.signal_number == signal.SIGINT:
            signal.raise_signal(signal.SIGINT)


@dataclass(frozen=True, slots=True)
class ActiveRun(Generic[S]):
    """What a long run works with."""

    engine: Engine
    report: Reporter[S]
    is_over: Callable[[], bool]
    """The deadline has passed, or a stop was requested."""


@contextmanager
def long_run(
    context: dg.OpExecutionContext,
    warehouse: WarehouseResource,
    assets: Sequence[AssetReporter[S]],
    config: LongRunConfig,
) -> Iterator[ActiveRun[S]]:
    """A long run until its last report. Raises as `failures_for_dagster`."""
    with ExitStack() as stack:
        stack.enter_context(failures_for_dagster(context))
        # Ended here: a run's process is a fork, which ends without `atexit`.
        start_tracing(context.job_name)
        stack.callback(stop_tracing)
        engine = stack.enter_context(warehouse.engine())
        report = Reporter(context.log_event, assets, config.report_seconds)
        stack.callback(report.flush)
        deadline = time.monotonic() + 60 * (config.minutes or MINUTES)
        stop = stack.enter_context(stopping())
        yield ActiveRun(engine, report, lambda: stop.requested or time.monotonic() > deadline)
