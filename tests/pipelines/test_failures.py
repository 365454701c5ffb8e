"""Indexer errors as Dagster retries and failures."""

import dagster as dg
import pytest
from sqlalchemy.exc import OperationalError

from indexer.errors import (
    ConfigurationError,
    DeepReorg,
    FollowerConflict,
    NodeUnavailable,
    RangeTooWide,
    Undecodable,
    WrongChain,
)
from pipelines.failures import (
    MAX_ATTEMPTS,
    MAX_BACKOFF,
    STOPPED_TAG,
    WAREHOUSE_ATTEMPTS,
    backoff,
    failures_for_dagster,
    retry_in_process,
)


def run_raising(instance, *errors):
    """A run of one op that raises one error an attempt, then ends well."""
    left = list(errors)

    @dg.op
    def step(context: dg.OpExecutionContext) -> None:
        with failures_for_dagster(context):
            if left:
                raise left.pop(0)

    @dg.job
    def job() -> None:
        step()

    return job.execute_in_process(instance=instance, raise_on_error=False)


def failure_of(result):
    (event,) = [e for e in result.all_events if e.is_step_failure]
    return event.step_failure_data


@pytest.mark.parametrize("error", [NodeUnavailable("no answer"), RangeTooWide("too many logs")])
def test_retryable_error_is_retried_in_the_run(instance, error):
    error.retry_after = 0.0
    result = run_raising(instance, error)
    assert result.success
    assert result.retry_attempts_for_node("step") == 1


def test_retries_are_limited(instance):
    errors = [NodeUnavailable("no answer", retry_after=0.0) for _ in range(MAX_ATTEMPTS + 1)]
    result = run_raising(instance, *errors)
    assert not result.success
    assert result.retry_attempts_for_node("step") == MAX_ATTEMPTS - 1
    assert STOPPED_TAG not in instance.get_run_by_id(result.run_id).tags


@pytest.mark.parametrize(
    ("attempt", "retry_after_seconds", "pause"),
    [(0, None, 1.0), (3, None, 8.0), (0, 17.0, 17.0), (0, 9_999.0, MAX_BACKOFF)],
)
def test_backoff_is_retry_after_or_exponential(attempt, retry_after_seconds, pause):
    assert backoff(NodeUnavailable("busy", retry_after=retry_after_seconds), attempt) == pause


@pytest.mark.parametrize(
    "error",
    [DeepReorg("99 blocks"), WrongChain("chain 1, not 31337"), ConfigurationError("set the URL")],
)
def test_permanent_error_fails_at_once_with_its_reason(instance, error):
    result = run_raising(instance, error)
    assert not result.success
    assert result.retry_attempts_for_node("step") == 0
    metadata = failure_of(result).user_failure_data.metadata
    assert metadata["reason"].value == str(error)
    assert metadata["kind"].value == type(error).__name__
    stopped = instance.get_run_by_id(result.run_id).tags[STOPPED_TAG]
    assert stopped == f"{type(error).__name__} {result.run_id}"


def test_second_follower_fails_without_stopping_the_chain(instance):
    result = run_raising(instance, FollowerConflict("another process follows eip155:1"))
    assert failure_of(result).user_failure_data.metadata["kind"].value == "FollowerConflict"
    assert STOPPED_TAG not in instance.get_run_by_id(result.run_id).tags


def test_unexpected_error_is_not_translated(instance):
    result = run_raising(instance, Undecodable("never raised as far as here"))
    assert failure_of(result).user_failure_data is None
    assert "Undecodable" in failure_of(result).error.to_string()


@pytest.mark.parametrize(
    ("failures", "succeeds"),
    [(WAREHOUSE_ATTEMPTS - 1, True), (WAREHOUSE_ATTEMPTS, False)],
    ids=["within two minutes", "for longer"],
)
def test_warehouse_is_waited_for(failures, succeeds):
    """As long as a restart or a failover takes."""
    left, slept = [failures], []

    def work() -> str:
        left[0] -= 1
        if left[0] >= 0:
            raise OperationalError("SELECT 1", {}, Exception("the connection is lost"))
        return "done"

    context = dg.build_op_context()
    if succeeds:
        assert retry_in_process(context, work, slept.append) == "done"
        assert 120 <= sum(slept) <= 180
    else:
        with pytest.raises(OperationalError):
            retry_in_process(context, work, slept.append)
