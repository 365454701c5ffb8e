"""The indexer's errors as Dagster's.

| raised | in the run | by the restart sensor |
|---|---|---|
| `RetryableChainError` | the step is retried in the same process, a few times | started again |
| `PermanentChainError` | fails at once | waits for an operator |
| `ConfigurationError` | fails at once | waits for an operator |
| `FollowerConflict` | fails at once | started again, with backoff |
| `DayStillOpen` | fails at once | requested again once the day is over |

Any other exception is a bug: it fails the run with its traceback.
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

MAX_ATTEMPTS = 5
"""Within one run; then the run fails and the sensor paces the next ones."""
MAX_BACKOFF = 60.0
"""Seconds. Also for a node's Retry-After: a sleeping run holds its chain's pool."""

STOPPED_TAG = "isthmus/stopped"
"""On a run that ended with a permanent error: the type of the error, and the run's id."""


def backoff(error: RetryableChainError, attempt: int) -> float:
    """Seconds: the node's Retry-After, or exponential. `attempt` counts from 0."""
    return min(MAX_BACKOFF, 2.0**attempt if error.retry_after is None else error.retry_after)


def failure(error: IndexerError) -> dg.Failure:
    """Fails the run without another attempt, with the reason on its page."""
    return dg.Failure(
        description=str(error),
        metadata={"reason": str(error), "kind": type(error).__name__},
        allow_retries=False,
    )


def stopped_by(run: dg.DagsterRun) -> str | None:
    """The type of the permanent error that ended this very run."""
    kind, _, run_id = run.tags.get(STOPPED_TAG, "").partition(" ")
    # A re-execution inherits its parent's tags.
    return kind if run_id == run.run_id else None


def retry_in_process(
    context: dg.OpExecutionContext,
    work: Callable[[], None],
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Retry with backoff without giving up the step's place in the executor.

    Dagster puts a retried step at the end of its queue: one that others wait for would wait there
    for those that wait for it. Raises what ends the run.
    """
    for attempt in range(MAX_ATTEMPTS):
        try:
            work()
            break
        except RetryableChainError as error:
            if attempt == MAX_ATTEMPTS - 1:
                raise failure(error) from error
            context.log.warning(f"attempt {attempt + 1} of {MAX_ATTEMPTS}: {error}")
            sleep(backoff(error, attempt))


@contextmanager
def failures_for_dagster(context: dg.OpExecutionContext) -> Iterator[None]:
    """Around the indexer's work in an op: its errors leave as Dagster's."""
    try:
        yield
    except RetryableChainError as error:
        raise dg.RetryRequested(
            max_retries=MAX_ATTEMPTS - 1, seconds_to_wait=backoff(error, context.retry_number)
        ) from error
    except (PermanentChainError, ConfigurationError) as error:
        tag = {STOPPED_TAG: f"{type(error).__name__} {context.run_id}"}
        context.instance.add_run_tags(context.run_id, tag)
        raise failure(error) from error
    except (FollowerConflict, DayStillOpen) as error:
        raise failure(error) from error
