"""What we ask of Dagster's instance beyond its public surface, in one place with its tests."""

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg
from dagster import DagsterEventType, DagsterInstance, DagsterRun
from dagster._core.events import RunFailureReason
from dagster._core.storage.tags import (
    ASSET_PARTITION_RANGE_END_TAG,
    ASSET_PARTITION_RANGE_START_TAG,
    RUN_FAILURE_REASON_TAG,
)
from dagster._utils.warnings import disable_dagster_warnings

_WITH_A_WORD = (
    RunFailureReason.STEP_FAILURE,
    RunFailureReason.RUN_EXCEPTION,
    RunFailureReason.JOB_INITIALIZATION_FAILURE,
    RunFailureReason.START_TIMEOUT,
)
"""Why a run failed that was not killed."""


def process_of(instance: DagsterInstance, run: DagsterRun) -> tuple[int, float] | None:
    """Process id of a run, and the unix time at which it was noted; None if it never was.

    The code server notes it as an engine event when it has forked the process.
    """
    entries = instance.all_logs(run.run_id, of_type=DagsterEventType.ENGINE_EVENT)
    for entry in entries:
        event = entry.dagster_event
        data = event.engine_event_data.metadata if event is not None else {}
        pid = data.get("pid")
        if isinstance(pid, dg.TextMetadataValue) and (pid.text or "").isdecimal():
            return int(pid.text or ""), entry.timestamp
    return None


def died(run: DagsterRun) -> bool:
    """Whether a run failed because its process ended without a word, as one that is killed does.

    Dagster notes on a run why it failed; of a process that is gone it knows no reason.
    """
    if run.status != dg.DagsterRunStatus.FAILURE:
        return False
    return run.tags.get(RUN_FAILURE_REASON_TAG) not in {why.value for why in _WITH_A_WORD}


def range_tags(first: str, last: str) -> dict[str, str]:
    """Tags of one run over the partitions `first … last`, both included."""
    return {ASSET_PARTITION_RANGE_START_TAG: first, ASSET_PARTITION_RANGE_END_TAG: last}


@contextmanager
def knowing_that_it_is_beta() -> Iterator[None]:
    """Around definitions that use what Dagster calls beta, and would say so in every process."""
    with disable_dagster_warnings():
        yield
