"""`python -m indexer rescan`: a final range, read again from another node and compared."""

import argparse
from contextlib import closing

from indexer.chains.evm.reader import EvmReader
from indexer.chains.stellar.reader import StellarReader
from indexer.cli.backfill import add_range, chain_of_range
from indexer.config.networks import EvmChain
from indexer.config.settings import Settings
from indexer.config.warehouse import open_engine
from indexer.decode.evm import event_topics
from indexer.facts.cursors import read_cursor
from indexer.ingest.ranges import MAX_BLOCKS
from indexer.ingest.rescan import rescan
from warehouse_schema.identifiers import Height


def add_rescan(parser: argparse.ArgumentParser) -> None:
    """The command's arguments, and what runs it."""
    add_range(parser)
    parser.add_argument(
        "--node",
        required=True,
        action="append",
        help="URL of a node of another operator than the followed one; more than one is asked "
        "in turn",
    )
    parser.set_defaults(run=_run, parser=parser)


def _run(settings: Settings, arguments: argparse.Namespace) -> int:
    """1 where stored facts and the node differ: each range with a difference is an open alarm."""
    parser: argparse.ArgumentParser = arguments.parser
    chain = chain_of_range(settings, parser, arguments)
    engine = open_engine(settings, "indexer")
    reader = (
        EvmReader(chain, arguments.node, event_topics)
        if isinstance(chain, EvmChain)
        else StellarReader(chain, arguments.node)
    )
    differing = 0
    with closing(reader):
        try:
            with engine.begin() as conn:
                cursor = read_cursor(conn, chain.id)
            final = -1 if cursor is None else cursor.height - chain.confirmations
            if arguments.last > final:
                parser.error(
                    f"argument --to: {chain.id} is stored and final up to {max(final, 0)}, "
                    f"not to {arguments.last}"
                )
            reader.check_identity()
            for first in range(arguments.first, arguments.last + 1, MAX_BLOCKS):
                last = Height(min(arguments.last, first + MAX_BLOCKS - 1))
                found = rescan(engine, reader.read, chain, Height(first), last)
                print(f"{chain.id} {first}–{last}: {len(found) or 'no'} differences", flush=True)
                for each in found:
                    print(f"  {each}")
                differing += bool(found)
        finally:
            engine.dispose()
    return 1 if differing else 0
