"""When a long run is started again: a decision from stored records, and nothing else.

For every job of which one run is to be going at all times: a chain's follower, the run that asks
for attestations.
"""

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

_PAUSES = (0.0, 5.0, 15.0, 60.0, 300.0)
"""Seconds to wait after so many runs in a row that achieved nothing."""
_AFTER_A_DEATH = 5.0
"""Most seconds to wait after a run whose process died. Who kills a run, be it a person or a
machine short of memory, has not said that the next one will fail."""


@dataclass(frozen=True, slots=True)
class RunState:
    """What a job is there for, and how that is."""

    where: str
    """How far it is, in words."""
    moved_at: float | None = None
    """When a run last reported that it achieved something, unix seconds; None: never."""
    held: str | None = None
    """Why no run is to be started; None when nothing is in the way."""


@dataclass(frozen=True, slots=True)
class LongRun:
    """One run of such a job, as it is on record. Times are unix seconds."""

    run_id: str
    status: dg.DagsterRunStatus
    started_at: float | None = None
    ended_at: float | None = None
    needs_a_person: str | None = None
    """The kind of error that ended it, if trying again cannot help."""
    died: bool = False
    """Whether its process ended without a word, as one that is killed does."""

    @property
    def in_flight(self) -> bool:
        """Whether it runs, or is going to."""
        return self.status in IN_FLIGHT

    def achieved_nothing(self, moved_at: float | None) -> bool:
        """Whether it failed before it reported anything, so that the next one may well fail too.

        By progress, not by age: a run that committed and was killed in its first seconds worked.
        """
        if self.status != dg.DagsterRunStatus.FAILURE:
            return False
        return self.started_at is None or moved_at is None or moved_at < self.started_at


def next_step(
    standing: RunState, runs: Sequence[LongRun], now: float
) -> dg.RunRequest | dg.SkipReason:
    """Start a run, or say why not and how things stand.

    `runs` are those in flight and the latest that ended, newest first; `now` is in unix seconds.
    The request has no run key: a run that ended is to be started again, each time.
    """
    running = next((run for run in runs if run.in_flight), None)
    if running is not None:
        return dg.SkipReason(f"{running.status.value}: {standing.where}")
    if standing.held is not None:
        return dg.SkipReason(f"on hold: {standing.held}. {_by_hand(standing)}")
    if runs and runs[0].needs_a_person:
        return dg.SkipReason(
            f"run {runs[0].run_id} ended with {runs[0].needs_a_person}. {_by_hand(standing)}"
        )
    failures = _failures_in_a_row(runs, standing.moved_at)
    wait = _pause(failures, runs) - _since_the_last(runs, now)
    if wait > 0:
        return dg.SkipReason(f"failed {failures} times in a row; next start in {wait:.0f} s")
    return dg.RunRequest()


def _by_hand(standing: RunState) -> str:
    return f"Launch the job by hand once that is mended; {standing.where}"


def _failures_in_a_row(runs: Sequence[LongRun], moved_at: float | None) -> int:
    count = 0
    for run in runs:
        if not run.achieved_nothing(moved_at):
            break
        count += 1
    return count


def _pause(failures: int, runs: Sequence[LongRun]) -> float:
    pause = _PAUSES[min(failures, len(_PAUSES) - 1)]
    return min(pause, _AFTER_A_DEATH) if runs and runs[0].died else pause


def _since_the_last(runs: Sequence[LongRun], now: float) -> float:
    ended = runs[0].ended_at if runs else None
    return now - ended if ended is not None else float("inf")
