"""Runs whose process is gone, found and ended.

Dagster notices a run that dies while its code server lives. When both die, by a crash of the
machine or a kill, the run stays STARTED for ever and keeps its chain's pool.
"""

from collections.abc import Callable
from dataclasses import dataclass

import dagster as dg

from pipelines.instance import process_of
from pipelines.processes import born_at

EVERY_SECONDS = 15
_REUSE_SECONDS = 10.0
"""A process that began this long after the id was noted is a stranger with the same id. Covers
what separates the two clocks, the kernel's start time and the event's time."""


@dataclass(frozen=True, slots=True)
class Noted:
    """A run that counts as running, and the process that was noted for it."""

    run_id: str
    pid: int
    noted_at: float
    """Unix seconds."""


def is_gone(noted: Noted, born_at: Callable[[int], float | None]) -> bool:
    """Whether no process of that id runs, or only one that began after the id was noted."""
    born = born_at(noted.pid)
    return born is None or born > noted.noted_at + _REUSE_SECONDS


def sweep(instance: dg.DagsterInstance, born_at: Callable[[int], float | None]) -> list[str]:
    """End every run that is STARTED without a process; returns their ids.

    For runs that this machine launched, as Dagster's default launcher does: the sensor below is
    evaluated in the code server, which is the parent of every run.
    """
    ended = []
    for run in instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED])):
        process = process_of(instance, run)
        if process is not None and is_gone(Noted(run.run_id, *process), born_at):
            instance.report_run_failed(run, f"its process (pid {process[0]}) is gone")
            ended.append(run.run_id)
    return ended


@dg.sensor(
    name="orphaned_runs",
    description="Ends runs whose process died together with its code server.",
    minimum_interval_seconds=EVERY_SECONDS,
    default_status=dg.DefaultSensorStatus.RUNNING,
)
def orphaned_runs(context: dg.SensorEvaluationContext) -> dg.SkipReason:
    """Sweep, and say what was found."""
    ended = sweep(context.instance, born_at)
    return dg.SkipReason(f"ended {', '.join(ended)}" if ended else "every run has its process")


definitions = dg.Definitions(sensors=[orphaned_runs])
