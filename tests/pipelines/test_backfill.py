"""The backfill job: what it reads, what it says, where another attempt goes on."""

import dagster as dg
import pytest
from dagster._core.test_utils import create_run_for_test
from sqlalchemy import func, select

from indexer.backfill import BackfillProgress
from indexer.drain import drain_once
from indexer.errors import NodeUnavailable
from pipelines.defs.backfill import (
    BACKFILL,
    DONE_TAG,
    BackfillConfig,
    BackfillReporter,
    backfills,
    resume_at,
)
from tests.pipelines.factories import EVM, QuietChain, nodes_of, warehouse_of
from warehouse_schema.facts import blocks
from warehouse_schema.identifiers import Height


@pytest.fixture
def backfill(settings, instance, indexer_engine):
    """Call it to run the job once over a reader."""

    def run(reader: QuietChain, **config) -> dg.ExecuteInProcessResult:
        definitions = dg.Definitions.merge(
            backfills(settings.network),
            dg.Definitions(
                resources={"warehouse": warehouse_of(indexer_engine), "nodes": nodes_of(reader)}
            ),
        )
        return definitions.resolve_job_def(BACKFILL).execute_in_process(
            instance=instance,
            raise_on_error=False,
            run_config=dg.RunConfig(ops={"read_range": BackfillConfig(**config)}),
        )

    return run


def heights(engine):
    with engine.connect() as conn:
        return tuple(
            conn.execute(select(func.min(blocks.c.height), func.max(blocks.c.height))).one()
        )


def observations(result):
    return [
        {
            key: value.value
            for key, value in e.asset_observation_data.asset_observation.metadata.items()
        }
        for e in result.all_events
        if e.event_type == dg.DagsterEventType.ASSET_OBSERVATION
    ]


def test_a_range_is_read_and_its_end_reported(backfill, indexer_engine):
    result = backfill(QuietChain(top=900), chain=EVM, first=100, last=799)
    assert result.success
    assert heights(indexer_engine) == (100, 799)
    (last,) = observations(result)
    assert (last["backfilled_percent"], last["backfilled_to"]) == (100.0, 799)


def test_each_report_says_how_far_it_is(backfill):
    chain = {"chain": EVM, "first": 0, "last": 799}
    said = observations(backfill(QuietChain(top=900), report_seconds=0.000_001, **chain))
    assert [one["backfilled_percent"] for one in said] == [25.0, 50.0, 75.0, 100.0]


def test_a_range_that_the_follower_still_writes_is_refused(backfill, indexer_engine, settings):
    drain_once(indexer_engine, QuietChain(top=100), settings.network)
    result = backfill(QuietChain(top=900), chain=EVM, first=0, last=90)
    (failed,) = [e for e in result.all_events if e.is_step_failure]
    reason = failed.step_failure_data.user_failure_data.metadata["reason"].value
    assert "a backfill may reach up to 36, not 90" in reason


def test_a_chain_that_is_not_in_the_network_is_refused_by_name(backfill, settings, instance):
    definitions = backfills(settings.network)
    job = dg.Definitions.merge(definitions, dg.Definitions(resources=_real_doors()))
    result = job.resolve_job_def(BACKFILL).execute_in_process(
        instance=instance,
        raise_on_error=False,
        run_config=dg.RunConfig(
            ops={"read_range": BackfillConfig(chain="eip155:2", first=0, last=1)}
        ),
    )
    (failed,) = [e for e in result.all_events if e.is_step_failure]
    metadata = failed.step_failure_data.user_failure_data.metadata
    assert metadata["kind"].value == "NetworkFileError"
    assert "has no chain eip155:2" in metadata["reason"].value


def _real_doors():
    from pipelines.defs.resources import ChainNodes

    return {"warehouse": warehouse_of(None), "nodes": ChainNodes()}


def test_another_attempt_goes_on_where_the_last_report_stood(backfill, indexer_engine):
    class Faltering(QuietChain):
        def __init__(self, top):
            super().__init__(top)
            self.asked = []

        def read(self, first, last, watched):
            self.asked.append(first)
            if self.asked == [0, 200]:
                raise NodeUnavailable("no answer", retry_after=0.0)
            return super().read(first, last, watched)

    reader = Faltering(top=900)
    assert backfill(reader, chain=EVM, first=0, last=399).success
    assert reader.asked == [0, 200, 200]
    assert heights(indexer_engine) == (0, 399)


def test_a_re_execution_begins_from_the_beginning(instance):
    first = create_run_for_test(instance)
    tags = {DONE_TAG: f"{first.run_id} 499"}
    instance.add_run_tags(first.run_id, tags)
    assert resume_at(instance.get_run_by_id(first.run_id), 100) == 500
    assert resume_at(instance.get_run_by_id(first.run_id), 900) == 900
    assert resume_at(create_run_for_test(instance, tags=tags), 100) == 100


def test_the_rate_is_of_this_attempt(instance):
    lines = []

    @dg.op
    def step(context: dg.OpExecutionContext) -> None:
        now = [0.0]
        with BackfillReporter(context, 5.0, lambda: now[0]) as report:
            for now[0], done in ((2.0, 199), (10.0, 399)):
                report(BackfillProgress(EVM, Height(0), Height(799), Height(done), 0))
                lines.append(done)

    @dg.job
    def job() -> None:
        step()

    (said,) = observations(job.execute_in_process(instance=instance))
    assert (said["backfilled_to"], said["blocks_per_second"]) == (399, 40.0)
    assert lines == [199, 399]
