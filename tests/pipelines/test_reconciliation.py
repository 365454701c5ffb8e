"""The reconciliation run: flows, checks and their sentences."""

import dagster as dg
import pytest
from sqlalchemy import Engine, delete

from pipelines.defs.names import RECONCILIATION
from pipelines.defs.projections.reconciliation import RECONCILE_JOB, reconciliations
from tests.factories.stage_facts import DIRECT, bring_in, burn, mint
from tests.factories.transfers import NETWORK
from tests.pipelines.factories import warehouse_of
from warehouse_schema.events import cctp_burns


@pytest.fixture
def run(instance, indexer_engine):
    definitions = dg.Definitions.merge(
        reconciliations(NETWORK),
        dg.Definitions(resources={"warehouse": warehouse_of(indexer_engine)}),
    )
    job = definitions.resolve_job_def(RECONCILE_JOB)
    return lambda: job.execute_in_process(instance=instance)


def test_run_shows_flows_and_passes_every_check(run, engine: Engine):
    with engine.begin() as conn:
        bring_in(conn, *burn(DIRECT, 100, "a"))
        bring_in(conn, *mint(DIRECT, 200))
    result = run()
    assert {(e.check_name, e.passed) for e in result.get_asset_check_evaluations()} == {
        ("movements_hold_all_facts", True),
        ("movements_keep_their_amount", True),
        ("deposit_addresses_are_empty", True),
        ("transfers_move_on", True),
    }
    (shown,) = result.asset_materializations_for_node(RECONCILIATION.to_python_identifier())
    table = shown.metadata["flows"].value
    each = DIRECT.amount_in * 10
    assert f"| cctp | eip155:1 | stellar:pubnet | {each} (1) | {each} (1) | 0 |" in table


def test_missing_fact_fails_its_check_with_a_sentence(run, engine: Engine):
    with engine.begin() as conn:
        bring_in(conn, *burn(DIRECT, 100, "a"))
        conn.execute(delete(cctp_burns))
    results = {e.check_name: e for e in run().get_asset_check_evaluations()}
    failed = {name for name, evaluation in results.items() if not evaluation.passed}
    assert failed == {"movements_hold_all_facts"}
    sentence = results["movements_hold_all_facts"].metadata["found"].value
    assert sentence.startswith("- eip155:1: the facts say 0 base units burned")
