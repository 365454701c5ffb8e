"""`python -m indexer`: follow a chain without the orchestrator, look, check, rebuild, revise.

python -m indexer follow eip155:1
python -m indexer status
python -m indexer check
python -m indexer rebuild
python -m indexer revise start eip155:1
python -m indexer revise fill | check | swap | abandon
"""

import argparse
import logging
import signal
import sys
import threading
from collections.abc import Callable, Mapping

from indexer import revision
from indexer.drain import Progress, follow
from indexer.errors import IndexerError
from indexer.facts.checks import blocks_join, open_alarms
from indexer.facts.status import chain_status
from indexer.projections.rebuild import differences, rebuild
from indexer.readers import open_reader
from indexer.settings import Settings, load_settings
from indexer.warehouse import database_url, open_engine
from warehouse_schema.engine import make_engine
from warehouse_schema.identifiers import parse_chain_id


def main() -> int:
    """Run one command; 0 when all is well, 1 when something is wrong, 2 for a bad call."""
    arguments = _arguments()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        settings = load_settings()
        if arguments.command == "follow":
            return _follow(settings, arguments.chain)
        if arguments.command == "status":
            return _status(settings)
        if arguments.command == "check":
            return _check(settings)
        if arguments.command == "revise":
            return _REVISE[arguments.step](settings, arguments)
        return _rebuild(settings)
    except IndexerError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m indexer", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    chain = commands.add_parser("follow", help="follow one chain until interrupted")
    chain.add_argument("chain", type=parse_chain_id, help="CAIP-2 id, such as eip155:1")
    commands.add_parser("status", help="how far each chain is, and what stands against it")
    commands.add_parser("check", help="do facts join, does a refold equal what is stored")
    commands.add_parser("rebuild", help="write the projections anew from the facts")
    _add_revise(commands.add_parser("revise", help="bring in new decoders, or projections"))
    return parser.parse_args()


def _follow(settings: Settings, chain_id: str) -> int:
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    chain = settings.network.chain(parse_chain_id(chain_id))
    reader = open_reader(settings, chain)
    engine = open_engine(settings, "indexer")
    try:
        follow(
            engine, reader, settings.network, should_stop=stop.is_set, on_progress=_print_progress
        )
    finally:
        reader.close()
        engine.dispose()
    return 0


def _print_progress(progress: Progress) -> None:
    print(
        f"{progress.chain} at {progress.height}, {progress.lag_blocks} blocks and "
        f"{progress.lag_seconds} s behind, {progress.events} events",
        flush=True,
    )


def _status(settings: Settings) -> int:
    engine = open_engine(settings, "indexer")
    well = True
    for status in chain_status(engine, settings.network):
        followed = bool(settings.nodes[status.chain])
        if status.height is None:
            print(f"{status.chain}: nothing ingested" + ("" if followed else ", no node set"))
            continue
        print(
            f"{status.chain}: at {status.height} of {status.head_height}, "
            f"{status.lag_seconds} s behind, {status.open_alarms} open alarms"
            + (f", ON HOLD: {status.held}" if status.held else "")
        )
        well = well and status.held is None and status.open_alarms == 0
    return 0 if well else 1


def _check(settings: Settings) -> int:
    engine = open_engine(settings, "indexer")
    problems = differences(engine, settings.network)
    for chain in settings.network.chains:
        problems += blocks_join(engine, chain.id) + open_alarms(engine, chain.id)
    for problem in problems:
        print(problem)
    print("no differences" if not problems else f"{len(problems)} problems")
    return 1 if problems else 0


def _rebuild(settings: Settings) -> int:
    report = rebuild(open_engine(settings, "indexer"), settings.network)
    print(report)
    return 0


# Revisions: docs/operations.md walks through one.


def _add_revise(parser: argparse.ArgumentParser) -> None:
    steps = parser.add_subparsers(dest="step", required=True)
    begin = steps.add_parser("start", help="make room beside the live tables (database owner)")
    begin.add_argument("chains", nargs="+", type=parse_chain_id, help="chains to decode anew")
    steps.add_parser("fill", help="decode raw facts anew; goes on where it stopped")
    steps.add_parser("check", help="what a swap would change")
    into_place = steps.add_parser("swap", help="check, ask, and put it in the live one's place")
    into_place.add_argument("--yes", action="store_true", help="do not ask")
    steps.add_parser("abandon", help="drop what start made (database owner)")


def _revise_start(settings: Settings, arguments: argparse.Namespace) -> int:
    revision.start(make_engine(database_url(settings)), settings.network, arguments.chains)
    print(f"a revision of {', '.join(arguments.chains)} is under way")
    return 0


def _revise_fill(settings: Settings, _: argparse.Namespace) -> int:
    engine = open_engine(settings, "indexer")
    for progress in revision.fill_all(engine, settings.network):
        print(
            f"{progress.chain}: decoded anew to {progress.height} of {progress.final}", flush=True
        )
    return 0


def _revise_check(settings: Settings, _: argparse.Namespace) -> int:
    _print_check(revision.check(open_engine(settings, "indexer"), settings.network))
    return 0


def _print_check(found: revision.Check) -> None:
    for progress in found.filled:
        print(f"{progress.chain}: decoded anew to {progress.height} of {progress.final}")
    in_chains = ((chain, table) for chain, tables in found.facts.items() for table in tables)
    differing = [*in_chains, *((None, table) for table in found.projections)]
    for chain, table in differing:
        print(
            f"{table.table}{f' of {chain}' if chain else ''}: {table.added} added, "
            f"{table.removed} removed, {table.changed} changed"
        )
        for line in table.first:
            print(f"  {line}")
    if not differing:
        print("no differences")


def _revise_swap(settings: Settings, arguments: argparse.Namespace) -> int:
    engine = open_engine(settings, "indexer")
    if not arguments.yes:
        _print_check(revision.check(engine, settings.network))
        print("Is this what is wanted? Type yes to swap: ", end="", flush=True)
        if sys.stdin.readline().strip() != "yes":
            print("nothing was changed")
            return 1
    swapped = revision.swap(engine, settings.network)
    for chain, tables in swapped.facts.items():
        for table in tables:
            print(f"{table.table} of {chain}: {table.removed} rows out, {table.added} in")
    book = "written anew" if swapped.book else "unchanged"
    print(f"{swapped.movements} movements refolded, order book {book}")
    print(f"ingestion waited {swapped.paused:.2f} s")
    return 0


def _revise_abandon(settings: Settings, _: argparse.Namespace) -> int:
    revision.abandon(make_engine(database_url(settings)))
    print("no revision is under way")
    return 0


_REVISE: Mapping[str, Callable[[Settings, argparse.Namespace], int]] = {
    "start": _revise_start,
    "fill": _revise_fill,
    "check": _revise_check,
    "swap": _revise_swap,
    "abandon": _revise_abandon,
}


if __name__ == "__main__":
    sys.exit(main())
