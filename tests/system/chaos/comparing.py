"""The straight run, and holding a run's database against it."""

from sqlalchemy.engine import make_url

from indexer.chains.evm.reader import EvmReader
from indexer.chains.ports import ChainReader
from indexer.chains.stellar.reader import StellarReader
from indexer.config.networks import Network, load_network
from indexer.decode.evm import event_topics
from tests.factories.ingesting import ingest_once
from tests.system.chaos.chains import Chains
from tests.system.chaos.contents import (
    Contents,
    differences,
    finality_problems,
    orphan_problems,
    read_contents,
    read_orphans,
)
from tests.system.chaos.outcome import Outcome
from warehouse_schema.engine import make_engine, warehouse_url


def drain_straight(chains: Chains, url: str) -> None:
    """Both chains from their beginnings to their ends, once, with nothing in the way."""
    network = load_network("devnet")
    engine = make_engine(warehouse_url(url), role="indexer", pool_size=1)
    try:
        for reader in _readers(chains, network):
            try:
                while ingest_once(engine, reader, network) is not None:
                    pass
            finally:
                reader.close()
    finally:
        engine.dispose()


def _readers(chains: Chains, network: Network) -> tuple[ChainReader, ...]:
    [evm] = network.evm
    return (
        EvmReader(evm, [chains.evm_url], event_topics, timeout=30.0),
        StellarReader(network.stellar, [chains.stellar_url]),
    )


def compare(outcome: Outcome, chains: Chains, url: str, straight_url: str) -> Contents:
    """Note every difference of the run's database from the straight run's; the latter's rows."""
    straight = read_contents(straight_url)
    for table in ("facts.evm_logs", "facts.stellar_events", "projections.movements"):
        if not straight.rows[table]:
            raise AssertionError(f"the straight run has nothing in {table}: nothing was compared")
    orphans = read_orphans(url)
    outcome.rows = len(straight)
    outcome.orphans = len(orphans)
    outcome.differences += differences(read_contents(url), straight)
    outcome.differences += finality_problems(url, chains.tips())
    outcome.differences += orphan_problems(orphans, chains.hashes())
    return straight


def public(url: str) -> str:
    """A URL without its password."""
    return make_url(url).render_as_string(hide_password=True)
