"""Asset checks: severity of each failure, on a real warehouse."""

import time
from datetime import UTC, datetime, timedelta
from os import getpid
from socket import gethostname

import dagster as dg
import pytest
from dagster._core.events import DagsterEvent, DagsterEventType
from dagster._core.test_utils import create_run_for_test
from sqlalchemy import delete, insert, update

from indexer.errors import RetentionGap
from indexer.ingest.ranges import follower_lease
from pipelines.defs.check_jobs import (
    CHECK_FACTS,
    CHECK_HISTORY,
    CHECK_PROJECTIONS,
    SHARE,
    check_jobs,
    next_check,
    seconds_until_due,
)
from pipelines.defs.facts.chain import chain_facts
from pipelines.defs.facts.checks import verdict
from pipelines.defs.names import MOVEMENTS, ORDER_BOOK, blocks_key, events_key
from pipelines.defs.projections.assets import REBUILD_JOB, projections
from tests.factories.cursors import set_cursor_times
from tests.factories.ingesting import ingest_once
from tests.pipelines.factories import EVM, QuietChain, nodes_of, warehouse_of
from warehouse_schema import locks
from warehouse_schema.facts import alarms, blocks, cursors
from warehouse_schema.leases import INDEXER_LEASES, LeaseName, record_standby
from warehouse_schema.projections import movements


@pytest.fixture
def check(settings, instance, indexer_engine):
    """Call it for the results of one job's checks, by name, on the warehouse as it is."""
    chain = settings.network.chain(EVM)
    definitions = dg.Definitions.merge(
        chain_facts(settings.network, chain),
        projections(settings.network, [chain]),
        check_jobs([chain]),
        dg.Definitions(
            resources={
                "warehouse": warehouse_of(indexer_engine),
                "nodes": nodes_of(QuietChain(top=9)),
            }
        ),
    )

    def run(job: str = CHECK_FACTS):
        result = definitions.resolve_job_def(job).execute_in_process(
            instance=instance, raise_on_error=False
        )
        return {(e.asset_key, e.check_name): e for e in result.get_asset_check_evaluations()}

    return run


@pytest.fixture
def stop(settings, instance, indexer_engine):
    """Call it to run the follower over a node that fails for good as soon as it is read."""

    def run(error: Exception) -> dg.ExecuteInProcessResult:
        class Failing(QuietChain):
            def read(self, first, last, watched):
                raise error

        definitions = dg.Definitions.merge(
            chain_facts(settings.network, settings.network.chain(EVM)),
            dg.Definitions(
                resources={
                    "warehouse": warehouse_of(indexer_engine),
                    "nodes": nodes_of(Failing(top=99)),
                }
            ),
        )
        job = definitions.resolve_job_def("follow_eip155_31337")
        return job.execute_in_process(instance=instance, raise_on_error=False)

    return run


@pytest.fixture
def look(settings, instance, indexer_engine):
    """Call it for what the chain's sensor says."""
    (sensor,) = chain_facts(settings.network, settings.network.chain(EVM)).sensors or ()

    def evaluate() -> dg.SkipReason:
        with dg.build_sensor_context(
            instance=instance, resources={"warehouse": warehouse_of(indexer_engine)}
        ) as context:
            skipped = sensor(context)
        assert isinstance(skipped, dg.SkipReason)
        return skipped

    return evaluate


@pytest.fixture
def ingested(indexer_engine, settings):
    ingest_once(indexer_engine, QuietChain(top=9), settings.network)


@pytest.mark.usefixtures("ingested")
def test_consistent_chain_passes(check, engine):
    with engine.begin() as conn:
        set_cursor_times(conn, timedelta(hours=1), "updated_at", "reported_at")
    found = check()
    assert {name for _, name in found} == {"blocks_join", "no_open_alarms", "keeps_up"}
    assert all(evaluation.passed for evaluation in found.values())


