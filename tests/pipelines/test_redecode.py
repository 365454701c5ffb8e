"""The redecode job: it fills and checks, and swaps only if configured."""

from dataclasses import replace

import dagster as dg
import pytest
from sqlalchemy import func, select, update

from indexer.ingest.rebuild import differences
from indexer.ingest.redecode import run as redecode
from indexer.ingest.redecode.run import RedecodeProgress
from pipelines.defs.redecode import REDECODE, FillReporter, redecoding
from tests.factories.fake_chain import ETHEREUM, FakeChain, fake_network
from tests.factories.ingesting import ingest_once
from tests.pipelines.factories import warehouse_of
from warehouse_schema.events import oft_sent
from warehouse_schema.identifiers import ChainId, Height
from warehouse_schema.projections import movements

NETWORK = fake_network(confirmations=4)
BLOCKS = 20


@pytest.fixture
def revise(instance, indexer_engine):
    """Call it to run the job once."""
    definitions = dg.Definitions.merge(
        redecoding(NETWORK), dg.Definitions(resources={"warehouse": warehouse_of(indexer_engine)})
    )
    job = definitions.resolve_job_def(REDECODE)

    def run(**configs) -> dg.ExecuteInProcessResult:
        return job.execute_in_process(
            instance=instance,
            raise_on_error=False,
            run_config={"ops": {op: {"config": config} for op, config in configs.items()}},
        )

    return run


@pytest.fixture
def decoded_wrong(engine, indexer_engine):
    """A followed chain whose sends an older build decoded wrong."""
    chain = FakeChain(NETWORK)
    chain.grow(BLOCKS)
    ingest_once(indexer_engine, chain, NETWORK)
    with engine.begin() as conn:
        conn.execute(update(oft_sent).values(amount_sent=1))
        conn.execute(update(movements).values(amount_in=1))


def wrong(engine):
    with engine.connect() as conn:
        return conn.scalar(select(func.count()).where(oft_sent.c.amount_sent == 1))


def found_of(result):
    (output,) = (
        event.step_output_data
        for event in result.all_events
        if event.is_successful_output and event.step_key == "check"
    )
    return {name: value.value for name, value in output.metadata.items()}


def observations(result):
    return [
        event.asset_observation_data.asset_observation
        for event in result.all_events
        if event.event_type == dg.DagsterEventType.ASSET_OBSERVATION
    ]


@pytest.mark.usefixtures("decoded_wrong")
def test_default_run_fills_and_checks_without_swap(revise, engine):
    redecode.start(engine, NETWORK, [ETHEREUM])
    result = revise(fill={"report_seconds": 0.000_001})
    assert result.success
    reports = observations(result)
    assert {one.asset_key.to_user_string() for one in reports} == {"facts/eip155_1/events"}
    reached = [one.metadata["revised_to"].value for one in reports]
    assert reached == sorted(reached)
    assert reached[-1] == reports[-1].metadata["revised_of"].value == BLOCKS - 4
    found = found_of(result)
    assert (found["tables"], found["changed"]) == (2, BLOCKS - 4 + BLOCKS)
    assert "facts.oft_sent of eip155:1: 0 added, 0 removed, 16 changed" in found["found"]
    assert wrong(engine) == BLOCKS


@pytest.mark.usefixtures("decoded_wrong")
def test_swap_true_swaps_tables(revise, engine):
    redecode.start(engine, NETWORK, [ETHEREUM])
    assert revise(swap={"swap": True}).success
    assert wrong(engine) == 0
    assert differences(engine, NETWORK) == []
    again = revise()
    assert found_of(again)["found"] == "no differences"


def test_without_redecode_it_refolds_projections(revise, engine, indexer_engine):
    chain = FakeChain(NETWORK)
    chain.grow(BLOCKS)
    ingest_once(indexer_engine, chain, NETWORK)
    with engine.begin() as conn:
        conn.execute(update(movements).values(amount_in=1))
    assert found_of(revise())["changed"] == BLOCKS
    assert differences(engine, NETWORK) != []
    assert revise(swap={"swap": True}).success
    assert differences(engine, NETWORK) == []


def test_fill_report_has_range_and_time_left(instance):
    now = [0.0]

    @dg.op
    def step(context: dg.OpExecutionContext) -> None:
        first = RedecodeProgress(ETHEREUM, Height(100), Height(1_000))
        with FillReporter(context, 10.0, lambda: now[0]) as report:
            for now[0], height in ((0.0, 100), (5.0, 200), (10.0, 300), (11.0, 1_000)):
                report(replace(first, height=Height(height)))
            report(RedecodeProgress(ChainId("eip155:2"), Height(7), Height(7)))

    @dg.job
    def job() -> None:
        step()

    reports = [one.metadata for one in observations(job.execute_in_process(instance=instance))]
    assert [one["revised_to"].value for one in reports] == [100, 300, 1_000, 7]
    assert [one["seconds_left"].value for one in reports] == [None, 35, 0, None]
