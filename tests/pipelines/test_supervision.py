"""Follower supervision: decisions as a table of cases, and against Dagster's records."""

from collections.abc import Sequence
from typing import Any

import dagster as dg
import pytest
from dagster import DagsterRunStatus
from dagster._core.events import DagsterEvent, DagsterEventType, JobFailureData, RunFailureReason
from dagster._core.test_utils import create_run_for_test

from indexer.config.networks import Network
from indexer.config.settings import Settings
from pipelines import supervision
from pipelines.defs.facts.chain import chain_facts, where
from pipelines.defs.names import cursor_key
from pipelines.defs.resources import ChainNodes, WarehouseResource
from pipelines.failures import STOPPED_TAG
from pipelines.restart_sensor import runs_of
from pipelines.supervision import IN_FLIGHT, LongRun, RunState
from tests.pipelines.factories import EVM, make_run, make_standing, make_status, warehouse_of

JOB = "follow_eip155_31337"
NOW = 1_010.0
LONG_AGO: dict[str, Any] = {"started_at": 10.0, "ended_at": 905.0}


def next_step(state: RunState, runs: Sequence[LongRun], now: float, process_started_at: float = 0):
    return supervision.next_step(state, runs, now, process_started_at)


def reason(step: dg.RunRequest | dg.SkipReason) -> str:
    assert isinstance(step, dg.SkipReason)
    return step.skip_message or ""


@pytest.mark.parametrize("status", IN_FLIGHT)
def test_running_run_is_not_doubled(status):
    step = next_step(make_standing(), [make_run(status, ended_at=None)], NOW)
    assert reason(step) == f"{status.value}: eip155:31337 at 98 of 100"


@pytest.mark.parametrize(
    "runs",
    [
        [],
        [make_run(DagsterRunStatus.SUCCESS)],
        [make_run(DagsterRunStatus.CANCELED)],
        [make_run(DagsterRunStatus.FAILURE, **LONG_AGO)],
        [make_run(DagsterRunStatus.FAILURE, ended_at=1_004.0)],
        [make_run(DagsterRunStatus.SUCCESS), make_run(ended_at=1_003.0)],
    ],
    ids=["never ran", "time over", "cancelled", "failed late", "failed 6 s ago", "recovered"],
)
def test_missing_run_is_requested_once_for_each_end(runs):
    step = next_step(make_standing(), runs, NOW)
    assert isinstance(step, dg.RunRequest)
    assert step.run_key == (f"after {runs[0].run_id}" if runs else "first")


def test_chain_never_ingested_is_started():
    never = make_standing(where="nothing ingested yet", moved_at=None)
    assert isinstance(next_step(never, [], NOW), dg.RunRequest)
    queued = [make_run(DagsterRunStatus.QUEUED)]
    assert reason(next_step(never, queued, NOW)) == "QUEUED: nothing ingested yet"


@pytest.mark.parametrize(("failures", "pause"), [(1, 5), (2, 15), (3, 60), (4, 300), (6, 300)])
def test_failures_without_progress_back_off(failures, pause):
    runs = [make_run()] * failures
    ended = make_run().ended_at
    assert ended is not None
    early, due = (next_step(make_standing(), runs, ended + pause + s) for s in (-1, 0))
    assert reason(early) == f"failed {failures} times in a row; next start in 1 s"
    assert isinstance(due, dg.RunRequest)


@pytest.mark.parametrize("seconds", [0.0, 1.0, 2.9], ids=["at once", "soon", "just before"])
@pytest.mark.parametrize("before", [0, 5], ids=["first", "after five that achieved nothing"])
def test_run_with_progress_is_replaced_at_once(seconds, before):
    run, idle = make_run(), make_run(started_at=990.0, ended_at=993.0)
    assert run.started_at is not None
    assert run.ended_at is not None
    moved = make_standing(moved_at=run.started_at + seconds)
    step = next_step(moved, [run, *[idle] * before], run.ended_at)
    assert isinstance(step, dg.RunRequest)


def test_long_run_without_progress_counts_as_failed():
    lasted = make_run(started_at=950.0, ended_at=NOW)
    assert "failed 1 times" in reason(next_step(make_standing(moved_at=949.0), [lasted], NOW))


@pytest.mark.parametrize("times", [1, 2, 3, 6])
def test_lost_processes_are_replaced_within_seconds(times):
    runs = [make_run(lost_process=True)] * times
    ended = make_run().ended_at
    assert ended is not None
    assert "next start in 1 s" in reason(next_step(make_standing(), runs, ended + 4))
    assert isinstance(next_step(make_standing(), runs, ended + 5), dg.RunRequest)


def test_unstarted_failed_run_counts_as_failed():
    step = next_step(make_standing(), [make_run(started_at=None, ended_at=NOW)], NOW)
    assert "next start in 5 s" in reason(step)


def test_chain_on_hold_waits_for_a_restart_of_the_code_server():
    held, stopped = make_standing(held="reorg of 99 blocks"), make_run(**LONG_AGO)
    step = next_step(held, [stopped], NOW)
    assert "on hold: reorg of 99 blocks. Mend that, then restart the code server" in reason(step)
    assert isinstance(next_step(held, [stopped], NOW, 906.0), dg.RunRequest)
    tried = make_run(ended_at=1_009.0)
    assert "on hold" in reason(next_step(held, [tried, stopped], NOW, 906.0)), "once a restart"


