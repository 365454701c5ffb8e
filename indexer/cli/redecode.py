"""`isthmus redecode …`: decodes raw facts again beside the live tables (docs/operations.md)."""

import sys
from typing import TYPE_CHECKING

import click

from indexer.cli.base import operator_command

if TYPE_CHECKING:
    from indexer.ingest.redecode.run import SwapCheck


@click.group()
def redecode() -> None:
    """Decode raw facts again beside the live tables, compare, swap."""


@redecode.command()
@click.argument("chains", nargs=-1, required=True)
@operator_command
def start(chains: tuple[str, ...]) -> int:
    """Create the tables beside the live ones (as database owner)."""
    from indexer.config.settings import load_settings
    from indexer.config.warehouse import database_url
    from indexer.ingest.redecode import run
    from warehouse_schema.engine import make_engine
    from warehouse_schema.identifiers import ChainId

    settings = load_settings()
    known = [settings.network.chain(ChainId(each)).id for each in chains]
    run.start(make_engine(database_url(settings)), settings.network, known)
    print(f"a redecode of {', '.join(known)} is under way")
    return 0


@redecode.command()
@operator_command
def fill() -> int:
    """Decode raw facts again; continues where it stopped."""
    from indexer.config.warehouse import open_warehouse
    from indexer.ingest.redecode import run

    with open_warehouse() as (settings, engine):
        for progress in run.fill_all(engine, settings.network):
            print(
                f"{progress.chain}: decoded again to {progress.height} of {progress.final}",
                flush=True,
            )
    return 0


@redecode.command()
@operator_command
def check() -> int:
    """Show what a swap would change."""
    from indexer.config.warehouse import open_warehouse
    from indexer.ingest.redecode import run

    with open_warehouse() as (settings, engine):
        _print_check(run.check(engine, settings.network))
    return 0


def _print_check(found: "SwapCheck") -> None:
    for progress in found.filled:
        print(f"{progress.chain}: decoded again to {progress.height} of {progress.final}")
    for line in list(found.lines()) or ["no differences"]:
        print(line)


@redecode.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
@operator_command
def swap(*, yes: bool) -> int:
    """Check, ask, and put the new tables in the live ones' place."""
    from indexer.config.warehouse import open_warehouse
    from indexer.ingest.redecode import run

    with open_warehouse() as (settings, engine):
        if not yes:
            _print_check(run.check(engine, settings.network))
            print("Swap the tables? Type yes: ", end="", flush=True)
            if sys.stdin.readline().strip() != "yes":
                print("nothing was changed")
                return 1
        for line in run.swap(engine, settings.network).lines():
            print(line)
    return 0


@redecode.command()
@operator_command
def abandon() -> int:
    """Drop what start created (as database owner)."""
    from indexer.config.settings import load_settings
    from indexer.config.warehouse import database_url
    from indexer.ingest.redecode import run
    from warehouse_schema.engine import make_engine

    run.abandon(make_engine(database_url(load_settings())))
    print("no redecode is under way")
    return 0
