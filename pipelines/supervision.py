"""When a long run is started again: a decision from stored records alone."""

from collections.abc import Sequence
from dataclasses import dataclass

import dagster as dg

IN_FLIGHT = (
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
)
ENDED = tuple(status for status in dg.DagsterRunStatus if status not in IN_FLIGHT)

_BACKOFF = (0.0, 5.0, 15.0, 60.0, 300.0)
"""Seconds to wait after so many runs in a row that achieved nothing."""
_MAX_AFTER_LOST_PROCESS = 5.0
"""Seconds. A killed process, by a person or for lack of memory, does not predict a failure."""


@dataclass(frozen=True, slots=True)
class RunState:
    """The state of what a job works on."""

    where: str
    """How far it is, as a sentence."""
    moved_at: float | None = None
    """Unix seconds of the last progress that a run reported; None: never."""
    held: str | None = None
    """Why the last one gave up for good; None if a retry may help."""


@dataclass(frozen=True, slots=True)
class LongRun:
    """A run on record. Times are unix seconds."""

    run_id: str
    status: dg.DagsterRunStatus
    started_at: float | None = None
    ended_at: float | None = None
    permanent_error: str | None = None
    """The type of error that ended it, if another run cannot help."""
    lost_process: bool = False
    """Its process ended without reporting, as one that is killed does."""

    @property
    def in_flight(self) -> bool:
        """Whether it runs, or is going to."""
        return self.status in IN_FLIGHT

    def achieved_nothing(self, moved_at: float | None) -> bool:
        """Whether it failed before it reported progress, so that the next one may fail too.

        By progress, not by age: a run that committed and was killed in its first seconds worked.
        """
        if self.status != dg.DagsterRunStatus.FAILURE:
            return False
        return self.started_at is None or moved_at is None or moved_at < self.started_at


def next_step(
    state: RunState, runs: Sequence[LongRun], now: float, process_started_at: float
) -> dg.RunRequest | dg.SkipReason:
    """Start a run, or say why not.

    `runs` are those in flight and the latest that ended, newest first. `now`, and when the code
    server's process began, are in unix seconds: settings and build are those of that process, so a
    permanent error or hold of an earlier one may be mended. The request's run key names the run
    that ended last, so two decisions about one end start one run.
    """
    running = next((run for run in runs if run.in_flight), None)
    if running is not None:
        return dg.SkipReason(f"{running.status.value}: {state.where}")
    if not runs:
        return dg.RunRequest(run_key="first")
    latest = runs[0]
    stopped_by = None if state.held is None else f"on hold: {state.held}"
    if stopped_by is None and latest.permanent_error:
        stopped_by = f"run {latest.run_id} ended with {latest.permanent_error}"
    if stopped_by is not None and _ended_since(latest, process_started_at):
        return dg.SkipReason(
            f"{stopped_by}. Mend that, then restart the code server or launch the job by hand; "
            f"{state.where}"
        )
    failures = 0
    while failures < len(runs) and runs[failures].achieved_nothing(state.moved_at):
        failures += 1
    pause = _BACKOFF[min(failures, len(_BACKOFF) - 1)]
    if latest.lost_process:
        pause = min(pause, _MAX_AFTER_LOST_PROCESS)
    wait = 0.0 if latest.ended_at is None else pause - (now - latest.ended_at)
    if wait > 0:
        return dg.SkipReason(f"failed {failures} times in a row; next start in {wait:.0f} s")
    return dg.RunRequest(run_key=f"after {latest.run_id}")


def _ended_since(run: LongRun, moment: float) -> bool:
    return run.ended_at is None or run.ended_at >= moment
