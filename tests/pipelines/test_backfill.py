"""The backfill job: spans, reports, retries and resumption."""

from dataclasses import replace

import dagster as dg
import pytest
from sqlalchemy import func, select

from indexer.errors import NodeUnavailable
from indexer.facts.backfills import unfinished_backfills
from indexer.ingest.backfill import fetch
from indexer.ingest.backfill_lease import backfill_lease
from indexer.ingest.rebuild import differences
from pipelines import failures
from pipelines.defs.backfill import BACKFILL, READ_RANGE, RunCheck, backfills
from pipelines.defs.resources import ChainNodes
from tests.factories.fake_chain import ETHEREUM, FakeChain, fake_network
from tests.factories.ingesting import ingest_once
from tests.pipelines.factories import EVM, QuietChain, nodes_of, warehouse_of
from warehouse_schema.events import oft_sent
from warehouse_schema.facts import blocks, evm_logs
from warehouse_schema.identifiers import Height
from warehouse_schema.projections import movements


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(fetch, "_ATTEMPTS", 1)
    monkeypatch.setattr(failures, "MAX_BACKOFF", 0.0)
    monkeypatch.setattr("indexer.ingest.backfill.run.PLAN_TIMEOUT", 0.0)


@pytest.fixture
def settings(settings, tmp_path):
    """The devnet, with a chain that a follower begins with late."""
    network = settings.network
    late = tuple(replace(chain, start_height=Height(1_000)) for chain in network.evm)
    return replace(settings, network=replace(network, evm=late), home=tmp_path)


@pytest.fixture
def backfill(settings, instance, indexer_engine):
    """Call it to run the job once over a reader."""

    def run(reader, network=None, doors=None, **config) -> dg.ExecuteInProcessResult:
        of_network = settings if network is None else replace(settings, network=network)
        fixed = {"warehouse": warehouse_of(indexer_engine), "nodes": nodes_of(reader)}
        definitions = dg.Definitions.merge(
            backfills(of_network), dg.Definitions(resources={**fixed, **(doors or {})})
        )
        return definitions.resolve_job_def(BACKFILL).execute_in_process(
            instance=instance,
            raise_on_error=False,
            run_config={"ops": {READ_RANGE: {"config": config}}},
        )

    return run


def heights(engine):
    with engine.connect() as conn:
        query = select(func.count(), func.min(blocks.c.height), func.max(blocks.c.height))
        return tuple(conn.execute(query).one())


def observations(result):
    return [
        {
            key: value.value
            for key, value in e.asset_observation_data.asset_observation.metadata.items()
        }
        for e in result.all_events
        if e.event_type == dg.DagsterEventType.ASSET_OBSERVATION
    ]


def failures_of(result):
    return {
        e.step_key.rpartition(".")[2]: e.step_failure_data
        for e in result.all_events
        if e.is_step_failure
    }


def reason_of(result, step):
    return failures_of(result)[step].user_failure_data.metadata["reason"].value


def succeeded(result):
    return [e.step_key.rpartition(".")[2] for e in result.all_events if e.is_step_success]


# What it reads and says


def test_range_is_read_in_spans_and_its_end_reported(backfill, indexer_engine):
    result = backfill(QuietChain(top=2_000), chain=EVM, first=100, last=799, blocks=300)
    assert succeeded(result) == [
        "plan",
        "ingest_span[000000000100_000000000399]",
        "ingest_span[000000000400_000000000699]",
        "ingest_span[000000000700_000000000799]",
        "finish",
    ]
    assert heights(indexer_engine) == (700, 100, 799)
    last = observations(result)[-1]
    assert (last["backfilled_percent"], last["backfilled_blocks"]) == (100.0, 700)
    assert (last["backfill"], last["seconds_left"]) == ("100 to 799", 0)


def test_reports_are_paced_except_the_last_of_a_step(backfill):
    chain = {"chain": EVM, "first": 0, "last": 799}
    often = backfill(QuietChain(top=2_000), report_seconds=0.000_001, **chain)
    assert [one["backfilled_percent"] for one in observations(often)] == [25.0, 50.0, 75.0, 100.0]
    rarely = backfill(QuietChain(top=2_000), report_seconds=900, blocks=400, **chain)
    assert [one["backfilled_percent"] for one in observations(rarely)] == [50.0, 100.0]


def test_report_has_rate_and_time_left(backfill):
    result = backfill(QuietChain(top=2_000), chain=EVM, first=0, last=799, report_seconds=0.000_001)
    reports = observations(result)
    assert all(one["blocks_per_second"] > 0 for one in reports)
    left = [one["seconds_left"] for one in reports]
    assert left[-1] == 0
    assert None not in left


def test_repeated_backfill_replaces_rows(backfill, indexer_engine):
    for _ in range(2):
        assert backfill(QuietChain(top=2_000), chain=EVM, first=0, last=399).success
        assert heights(indexer_engine) == (400, 0, 399)


