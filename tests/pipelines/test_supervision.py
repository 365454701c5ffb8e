"""When a follower is started, as a table of cases, and against Dagster's own records."""

from typing import Any

import dagster as dg
import pytest
from dagster import DagsterRunStatus
from dagster._core.test_utils import create_run_for_test

from indexer.networks import Network
from indexer.settings import Settings
from pipelines.defs.facts.chain import chain_facts, follower_runs
from pipelines.defs.facts.supervision import IN_FLIGHT, next_step
from pipelines.defs.resources import ChainNodes, Warehouse
from pipelines.failures import STOPPED_TAG
from tests.pipelines.factories import EVM, make_run, make_status, warehouse_of

NOW = 1_010.0
LONG_AGO: dict[str, Any] = {"started_at": 10.0, "ended_at": 900.0}


def reason(step: dg.RunRequest | dg.SkipReason) -> str:
    assert isinstance(step, dg.SkipReason)
    return step.skip_message or ""


@pytest.mark.parametrize("status", IN_FLIGHT)
def test_a_run_in_flight_is_the_only_one(status):
    step = next_step(make_status(), [make_run(status, ended_at=None)], NOW)
    assert reason(step) == (f"{status.value}: eip155:31337 at 98 of 100, 2 blocks and 24 s behind")


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
def test_without_a_run_one_is_asked_for_and_may_be_again(runs):
    step = next_step(make_status(), runs, NOW)
    assert isinstance(step, dg.RunRequest)
    assert step.run_key is None


def test_a_chain_that_never_moved_is_started():
    status = make_status(height=None, head_height=None, lag_blocks=None, lag_seconds=None)
    assert isinstance(next_step(status, [], NOW), dg.RunRequest)
    assert "nothing ingested yet" in reason(
        next_step(status, [make_run(DagsterRunStatus.QUEUED)], NOW)
    )


@pytest.mark.parametrize(("failures", "pause"), [(1, 5), (2, 15), (3, 60), (4, 300), (6, 300)])
def test_runs_that_fail_at_once_are_started_less_and_less_often(failures, pause):
    runs = [make_run()] * failures
    ended = make_run().ended_at
    assert ended is not None
    early, due = (next_step(make_status(), runs, ended + pause + s) for s in (-1, 0))
    assert reason(early) == f"failed {failures} times in a row; next start in 1 s"
    assert isinstance(due, dg.RunRequest)


def test_a_run_that_failed_before_it_started_counts_as_failed_at_once():
    step = next_step(make_status(), [make_run(started_at=None, ended_at=NOW)], NOW)
    assert "next start in 5 s" in reason(step)


def test_a_chain_on_hold_waits_for_a_person():
    step = next_step(make_status(held="reorg of 99 blocks"), [], NOW)
    assert "on hold: reorg of 99 blocks. Launch the job by hand" in reason(step)


def test_an_error_only_a_person_can_mend_stops_the_chain_until_a_newer_run():
    stopped = make_run(needs_a_person="WrongChain", **LONG_AGO)
    assert "run run-1 ended with WrongChain" in reason(next_step(make_status(), [stopped], NOW))
    by_hand = make_run(DagsterRunStatus.SUCCESS)
    assert isinstance(next_step(make_status(), [by_hand, stopped], NOW), dg.RunRequest)


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


def record(instance, status, job="follow_eip155_31337", **tags):
    return create_run_for_test(instance, job_name=job, status=status, tags=tags)


def test_the_sensor_starts_a_follower_where_none_is(look):
    assert isinstance(look(), dg.RunRequest)


def test_the_sensor_sees_the_run_in_flight_behind_many_that_ended(look, instance):
    record(instance, DagsterRunStatus.STARTED)
    for _ in range(12):
        record(instance, DagsterRunStatus.SUCCESS)
    assert reason(look()).startswith("STARTED: ")


def test_another_chains_run_does_not_count(look, instance):
    record(instance, DagsterRunStatus.STARTED, job="follow_stellar_devnet")
    assert isinstance(look(), dg.RunRequest)


def test_the_stop_of_an_earlier_run_is_not_inherited_by_its_re_execution(instance):
    first = record(instance, DagsterRunStatus.FAILURE)
    tags = {STOPPED_TAG: f"WrongChain {first.run_id}"}
    instance.add_run_tags(first.run_id, tags)
    assert [run.needs_a_person for run in follower_runs(instance, EVM)] == ["WrongChain"]
    record(instance, DagsterRunStatus.FAILURE, **tags)
    assert [run.needs_a_person for run in follower_runs(instance, EVM)] == [None, "WrongChain"]


def test_the_job_keeps_its_own_pool_and_ends_soon_after_its_time(network):
    resources = dg.Definitions(resources={"warehouse": Warehouse(), "nodes": ChainNodes()})
    definitions = dg.Definitions.merge(chain_facts(network, network.chain(EVM)), resources)
    job = definitions.resolve_job_def("follow_eip155_31337")
    assert job.tags["dagster/max_runtime"] == str(6 * 3600 + 600)
    (node,) = job.nodes
    assert node.definition.pools == {"writes_eip155_31337"}
    config = {"minutes": 360.0, "report_seconds": 10.0}
    assert job.run_config is not None
    assert job.run_config["ops"] == {"ingest_eip155_31337": {"config": config}}
