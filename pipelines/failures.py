"""The indexer's errors as Dagster's.

| raised | in the run | by the restart sensor |
|---|---|---|
| `RetryableChainError` | the step is retried in the same process, a few times | started again |
| `OperationalError` of the warehouse | idempotent steps are retried for two minutes | – |
| `PermanentChainError` | fails at once | waits for an operator |
| `ConfigurationError` | fails at once | waits for an operator |
| `FollowerConflict` | fails at once | started again, with backoff |
| `DayStillOpen` | fails at once | requested again once the day is over |

Any other exception is a bug: it fails the run with its traceback.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import dagster as dg
from sqlalchemy.exc import OperationalError

from indexer.errors import (
    ConfigurationError,
    DayStillOpen,
    FollowerConflict,
    IndexerError,
    PermanentChainError,
    RetryableChainError,
)

T = TypeVar("T")

MAX_ATTEMPTS = 5
"""Within one run; then the run fails and the sensor paces the next ones."""
WAREHOUSE_ATTEMPTS = 8
"""Two minutes: 1 + 2 + 4 + … + 60 s."""
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
    work: Callable[[], T],
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """Retry idempotent work with backoff, without giving up the step's place in the executor.

    Raises what ends the run.
    """
    attempts: Counter[type[Exception]] = Counter()
    while True:
        try:
            return work()
        except RetryableChainError as error:
            attempt, limit, pause = attempts[RetryableChainError], MAX_ATTEMPTS, error.retry_after
            if attempt == limit - 1:
                raise failure(error) from error
            attempts[RetryableChainError] += 1
            context.log.warning(f"attempt {attempt + 1} of {limit}: {error}")
        except OperationalError as error:
            attempt, limit, pause = attempts[OperationalError], WAREHOUSE_ATTEMPTS, None
            if attempt == limit - 1:
                raise
            attempts[OperationalError] += 1
            context.log.warning(f"warehouse, attempt {attempt + 1} of {limit}: {error.orig}")
        sleep(min(MAX_BACKOFF, 2.0**attempt if pause is None else pause))


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
