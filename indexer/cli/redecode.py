"""`python -m indexer revise …`: the command line of a revision. docs/operations.md walks
through one.
"""

import argparse
import sys

from indexer.config.settings import Settings
from indexer.config.warehouse import database_url, open_engine
from indexer.ingest.redecode import run
from warehouse_schema.engine import make_engine
from warehouse_schema.identifiers import ChainId


def add_redecode(parser: argparse.ArgumentParser) -> None:
    """The steps of a revision, each with what runs it."""
    steps = parser.add_subparsers(dest="step", required=True)
    begin = steps.add_parser("start", help="make room beside the live tables (database owner)")
    begin.add_argument("chains", nargs="+", help="chains to decode anew")
    begin.set_defaults(run=_start)
    fill = steps.add_parser("fill", help="decode raw facts anew; goes on where it stopped")
    fill.set_defaults(run=_fill)
    check = steps.add_parser("check", help="what a swap would change")
    check.set_defaults(run=_check)
    into_place = steps.add_parser("swap", help="check, ask, and put it in the live one's place")
    into_place.add_argument("--yes", action="store_true", help="do not ask")
    into_place.set_defaults(run=_swap)
    abandon = steps.add_parser("abandon", help="drop what start made (database owner)")
    abandon.set_defaults(run=_abandon)


def _start(settings: Settings, arguments: argparse.Namespace) -> int:
    chains = [settings.network.chain(ChainId(each)).id for each in arguments.chains]
    run.start(make_engine(database_url(settings)), settings.network, chains)
    print(f"a revision of {', '.join(chains)} is under way")
    return 0


def _fill(settings: Settings, _: argparse.Namespace) -> int:
    engine = open_engine(settings, "indexer")
    for progress in run.fill_all(engine, settings.network):
        print(
            f"{progress.chain}: decoded anew to {progress.height} of {progress.final}", flush=True
        )
    return 0


def _check(settings: Settings, _: argparse.Namespace) -> int:
    _print_check(run.check(open_engine(settings, "indexer"), settings.network))
    return 0


def _print_check(found: run.SwapCheck) -> None:
    for progress in found.filled:
        print(f"{progress.chain}: decoded anew to {progress.height} of {progress.final}")
    for line in list(found.lines()) or ["no differences"]:
        print(line)


def _swap(settings: Settings, arguments: argparse.Namespace) -> int:
    engine = open_engine(settings, "indexer")
    if not arguments.yes:
        _print_check(run.check(engine, settings.network))
        print("Is this what is wanted? Type yes to swap: ", end="", flush=True)
        if sys.stdin.readline().strip() != "yes":
            print("nothing was changed")
            return 1
    swapped = run.swap(engine, settings.network)
    for line in swapped.lines():
        print(line)
    return 0


def _abandon(settings: Settings, _: argparse.Namespace) -> int:
    run.abandon(make_engine(database_url(settings)))
    print("no revision is under way")
    return 0
