"""`python -m indexer backfill`: a past range of a chain, with a bar that says how long it takes."""

import argparse
import logging
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, TextIO

from indexer.config.networks import Chain
from indexer.config.settings import Settings
from indexer.config.warehouse import open_engine
from indexer.errors import ConfigurationError, RangeRefused
from indexer.ingest.readers import open_reader
from warehouse_schema.identifiers import ChainId, Height, parse_chain_id

if TYPE_CHECKING:
    from indexer.ingest.backfill import BackfillProgress

_DRAWN_EVERY = 0.2
_SAID_EVERY = 10.0
"""Seconds from a line to the next where nobody watches: in a log, in a pipe."""
_INTERRUPTED = 130


def add_backfill(parser: argparse.ArgumentParser) -> None:
    """The command's arguments, and what runs it."""
    add_range(parser)
    parser.set_defaults(run=_run, parser=parser)


def add_range(parser: argparse.ArgumentParser) -> None:
    """A chain and the range of it that a command is about."""
    parser.add_argument(
        "--chain", required=True, type=_chain_id, help="CAIP-2 id, such as eip155:1"
    )
    for name, which in (("from", "first"), ("to", "last")):
        parser.add_argument(
            f"--{name}",
            required=True,
            type=_height,
            dest=which,
            metavar="HEIGHT",
            help=f"{which} block or ledger, included",
        )


def chain_of_range(
    settings: Settings, parser: argparse.ArgumentParser, arguments: argparse.Namespace
) -> Chain:
    """The chain of `add_range`'s arguments. Ends the program where these make no sense."""
    if arguments.last < arguments.first:
        parser.error(f"argument --to: {arguments.last} is below --from {arguments.first}")
    try:
        return settings.network.chain(arguments.chain)
    except ConfigurationError as error:
        parser.error(f"argument --chain: {error}")


def _chain_id(text: str) -> ChainId:
    try:
        return parse_chain_id(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _height(text: str) -> Height:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no block or ledger number")
    return Height(int(text))


def _run(settings: Settings, arguments: argparse.Namespace) -> int:
    parser: argparse.ArgumentParser = arguments.parser
    chain = chain_of_range(settings, parser, arguments)
    first, last = arguments.first, arguments.last
    # Here, not above: it reads columns, and every other command would wait for that import.
    from indexer.ingest.backfill import backfill

    engine = open_engine(settings, "indexer")
    try:
        with closing(open_reader(settings, chain)) as reader, Bar(sys.stdout) as bar:
            backfill(engine, reader, settings.network, first, last, bar)
    except RangeRefused as error:
        parser.error(f"argument --to: {error}")
    except KeyboardInterrupt:
        print("stopped; the same command goes on where it was", file=sys.stderr)
        return _INTERRUPTED
    finally:
        engine.dispose()
    print(f"{chain.id}: {first} to {last} is in")
    return 0


class Bar:
    """One line that is drawn anew on a terminal; elsewhere a line every few seconds."""

    def __init__(self, out: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._out = out
        self._clock = clock
        self._is_drawn = out.isatty()
        self._logger = logging.getLogger("indexer")
        self._level = self._logger.level
        self._said_at: float | None = None
        self._unsaid: BackfillProgress | None = None

    def __enter__(self) -> "Bar":
        self._level = self._logger.level
        if self._is_drawn:
            # The bar says what these would, once a chunk.
            self._logger.setLevel(logging.WARNING)
        return self

    def __exit__(self, *error: object) -> None:
        self._logger.setLevel(self._level)
        if self._unsaid is not None:
            self._say(self._unsaid)
        if self._is_drawn and self._said_at is not None:
            self._out.write("\n")
            self._out.flush()

    def __call__(self, progress: "BackfillProgress") -> None:
        """Take note of one commit; say so if it is time."""
        every = _DRAWN_EVERY if self._is_drawn else _SAID_EVERY
        if self._said_at is None or self._clock() - self._said_at >= every:
            self._say(progress)
        else:
            self._unsaid = progress

    def _say(self, progress: "BackfillProgress") -> None:
        self._unsaid, self._said_at = None, self._clock()
        if self._is_drawn:
            width = shutil.get_terminal_size().columns - 1
            # The rest of the line is cleared: a line before may have been longer.
            self._out.write(f"\r{progress.line(width)}\x1b[K")
        else:
            self._out.write(f"{progress}\n")
        self._out.flush()
