"""A warehouse with the demo's generated history, at a fixed end."""

from datetime import date

from sqlalchemy.engine import URL

from devnet.history.write import DAYS, HistoryReport, write_history
from indexer.analytics.daily import FIGURES, compute
from indexer.chains.raw import Block
from indexer.config.networks import load_network
from indexer.facts.days import start_of
from warehouse_schema.engine import make_engine
from warehouse_schema.identifiers import BlockHash, ChainId, Height, UnixSeconds

NETWORK = load_network("devnet")
OPEN_DAY = date(2026, 11, 24)
"""The day after the last of the history."""
SEED = 7


def tops() -> dict[ChainId, Block]:
    """Top blocks of both chains, at one second of the open day."""
    time = UnixSeconds(start_of(OPEN_DAY) + 1)
    hashes = {chain.id: "0x" + "ee" * 32 for chain in NETWORK.evm}
    hashes[NETWORK.stellar.id] = "ee" * 32
    return {
        chain: Block(chain, Height(1_000_000), BlockHash(top), BlockHash(top), time)
        for chain, top in hashes.items()
    }


def fill_with_history(url: URL, *, seed: int = SEED, days: int = DAYS) -> HistoryReport:
    """Write the history and its daily figures into a migrated warehouse."""
    owner, indexer = make_engine(url), make_engine(url, role="indexer")
    try:
        report = write_history(owner, indexer, NETWORK, tops(), seed=seed, days=days)
        for figure in FIGURES:
            for _ in compute(indexer, NETWORK, figure, report.first, report.last):
                pass
        return report
    finally:
        indexer.dispose()
        owner.dispose()
