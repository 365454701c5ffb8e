"""Ledgers in quarantine: the check that names them, and the follower's retry."""

import dagster as dg
import pytest

from indexer.chains.ports import UnreadLedger
from indexer.config.networks import StellarChain
from indexer.facts import quarantine, store
from pipelines.defs.check_jobs import CHECK_FACTS, check_jobs
from pipelines.defs.facts import chain
from pipelines.defs.facts.chain import chain_facts
from pipelines.defs.names import events_key
from pipelines.long_run import CatchUpConfig
from tests.pipelines.factories import QuietChain, make_block, nodes_of, warehouse_of


@pytest.fixture
def stellar(settings) -> StellarChain:
    return settings.network.stellar


@pytest.fixture
def run(settings, instance, indexer_engine, stellar):
    """Call it to run a job of the Stellar chain."""
    definitions = dg.Definitions.merge(
        chain_facts(settings.network, stellar),
        check_jobs([stellar]),
        dg.Definitions(
            resources={
                "warehouse": warehouse_of(indexer_engine),
                "nodes": nodes_of(QuietChain(top=9, chain=stellar.id)),
            }
        ),
    )

    def execute(job: str, **options) -> dg.ExecuteInProcessResult:
        return definitions.resolve_job_def(job).execute_in_process(instance=instance, **options)

    return execute


def all_decoded(result: dg.ExecuteInProcessResult, chain: StellarChain):
    (found,) = [e for e in result.get_asset_check_evaluations() if e.check_name == "all_decoded"]
    assert found.asset_key == events_key(chain.id)
    return found


def test_quarantined_ledger_is_a_warning_that_names_it(run, indexer_engine, stellar):
    assert all_decoded(run(CHECK_FACTS, raise_on_error=False), stellar).passed
    block = make_block(7, stellar.id)
    with indexer_engine.begin() as conn:
        store.append(conn, [block], [])
        quarantine.add_ledgers(conn, [UnreadLedger(block, "99 at 4", b"raw", "a lake")], "a build")
    found = all_decoded(run(CHECK_FACTS, raise_on_error=False), stellar)
    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert found.metadata["found"].value == "- 7 (undecodable): 99 at 4"


def test_follower_retries_quarantine_before_following(run, settings, stellar, monkeypatch):
    done = []

    def retry(engine, network, chain):
        done.append(chain)

    def follow(engine, reader, network, **_):
        done.append("follows")

    monkeypatch.setattr("indexer.ingest.quarantine.retry_untried", retry)
    monkeypatch.setattr(chain, "follow", follow)
    step = chain_facts(settings.network, stellar).assets[0].op.name
    job = next(iter(chain_facts(settings.network, stellar).jobs or ())).name
    assert run(job, run_config=dg.RunConfig(ops={step: CatchUpConfig()})).success
    assert done == [stellar.id, "follows"]
