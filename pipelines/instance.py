"""Uses of Dagster's private interfaces, in one place with its tests."""

import dagster as dg
from dagster import DagsterEventType, DagsterInstance, DagsterRun
from dagster._core.events import RunFailureReason
from dagster._core.storage.tags import (
    ASSET_PARTITION_RANGE_END_TAG,
    ASSET_PARTITION_RANGE_START_TAG,
    RUN_FAILURE_REASON_TAG,
)

# Around definitions that use beta features: Dagster would warn in every process.
from dagster._utils.warnings import disable_dagster_warnings as disable_dagster_warnings

_REPORTED = (
    RunFailureReason.STEP_FAILURE,
    RunFailureReason.RUN_EXCEPTION,
    RunFailureReason.JOB_INITIALIZATION_FAILURE,
    RunFailureReason.START_TIMEOUT,
)
"""Reasons of failures that the run's process, or the daemon, reported."""


def process_of(instance: DagsterInstance, run: DagsterRun) -> tuple[int, float] | None:
    """Process id of a run, and the unix time at which it was recorded; None if it never was.

    The code server records it as an engine event after the fork.
    """
    entries = instance.all_logs(run.run_id, of_type=DagsterEventType.ENGINE_EVENT)
    for entry in entries:
        event = entry.dagster_event
        data = event.engine_event_data.metadata if event is not None else {}
        pid = data.get("pid")
        if isinstance(pid, dg.TextMetadataValue) and (pid.text or "").isdecimal():
            return int(pid.text or ""), entry.timestamp
    return None


def lost_process(run: DagsterRun) -> bool:
    """Whether a run failed because its process ended without reporting, as a killed one does.

    Dagster tags a failed run with the reason; of a lost process it has none.
    """
    if run.status != dg.DagsterRunStatus.FAILURE:
        return False
    return run.tags.get(RUN_FAILURE_REASON_TAG) not in {reason.value for reason in _REPORTED}


def range_tags(first: str, last: str) -> dict[str, str]:
    """Tags of one run over the partitions `first … last`, both included."""
    return {ASSET_PARTITION_RANGE_START_TAG: first, ASSET_PARTITION_RANGE_END_TAG: last}