# Beside a follower


@pytest.mark.parametrize("start", [8, 12])
def test_backfill_joins_the_followed_range(backfill, engine, indexer_engine, start):
    """A range up to the follower's first block, or over blocks that it wrote."""
    late, straight = (fake_network(confirmations=3, start_height=n) for n in (start, 1))
    chain = FakeChain(late)
    chain.grow(14, sends=2)
    ingest_once(indexer_engine, chain, late)
    assert backfill(chain, late, chain=ETHEREUM, first=1, last=11, blocks=4).success
    chain.grow(2, sends=2)
    ingest_once(indexer_engine, chain, late)
    tables = (blocks, evm_logs, oft_sent, movements)

    def stored():
        with engine.connect() as conn:
            return [sorted(map(repr, conn.execute(select(table)))) for table in tables]

    found = stored()
    assert differences(indexer_engine, late) == []
    with engine.begin() as conn:
        conn.exec_driver_sql(
            "TRUNCATE facts.blocks, facts.evm_logs, facts.oft_sent, facts.cursors,"
            " projections.movements"
        )
    ingest_once(indexer_engine, chain, straight)
    assert found == stored()


def test_range_above_finality_is_refused(backfill, indexer_engine, settings):
    ingest_once(indexer_engine, QuietChain(top=1_100), settings.network)
    result = backfill(QuietChain(top=1_100), chain=EVM, first=0, last=1_090)
    assert "a backfill may reach up to 1036, not 1090" in reason_of(result, "plan")
    assert succeeded(result) == []


def test_unknown_chain_is_refused_by_name(backfill):
    doors = {"warehouse": warehouse_of(None), "nodes": ChainNodes()}
    result = backfill(QuietChain(0), doors=doors, chain="eip155:2", first=0, last=1)
    assert "has no chain eip155:2" in reason_of(result, "plan")


@pytest.mark.usefixtures("long_leases")
def test_second_backfill_of_a_chain_is_refused(backfill, indexer_engine):
    with backfill_lease(indexer_engine, EVM):
        result = backfill(QuietChain(top=2_000), chain=EVM, first=0, last=1)
    assert "another backfill of eip155:31337 is running, such as" in reason_of(result, "plan")


# When something fails


class Faltering(QuietChain):
    """Fails when it is asked for a block, so many times."""

    def __init__(self, top, *, at, times):
        super().__init__(top)
        self.requests = []
        self._at, self._times = at, times

    def read(self, first, last, watched):
        self.requests.append(first)
        if first == self._at and self._times:
            self._times -= 1
            raise NodeUnavailable("no answer", retry_after=0.0)
        return super().read(first, last, watched)


def test_failed_span_is_retried_within_its_step(backfill, indexer_engine):
    reader = Faltering(2_000, at=600, times=2)
    result = backfill(reader, chain=EVM, first=0, last=799, blocks=400)
    assert result.success
    assert heights(indexer_engine) == (800, 0, 799)
    assert reader.requests == [0, 200, 400, 600, 600, 600]


def test_failed_span_is_resumed_by_next_run(backfill, indexer_engine):
    reader = Faltering(2_000, at=700, times=failures.MAX_ATTEMPTS)
    config = {"chain": EVM, "first": 0, "last": 999, "blocks": 250}
    result = backfill(reader, **config)
    assert not result.success
    assert list(failures_of(result)) == ["ingest_span[000000000500_000000000749]"]
    assert reason_of(result, "ingest_span[000000000500_000000000749]") == "no answer"
    # The span behind it waits for none.
    assert heights(indexer_engine) == (950, 0, 999)

    reader.requests.clear()
    again = backfill(reader, **config)
    assert again.success
    assert succeeded(again) == ["plan", "ingest_span[000000000500_000000000749]", "finish"]
    assert reader.requests == [700]
    assert heights(indexer_engine) == (1_000, 0, 999)
    with indexer_engine.connect() as conn:
        assert unfinished_backfills(conn) == []


def test_ended_run_ends_its_steps(instance):
    reports = []

    @dg.op(out={"spans": dg.DynamicOut(dg.Nothing)})
    def plan():
        yield dg.DynamicOutput(None, mapping_key="000000000001_000000000002", output_name="spans")

    @dg.op(ins={"span": dg.In(dg.Nothing)})
    def step(context: dg.OpExecutionContext) -> None:
        now = [0.0]
        goes_on = RunCheck(context, lambda: now[0])
        goes_on()
        context.instance.report_run_failed(context.run, "killed")
        now[0] = 1.0
        goes_on()
        reports.append("looked a moment ago")
        now[0] = 6.0
        with pytest.raises(dg.Failure, match="the run is over"):
            goes_on()
        reports.append("ended")

    @dg.job
    def job():
        plan().map(step)

    job.execute_in_process(instance=instance, raise_on_error=False)
    assert reports == ["looked a moment ago", "ended"]
