"""`isthmus rescan`: reads a final range again from another node and compares."""

from collections.abc import Sequence
from contextlib import closing

import click

from indexer.chains.evm.reader import EvmReader
from indexer.chains.finality import final_by_depth
from indexer.chains.stellar.reader import StellarReader
from indexer.cli.backfill import chain_of_range
from indexer.config.networks import EvmChain
from indexer.config.settings import load_settings
from indexer.config.warehouse import open_engine
from indexer.decode.evm import event_topics
from indexer.facts.cursors import read_cursor
from indexer.ingest.ranges import MAX_BLOCKS
from indexer.ingest.rescan import rescan
from warehouse_schema.identifiers import Height


def run(chain_id: str, start: int, end: int, nodes: Sequence[str]) -> int:
    """1 where stored facts and the node differ: each range with a difference is an open alarm."""
    settings = load_settings()
    chain = chain_of_range(settings, chain_id, start, end)
    engine = open_engine(settings, "indexer")
    reader = (
        EvmReader(chain, nodes, event_topics)
        if isinstance(chain, EvmChain)
        else StellarReader(chain, nodes)
    )
    differing = 0
    with closing(reader):
        try:
            with engine.begin() as conn:
                cursor = read_cursor(conn, chain.id)
            final = -1 if cursor is None else final_by_depth(chain, cursor.height)
            if end > final:
                raise click.BadParameter(
                    f"{chain.id} is stored and final up to {max(final, 0)}, not to {end}",
                    param_hint="--to",
                )
            reader.check_identity()
            for first in range(start, end + 1, MAX_BLOCKS):
                last = Height(min(end, first + MAX_BLOCKS - 1))
                found = rescan(engine, reader.read, chain, Height(first), last)
                print(f"{chain.id} {first}–{last}: {len(found) or 'no'} differences", flush=True)
                for each in found:
                    print(f"  {each}")
                differing += bool(found)
        finally:
            engine.dispose()
    return 1 if differing else 0
