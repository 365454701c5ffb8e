"""`isthmus redecode …`: decodes raw facts again beside the live tables (docs/operations.md)."""

import sys
from collections.abc import Sequence

from indexer.config.settings import load_settings
from indexer.config.warehouse import database_url, open_engine
from indexer.ingest.redecode import run
from warehouse_schema.engine import make_engine
from warehouse_schema.identifiers import ChainId


def start(chain_ids: Sequence[str]) -> int:
    """Create the tables beside the live ones."""
    settings = load_settings()
    chains = [settings.network.chain(ChainId(each)).id for each in chain_ids]
    run.start(make_engine(database_url(settings)), settings.network, chains)
    print(f"a revision of {', '.join(chains)} is under way")
    return 0


def fill() -> int:
    """Decode raw facts again, from where it stopped."""
    settings = load_settings()
    engine = open_engine(settings, "indexer")
    for progress in run.fill_all(engine, settings.network):
        print(
            f"{progress.chain}: decoded anew to {progress.height} of {progress.final}", flush=True
        )
    return 0


def check() -> int:
    """Print what a swap would change."""
    settings = load_settings()
    _print_check(run.check(open_engine(settings, "indexer"), settings.network))
    return 0


def _print_check(found: run.SwapCheck) -> None:
    for progress in found.filled:
        print(f"{progress.chain}: decoded anew to {progress.height} of {progress.final}")
    for line in list(found.lines()) or ["no differences"]:
        print(line)


def swap(*, asks: bool) -> int:
    """Put the new tables in the live ones' place; 1 if the operator declines."""
    settings = load_settings()
    engine = open_engine(settings, "indexer")
    if asks:
        _print_check(run.check(engine, settings.network))
        print("Is this what is wanted? Type yes to swap: ", end="", flush=True)
        if sys.stdin.readline().strip() != "yes":
            print("nothing was changed")
            return 1
    swapped = run.swap(engine, settings.network)
    for line in swapped.lines():
        print(line)
    return 0


def abandon() -> int:
    """Drop what `start` created."""
    settings = load_settings()
    run.abandon(make_engine(database_url(settings)))
    print("no revision is under way")
    return 0
