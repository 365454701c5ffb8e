"""The indexer's errors in Dagster's words.

| raised | what Dagster does | what the chain's sensor does then |
|---|---|---|
| `RetryableChainError` | tries the step again in the same process, a few times | starts again |
| `PermanentChainError` | fails the run at once | waits for a person |
| `ConfigurationError` | fails the run at once | waits for a person |
| `FollowerConflict` | fails the run at once | starts again, with growing pauses |
| `DayStillOpen` | fails the run at once | asks for the day once it is over |

Everything else is a bug: it passes through and fails the run with its traceback.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import dagster as dg

from indexer.errors import (
    ConfigurationError,
    DayStillOpen,
    FollowerConflict,
    IndexerError,
    PermanentChainError,
    RetryableChainError,
)

MOST_ATTEMPTS = 5
"""Attempts within one run; then the run fails and the sensor paces the next ones."""
LONGEST_PAUSE = 60.0
"""Seconds. What a node asks for is honoured up to here: a sleeping run holds its chain's pool."""

STOPPED_TAG = "isthmus/stopped"
"""On a run that ended for a reason only a person can mend: the kind of error and the run's id."""

NEEDS_A_PERSON = (PermanentChainError, ConfigurationError)


def retry(error: RetryableChainError, attempt: int) -> dg.RetryRequested:
    """Ask for another attempt, as late as the node asked or later each time.

    `attempt` counts from 0.
    """
    return dg.RetryRequested(max_retries=MOST_ATTEMPTS - 1, seconds_to_wait=_pause(error, attempt))


def _pause(error: RetryableChainError, attempt: int) -> float:
    """Seconds."""
    asked = 2.0**attempt if error.retry_after is None else error.retry_after
    return min(LONGEST_PAUSE, asked)


def failure(error: IndexerError) -> dg.Failure:
    """Fail the run without another attempt, with the reason where an operator looks."""
    return dg.Failure(
        description=str(error),
        metadata={"reason": str(error), "kind": type(error).__name__},
        allow_retries=False,
    )


def stopped_by(run: dg.DagsterRun) -> str | None:
    """The kind of error that only a person can mend and that ended this very run."""
    kind, _, run_id = run.tags.get(STOPPED_TAG, "").partition(" ")
    # A re-execution inherits its parent's tags, and has not failed by that.
    return kind if run_id == run.run_id else None


def in_place(
    context: dg.OpExecutionContext,
    work: Callable[[], None],
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Work; again after a pause while that may help, in the same process.

    For a step that others wait for: one that Dagster tries again goes to the end of its queue, and
    would wait there for those that wait for it. Raises what ends a run in the end.
    """
    for attempt in range(MOST_ATTEMPTS):
        try:
            work()
            break
        except RetryableChainError as error:
            if attempt == MOST_ATTEMPTS - 1:
                raise failure(error) from error
            context.log.warning(f"attempt {attempt + 1} of {MOST_ATTEMPTS}: {error}")
            sleep(_pause(error, attempt))


@contextmanager
def failures_for_dagster(context: dg.OpExecutionContext) -> Iterator[None]:
    """Around the indexer's work in an op: what it raises leaves in Dagster's words."""
    try:
        yield
    except RetryableChainError as error:
        raise retry(error, context.retry_number) from error
    except NEEDS_A_PERSON as error:
        tag = {STOPPED_TAG: f"{type(error).__name__} {context.run_id}"}
        context.instance.add_run_tags(context.run_id, tag)
        raise failure(error) from error
    except (FollowerConflict, DayStillOpen) as error:
        raise failure(error) from error
