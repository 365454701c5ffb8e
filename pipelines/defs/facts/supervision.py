"""When a chain's follower is started: a decision from stored records, and nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass

import dagster as dg

from indexer.facts.status import ChainStatus

IN_FLIGHT = (
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
)

_SOON = 30.0
"""Seconds. A run that failed sooner than this achieved nothing."""
_PAUSES = (0.0, 5.0, 15.0, 60.0, 300.0)
"""Seconds to wait after so many runs in a row that achieved nothing."""


@dataclass(frozen=True, slots=True)
class FollowerRun:
    """One run of a chain's follower, as it is on record. Times are unix seconds."""

    run_id: str
    status: dg.DagsterRunStatus
    started_at: float | None = None
    ended_at: float | None = None
    needs_a_person: str | None = None
    """The kind of error that ended it, if trying again cannot help."""

    @property
    def in_flight(self) -> bool:
        """Whether it runs, or is going to."""
        return self.status in IN_FLIGHT

    @property
    def achieved_nothing(self) -> bool:
        """Whether it failed so soon that the next one will probably fail as well."""
        if self.status != dg.DagsterRunStatus.FAILURE:
            return False
        if self.started_at is None or self.ended_at is None:
            return True
        return self.ended_at - self.started_at < _SOON


def next_step(
    status: ChainStatus, runs: Sequence[FollowerRun], now: float
) -> dg.RunRequest | dg.SkipReason:
    """Start the follower, or say why not, how far the chain is and how late.

    `runs` are those in flight and the latest that ended, newest first; `now` is in unix seconds.
    The request has no run key: a follower that ended is to be started again, each time.
    """
    running = next((run for run in runs if run.in_flight), None)
    if running is not None:
        return dg.SkipReason(f"{running.status.value}: {where(status)}")
    if status.held is not None:
        return dg.SkipReason(f"on hold: {status.held}. {_by_hand(status)}")
    if runs and runs[0].needs_a_person:
        return dg.SkipReason(
            f"run {runs[0].run_id} ended with {runs[0].needs_a_person}. {_by_hand(status)}"
        )
    failures = _failures_in_a_row(runs)
    wait = _pause(failures) - _since_the_last(runs, now)
    if wait > 0:
        return dg.SkipReason(f"failed {failures} times in a row; next start in {wait:.0f} s")
    return dg.RunRequest()


def where(status: ChainStatus) -> str:
    """How far the chain is and how late, in words."""
    if status.height is None:
        return f"{status.chain} has nothing ingested yet"
    return (
        f"{status.chain} at {status.height} of {status.head_height}, "
        f"{status.lag_blocks} blocks and {status.lag_seconds} s behind"
    )


def _by_hand(status: ChainStatus) -> str:
    return f"Launch the job by hand once that is mended; {where(status)}"


def _failures_in_a_row(runs: Sequence[FollowerRun]) -> int:
    count = 0
    for run in runs:
        if not run.achieved_nothing:
            break
        count += 1
    return count


def _pause(failures: int) -> float:
    return _PAUSES[min(failures, len(_PAUSES) - 1)]


def _since_the_last(runs: Sequence[FollowerRun], now: float) -> float:
    ended = runs[0].ended_at if runs else None
    return now - ended if ended is not None else float("inf")
