"""The checks: what fails them, how gravely, and that they run on a real warehouse."""

import dagster as dg
import pytest
from sqlalchemy import delete, insert, update

from indexer.drain import drain_once
from pipelines.defs.facts.chain import chain_facts
from pipelines.defs.facts.checks import late_seconds, lateness, verdict
from pipelines.defs.facts.names import blocks_key, events_key
from pipelines.defs.projections.assets import REBUILD_JOB, projections
from pipelines.defs.projections.names import ORDER_BOOK, TRANSFER_PROGRESS
from pipelines.defs.watch import CHECK_FACTS, CHECK_PROJECTIONS, watch
from tests.pipelines.factories import EVM, QuietChain, make_status, nodes_of, warehouse_of
from warehouse_schema.facts import alarms, blocks, cursors
from warehouse_schema.projections import transfer_progress


@pytest.fixture
def check(settings, instance, indexer_engine):
    """Call it for the results of one job's checks, by name, on the warehouse as it is."""
    chain = settings.network.chain(EVM)
    definitions = dg.Definitions.merge(
        chain_facts(settings.network, chain),
        projections(settings.network, [chain]),
        watch([chain]),
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
def ingested(indexer_engine, settings):
    drain_once(indexer_engine, QuietChain(top=9), settings.network)


@pytest.mark.usefixtures("ingested")
def test_a_sound_chain_passes(check):
    found = check()
    assert {name for _, name in found} == {"blocks_join", "no_open_alarms", "keeps_up"}
    assert all(evaluation.passed for evaluation in found.values())


@pytest.mark.usefixtures("ingested")
def test_a_hole_between_blocks_is_an_error(check, engine):
    with engine.begin() as conn:
        conn.execute(delete(blocks).where(blocks.c.height == 5))
    evaluation = check()[(blocks_key(EVM), "blocks_join")]
    assert (evaluation.passed, evaluation.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert evaluation.metadata["found"].value == "- eip155:31337: no block between 4 and 6"


@pytest.mark.usefixtures("ingested")
def test_an_open_alarm_is_a_warning_with_its_sentence(check, engine):
    row = {"chain": EVM, "kind": "undecodable", "subject": "log 7", "detail": "3 topics, not 4"}
    with engine.begin() as conn:
        conn.execute(insert(alarms).values(row))
    evaluation = check()[(events_key(EVM), "no_open_alarms")]
    assert (evaluation.passed, evaluation.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert evaluation.metadata["found"].value == "- undecodable log 7: 3 topics, not 4"


@pytest.mark.usefixtures("ingested")
def test_a_chain_on_hold_is_an_error(check, engine):
    with engine.begin() as conn:
        conn.execute(update(cursors).values(held="reorg of 99 blocks"))
    evaluation = check()[(blocks_key(EVM), "keeps_up")]
    assert (evaluation.passed, evaluation.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert evaluation.metadata["found"].value == "- on hold: reorg of 99 blocks"


@pytest.mark.parametrize(
    ("status", "late"),
    [
        ({"lag_seconds": 100, "idle_seconds": 100.0}, []),
        ({"lag_seconds": 101}, ["eip155:31337: 101 s behind its head, 2 blocks"]),
        ({"idle_seconds": 101.0}, ["eip155:31337: nothing new for 101 s"]),
        ({"height": None}, ["eip155:31337: nothing ingested yet"]),
    ],
)
def test_a_chain_is_late_behind_its_head_or_without_news(status, late):
    assert lateness(make_status(**status), limit=100) == late


def test_slow_chains_are_late_later(settings):
    assert late_seconds(settings.network.chain(EVM)) == 60 + 20 * 1


def test_a_verdict_counts_its_problems():
    assert verdict([]).metadata["problems"].value == 0
    assert verdict(["one", "two"]).metadata["problems"].value == 2


@pytest.mark.usefixtures("ingested")
def test_projections_that_differ_from_a_refold_are_an_error_until_they_are_rebuilt(check, engine):
    passed = check(CHECK_PROJECTIONS)
    assert [(e.asset_key, e.passed) for e in passed.values()] == [
        (ORDER_BOOK, True),
        (TRANSFER_PROGRESS, True),
    ]
    stray = {"id": "cctp:0x1:0", "mechanism": "cctp", "group_key": "0x1", "stage": "ATTESTING"}
    with engine.begin() as conn:
        conn.execute(insert(transfer_progress).values(**stray, source_tx="0xabc"))
    broken = check(CHECK_PROJECTIONS)[(TRANSFER_PROGRESS, "refold_equals_stored")]
    assert (broken.passed, broken.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert "movement cctp:0x1:0" in broken.metadata["found"].value
    assert all(evaluation.passed for evaluation in check(REBUILD_JOB).values())