@pytest.mark.usefixtures("ingested")
def test_missing_block_is_an_error(check, engine):
    with engine.begin() as conn:
        conn.execute(delete(blocks).where(blocks.c.height == 5))
    evaluation = check()[(blocks_key(EVM), "blocks_join")]
    assert (evaluation.passed, evaluation.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert evaluation.metadata["found"].value == "- eip155:31337: no block between 4 and 6"


@pytest.mark.usefixtures("ingested")
def test_old_missing_block_is_found_by_history_check_only(check, engine, monkeypatch):
    monkeypatch.setattr("pipelines.defs.facts.checks.RECENT_BLOCKS", 3)
    with engine.begin() as conn:
        conn.execute(delete(blocks).where(blocks.c.height == 5))
    assert check()[(blocks_key(EVM), "blocks_join")].passed
    found = check(CHECK_HISTORY)[(blocks_key(EVM), "history_joins")]
    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert "no block between 4 and 6" in found.metadata["found"].value


@pytest.mark.parametrize("moved", [True, False], ids=["a chain that moved", "a new chain"])
def test_permanent_stop_is_shown_everywhere(
    check, stop, look, instance, indexer_engine, settings, moved
):
    if moved:
        ingest_once(indexer_engine, QuietChain(top=9), settings.network)
    sentence = "eip155:31337: the node keeps 7 days, block 10 is older"
    result = stop(RetentionGap(sentence))
    (failed,) = [e for e in result.all_events if e.is_step_failure]
    assert failed.step_failure_data.user_failure_data.metadata["reason"].value == sentence
    found = check()
    alarm = found[(events_key(EVM), "no_open_alarms")]
    assert alarm.metadata["found"].value == f"- RetentionGap eip155:31337: {sentence}"
    waits = look().skip_message
    if moved:
        held = found[(blocks_key(EVM), "keeps_up")]
        assert held.metadata["found"].value == f"- ON_HOLD: on hold: {sentence}"
        assert f"on hold: {sentence}" in waits
    else:
        assert f"run {result.run_id} ended with RetentionGap" in waits


@pytest.mark.usefixtures("ingested")
def test_open_alarm_is_a_warning_with_its_text(check, engine):
    row = {"chain": EVM, "kind": "undecodable", "subject": "log 7", "detail": "3 topics, not 4"}
    with engine.begin() as conn:
        conn.execute(insert(alarms).values(row))
    evaluation = check()[(events_key(EVM), "no_open_alarms")]
    assert (evaluation.passed, evaluation.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert evaluation.metadata["found"].value == "- undecodable log 7: 3 topics, not 4"


@pytest.mark.usefixtures("ingested", "long_leases")
def test_check_names_the_follower_and_its_standbys(check, indexer_engine):
    with follower_lease(indexer_engine, EVM), indexer_engine.connect() as conn:
        with conn.begin():
            name = LeaseName(locks.FOLLOWER, EVM)
            record_standby(conn, INDEXER_LEASES, name, "other", 7)
        processes = check()[(blocks_key(EVM), "keeps_up")].metadata["processes"].value
    assert processes.startswith(f"follower {EVM}: {gethostname()}:{getpid()} since ")
    assert ", standby other:7 since " in processes


@pytest.mark.usefixtures("ingested")
def test_chain_on_hold_is_an_error(check, engine):
    with engine.begin() as conn:
        conn.execute(update(cursors).values(held="reorg of 99 blocks"))
    evaluation = check()[(blocks_key(EVM), "keeps_up")]
    assert (evaluation.passed, evaluation.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert evaluation.metadata["found"].value == "- ON_HOLD: on hold: reorg of 99 blocks"


@pytest.mark.usefixtures("ingested")
@pytest.mark.parametrize(
    ("aged", "found"),
    [
        pytest.param(
            ("updated_at", "reported_at"),
            "- NOT_FOLLOWED: its follower has not reported for ",
            id="dead_follower",
        ),
        pytest.param(("updated_at",), "- STOPPED: no new block for ", id="frozen_node"),
    ],
)
def test_chain_that_stands_still_is_a_warning(check, engine, aged, found):
    with engine.begin() as conn:
        set_cursor_times(conn, timedelta(hours=1), "updated_at", "reported_at")
        set_cursor_times(conn, timedelta(seconds=-14), *aged)
    evaluation = check()[(blocks_key(EVM), "keeps_up")]
    assert (evaluation.passed, evaluation.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert evaluation.metadata["found"].value.startswith(found)


def test_verdict_counts_its_problems():
    assert verdict([]).metadata["problems"].value == 0
    assert verdict(["one", "two"]).metadata["problems"].value == 2


@pytest.mark.usefixtures("ingested")
def test_projection_difference_is_an_error_until_rebuilt(check, engine):
    passed = check(CHECK_PROJECTIONS)
    assert [(e.asset_key, e.passed) for e in passed.values()] == [
        (ORDER_BOOK, True),
        (MOVEMENTS, True),
    ]
    stray = {"id": "cctp:0x1:0", "mechanism": "cctp", "group_key": "0x1", "stage": "ATTESTING"}
    with engine.begin() as conn:
        conn.execute(insert(movements).values(**stray, source_tx="0xabc"))
    broken = check(CHECK_PROJECTIONS)[(MOVEMENTS, "refold_equals_stored")]
    assert (broken.passed, broken.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert "movement cctp:0x1:0" in broken.metadata["found"].value
    assert all(evaluation.passed for evaluation in check(REBUILD_JOB).values())


@pytest.mark.parametrize(
    ("took", "pause"),
    [(3.0, 150.0), (60.0, 3_000.0), (7_200.0, 86_400.0)],
    ids=["seconds: at each look", "a minute: every 50", "hours: once a day"],
)
def test_history_check_is_paced_by_its_duration(took, pause):
    assert SHARE == 0.02
    record = make_record(started=1_000.0, ended=1_000.0 + took)
    assert seconds_until_due(record, now=1_000.0 + took) == pause - took
    assert seconds_until_due(record, now=1_000.0 + pause) == 0.0


def test_rest_is_bounded_by_the_longest_pause():
    record = make_record(started=1_000.0, ended=8_200.0)
    assert seconds_until_due(record, now=1_000.0, max_interval=1_800) == 1_800


def test_unstarted_check_is_due():
    assert seconds_until_due(make_record(started=None, ended=5.0), now=6.0) == 0.0


def test_history_check_waits_for_the_last_one_then_rests(instance):
    assert isinstance(next_check(instance, CHECK_HISTORY, time.time()), dg.RunRequest)
    run = create_run_for_test(instance, job_name=CHECK_HISTORY)
    started = DagsterEvent(DagsterEventType.RUN_START.value, CHECK_HISTORY)
    begun = time.time()
    instance.report_dagster_event(started, run_id=run.run_id)
    assert isinstance(next_check(instance, CHECK_HISTORY, begun + 100_000), dg.SkipReason)
    instance.report_run_failed(run)
    took = time.time() - begun
    assert isinstance(next_check(instance, CHECK_HISTORY, begun + took / SHARE + 5), dg.RunRequest)


def make_record(started: float | None, ended: float | None) -> dg.RunRecord:
    moment = datetime.fromtimestamp(0, UTC)
    return dg.RunRecord(1, dg.DagsterRun(job_name="check"), moment, moment, started, ended)