def test_permanent_error_stops_restarts_until_a_newer_run():
    stopped = make_run(permanent_error="WrongChain", **LONG_AGO)
    assert "run run-1 ended with WrongChain" in reason(next_step(make_standing(), [stopped], NOW))
    by_hand = make_run(DagsterRunStatus.SUCCESS)
    assert isinstance(next_step(make_standing(), [by_hand, stopped], NOW), dg.RunRequest)


@pytest.mark.parametrize(
    ("process_started_at", "starts"),
    [(904.0, False), (905.0, False), (906.0, True)],
    ids=["before the run ended", "in the same second", "after it ended"],
)
def test_restarted_code_server_tries_again_after_permanent_error(process_started_at, starts):
    stopped = make_run(permanent_error="ConfigurationError", **LONG_AGO)
    step = next_step(make_standing(), [stopped], NOW, process_started_at)
    assert isinstance(step, dg.RunRequest) == starts


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "eip155:31337 at 98 of 100, 2 blocks and 24 s behind"),
        ({"height": None}, "eip155:31337 has nothing ingested yet"),
    ],
)
def test_chain_position_text(changes, words):
    assert where(make_status(**changes)) == words


# The sensor, with Dagster's records and a real warehouse.


@pytest.fixture
def network(settings: Settings) -> Network:
    return settings.network


@pytest.fixture
def look(network, instance, indexer_engine):
    """Call it for what the chain's sensor says."""
    (sensor,) = chain_facts(network, network.chain(EVM)).sensors or ()

    def evaluate():
        with dg.build_sensor_context(
            instance=instance, resources={"warehouse": warehouse_of(indexer_engine)}
        ) as context:
            return sensor(context)

    return evaluate


def record(instance, status, job=JOB, **tags):
    return create_run_for_test(instance, job_name=job, status=status, tags=tags)


def test_sensor_starts_a_missing_follower(look):
    assert isinstance(look(), dg.RunRequest)


def test_sensor_finds_running_run_behind_ended_ones(look, instance):
    record(instance, DagsterRunStatus.STARTED)
    for _ in range(12):
        record(instance, DagsterRunStatus.SUCCESS)
    assert reason(look()).startswith("STARTED: ")


def test_run_of_another_chain_is_ignored(look, instance):
    record(instance, DagsterRunStatus.STARTED, job="follow_stellar_devnet")
    assert isinstance(look(), dg.RunRequest)


@pytest.mark.parametrize("moved", [False, True])
def test_sensor_replaces_a_run_with_progress_at_once(look, instance, moved, monkeypatch):
    # Longer than a busy machine may need to look.
    monkeypatch.setattr(supervision, "_BACKOFF", (0.0, 3_600.0))
    monkeypatch.setattr(supervision, "_MAX_AFTER_LOST_PROCESS", 3_600.0)
    run = create_run_for_test(instance, job_name=JOB)
    instance.report_dagster_event(
        DagsterEvent(DagsterEventType.RUN_START.value, JOB), run_id=run.run_id
    )
    if moved:
        instance.report_runless_asset_event(dg.AssetMaterialization(cursor_key(EVM)))
    instance.report_run_failed(run, "its process is gone")
    step = look()
    if moved:
        assert isinstance(step, dg.RunRequest)
    else:
        assert "failed 1 times in a row" in reason(step)


@pytest.mark.parametrize(
    ("why", "died"),
    [
        (None, True),
        (RunFailureReason.UNEXPECTED_TERMINATION, True),
        (RunFailureReason.STEP_FAILURE, False),
        (RunFailureReason.START_TIMEOUT, False),
    ],
)
def test_run_without_failure_reason_lost_its_process(instance, why, died):
    run = create_run_for_test(instance, job_name=JOB)
    instance.report_run_failed(run, "over", JobFailureData(None, failure_reason=why))
    assert [one.lost_process for one in runs_of(instance, JOB)] == [died]


def test_stopped_tag_is_not_inherited(instance):
    first = record(instance, DagsterRunStatus.FAILURE)
    tags = {STOPPED_TAG: f"WrongChain {first.run_id}"}
    instance.add_run_tags(first.run_id, tags)
    assert [run.permanent_error for run in runs_of(instance, JOB)] == ["WrongChain"]
    record(instance, DagsterRunStatus.FAILURE, **tags)
    assert [run.permanent_error for run in runs_of(instance, JOB)] == [None, "WrongChain"]


def test_job_has_own_pool_and_max_runtime(network):
    resources = dg.Definitions(resources={"warehouse": WarehouseResource(), "nodes": ChainNodes()})
    definitions = dg.Definitions.merge(chain_facts(network, network.chain(EVM)), resources)
    job = definitions.resolve_job_def("follow_eip155_31337")
    assert job.tags["dagster/max_runtime"] == str(6 * 3600 + 600)
    (node,) = job.nodes
    assert node.definition.pools == {"writes_eip155_31337"}
    config = {"minutes": 360.0, "report_seconds": 10.0}
    assert job.run_config is not None
    assert job.run_config["ops"] == {"ingest_eip155_31337": {"config": config}}
