"""`isthmus backfill` and `rescan`: past blocks or ledgers of a chain."""

import sys
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING

import click

from indexer.cli.base import INTERRUPTED, importing, operator_command

if TYPE_CHECKING:
    from indexer.config.networks import Chain, Network


def _height_range(command: Callable[..., int]) -> Callable[..., int]:
    """Options `--chain`, `--from` and `--to`."""
    for name, which in (("to", "last"), ("from", "first")):
        command = click.option(
            f"--{name}",
            which,
            required=True,
            type=click.IntRange(min=0),
            metavar="HEIGHT",
            help=f"{which.capitalize()} block or ledger, included.",
        )(command)
    return click.option("--chain", required=True, help="CAIP-2 id, such as eip155:1.")(command)


def _chain_of_range(network: "Network", chain_id: str, first: int, last: int) -> "Chain":
    """The chain of a range. Raises `BadParameter` for a range or chain that cannot be."""
    from indexer.errors import ConfigurationError
    from warehouse_schema.identifiers import ChainId

    if last < first:
        raise click.BadParameter(f"{last} is below --from {first}", param_hint="--to")
    try:
        return network.chain(ChainId(chain_id))
    except ConfigurationError as error:
        raise click.BadParameter(str(error), param_hint="--chain") from error


@click.command()
@_height_range
@operator_command
def backfill(chain: str, first: int, last: int) -> int:
    """Read a past range of a chain, or read it again."""
    from indexer.cli.memory import use_little_memory

    use_little_memory()
    with importing():
        from indexer.cli.progress_bar import Bar
        from indexer.config.warehouse import open_warehouse
        from indexer.errors import RangeRefused
        from indexer.ingest.backfill import backfill as read_range
        from indexer.ingest.readers import open_reader
        from warehouse_schema.identifiers import Height

    try:
        with open_warehouse() as (settings, engine):
            named = _chain_of_range(settings.network, chain, first, last)
            with closing(open_reader(settings, named)) as reader, Bar(sys.stdout) as bar:
                read_range(engine, reader, settings.network, Height(first), Height(last), bar)
    except RangeRefused as error:
        raise click.BadParameter(str(error), param_hint="--to") from error
    except KeyboardInterrupt:
        print("stopped; run the same command to resume", file=sys.stderr)
        return INTERRUPTED
    print(f"{chain}: {first} to {last} is in")
    return 0


@click.command()
@_height_range
@click.option(
    "--node",
    "nodes",
    required=True,
    multiple=True,
    help="URL of a node of another operator than the followed one; several are asked in turn.",
)
@operator_command
def rescan(chain: str, first: int, last: int, nodes: tuple[str, ...]) -> int:
    """Compare a past range with another operator's node; 1 on a difference."""
    from indexer.chains.evm.reader import EvmReader
    from indexer.chains.finality import final_by_depth
    from indexer.chains.stellar.reader import StellarReader
    from indexer.config.networks import EvmChain
    from indexer.config.warehouse import open_warehouse
    from indexer.decode.evm import event_topics
    from indexer.facts.cursors import read_cursor
    from indexer.ingest.ranges import MAX_BLOCKS
    from indexer.ingest.rescan import rescan as compare
    from warehouse_schema.identifiers import Height

    with open_warehouse() as (settings, engine):
        named = _chain_of_range(settings.network, chain, first, last)
        with engine.begin() as conn:
            cursor = read_cursor(conn, named.id)
        final = -1 if cursor is None else final_by_depth(named, cursor.height)
        if last > final:
            raise click.BadParameter(
                f"{chain} is stored and final up to {max(final, 0)}, not to {last}",
                param_hint="--to",
            )
        reader = (
            EvmReader(named, nodes, event_topics)
            if isinstance(named, EvmChain)
            else StellarReader(named, nodes)
        )
        differing = 0
        with closing(reader):
            reader.check_identity()
            for begin in range(first, last + 1, MAX_BLOCKS):
                end = Height(min(last, begin + MAX_BLOCKS - 1))
                found = compare(engine, reader.read, named, Height(begin), end)
                print(f"{chain} {begin}–{end}: {len(found) or 'no'} differences", flush=True)
                for each in found:
                    print(f"  {each}")
                differing += bool(found)
    return 1 if differing else 0
