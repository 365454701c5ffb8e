"""The follower step on a real warehouse: ingestion, reports, and how it ends."""

import os
import signal
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest
from sqlalchemy import func, select

from indexer.errors import NodeUnavailable, WrongChain
from indexer.facts.status import chain_status
from indexer.ingest.ranges import follower_lease
from pipelines import long_run
from pipelines.defs.facts.chain import chain_facts
from pipelines.defs.names import MOVEMENTS, ORDER_BOOK, blocks_key, cursor_key, events_key
from pipelines.failures import STOPPED_TAG
from pipelines.long_run import CatchUpConfig
from tests.pipelines.factories import EVM, QuietChain, nodes_of, warehouse_of
from warehouse_schema.facts import blocks

JOB, STEP = "follow_eip155_31337", "ingest_eip155_31337"


@pytest.fixture
def follow(settings, instance, indexer_engine):
    """Call it to run the job once over a reader."""

    def run(reader: QuietChain, **config: Any) -> dg.ExecuteInProcessResult:
        definitions = dg.Definitions.merge(
            chain_facts(settings.network, settings.network.chain(EVM)),
            dg.Definitions(
                resources={"warehouse": warehouse_of(indexer_engine), "nodes": nodes_of(reader)}
            ),
        )
        return definitions.resolve_job_def(JOB).execute_in_process(
            instance=instance,
            raise_on_error=False,
            run_config=dg.RunConfig(ops={STEP: CatchUpConfig(**config)}),
        )

    return run


def metadata_of(event):
    return {key: value.value for key, value in event.metadata.items()}


def materialized(result, key):
    events = [e for e in result.all_events if e.is_step_materialization]
    return [e.step_materialization_data.materialization for e in events if e.asset_key == key]


def observed(result, key):
    events = [e for e in result.all_events if e.event_type == dg.DagsterEventType.ASSET_OBSERVATION]
    return [e.asset_observation_data.asset_observation for e in events if e.asset_key == key]


def stored_blocks(engine):
    with engine.connect() as conn:
        return conn.scalar(select(func.count()).select_from(blocks))


def test_zero_minutes_catches_up_and_ends(follow, indexer_engine):
    reader = QuietChain(top=450)
    assert follow(reader).success
    assert stored_blocks(indexer_engine) == 451
    assert reader.closed
    reader.on_wait = pytest.fail
    assert follow(reader).success, "nothing new is no reason to wait"


def test_first_range_is_reported_then_sums(follow):
    result = follow(QuietChain(top=450), report_seconds=1_000)
    first, rest, final = map(metadata_of, materialized(result, cursor_key(EVM)))
    assert (first["height"], first["blocks"], first["lag_blocks"]) == (199, 200, 251)
    assert (rest["height"], rest["blocks"], rest["lag_blocks"], rest["events"]) == (450, 251, 0, 0)
    assert (final["height"], final["lag_seconds"]) == (450, 0)


def test_assets_with_checks_materialize_first_and_last(follow):
    result = follow(QuietChain(top=2_000), report_seconds=0.000_001)
    assert len(materialized(result, cursor_key(EVM))) == 12
    for key in (blocks_key(EVM), events_key(EVM)):
        assert len(materialized(result, key)) == 2


def test_folded_projections_are_reported_as_of_last_block(follow):
    result = follow(QuietChain(top=450), report_seconds=0.000_001)
    assert len(materialized(result, MOVEMENTS)) == 1
    last = metadata_of(observed(result, MOVEMENTS)[-1])
    assert (last["chain"], last["as_of_height"]) == (EVM, 450)
    assert last["as_of"] == 1_700_000_450.0
    assert not materialized(result, ORDER_BOOK), "only the Stellar chain moves the order book"


def test_run_ends_successfully_after_its_minutes(follow, indexer_engine, monkeypatch):
    now = 1_000.0

    def pass_a_minute() -> None:
        nonlocal now
        now += 60.0

    monkeypatch.setattr(long_run, "time", SimpleNamespace(monotonic=lambda: now))
    reader = QuietChain(top=3)
    reader.on_wait = pass_a_minute
    assert follow(reader, minutes=3).success
    assert now == 1_000.0 + 4 * 60.0
    assert stored_blocks(indexer_engine) == 4


@pytest.mark.parametrize(
    ("number", "success", "status"),
    [
        (signal.SIGTERM, True, dg.DagsterRunStatus.SUCCESS),
        (signal.SIGINT, False, dg.DagsterRunStatus.FAILURE),
    ],
)
def test_signal_ends_run_between_ranges(follow, instance, number, success, status):
    reader = QuietChain(top=3)
    reader.on_wait = lambda: os.kill(os.getpid(), number)
    before = signal.getsignal(signal.SIGTERM)
    try:
        result = follow(reader, minutes=5)
        assert result.success == success
        run_id = result.run_id
    except dg.DagsterExecutionInterruptedError:
        assert not success
        (run_id,) = [run.run_id for run in instance.get_runs()]
    # Without a request to cancel on record Dagster counts an interrupted run as failed.
    assert instance.get_run_by_id(run_id).status == status
    assert reader.closed
    signal.signal(signal.SIGTERM, before)


def test_node_of_another_chain_stops_restarts(follow, instance, settings, indexer_engine):
    reader = QuietChain(top=3)
    reader.failing = [WrongChain("chain 1, not 31337")]
    result = follow(reader)
    assert not result.success
    assert instance.get_run_by_id(result.run_id).tags[STOPPED_TAG] == f"WrongChain {result.run_id}"
    statuses = {s.chain: s for s in chain_status(indexer_engine, settings.network)}
    assert statuses[EVM].height is None


def test_unavailable_node_is_retried_in_the_run(follow, indexer_engine):
    reader = QuietChain(top=3)
    reader.failing = [NodeUnavailable("no answer", retry_after=0.0)]
    assert follow(reader).success
    assert stored_blocks(indexer_engine) == 4


@pytest.mark.usefixtures("long_leases")
def test_second_follower_fails_and_writes_nothing(follow, indexer_engine):
    with follower_lease(indexer_engine, EVM):
        result = follow(QuietChain(top=3))
    (failed,) = [e for e in result.all_events if e.is_step_failure]
    kind = failed.step_failure_data.user_failure_data.metadata["kind"]
    assert kind.value == "FollowerConflict"
    assert stored_blocks(indexer_engine) == 0
