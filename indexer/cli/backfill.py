"""`isthmus backfill`: reads a past range of a chain, with a progress bar."""

import logging
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import closing
from typing import TextIO

import click

from indexer.config.networks import Chain
from indexer.config.settings import Settings, load_settings
from indexer.config.warehouse import open_engine
from indexer.errors import ConfigurationError, RangeRefused
from indexer.ingest.backfill import BackfillProgress, backfill
from indexer.ingest.readers import open_reader
from warehouse_schema.identifiers import ChainId, Height

_DRAWN_EVERY = 0.2
_SAID_EVERY = 10.0
"""Seconds from a line to the next where nobody watches: in a log, in a pipe."""
_INTERRUPTED = 130


def run(chain_id: str, first: int, last: int) -> int:
    """Read a range; 130 when interrupted."""
    settings = load_settings()
    chain = chain_of_range(settings, chain_id, first, last)
    engine = open_engine(settings, "indexer")
    try:
        with closing(open_reader(settings, chain)) as reader, Bar(sys.stdout) as bar:
            backfill(engine, reader, settings.network, Height(first), Height(last), bar)
    except RangeRefused as error:
        raise click.BadParameter(str(error), param_hint="--to") from error
    except KeyboardInterrupt:
        print("stopped; the same command goes on where it was", file=sys.stderr)
        return _INTERRUPTED
    finally:
        engine.dispose()
    print(f"{chain.id}: {first} to {last} is in")
    return 0


def chain_of_range(settings: Settings, chain_id: str, first: int, last: int) -> Chain:
    """The chain of a range. Raises `BadParameter` for a range or chain that cannot be."""
    if last < first:
        raise click.BadParameter(f"{last} is below --from {first}", param_hint="--to")
    try:
        return settings.network.chain(ChainId(chain_id))
    except ConfigurationError as error:
        raise click.BadParameter(str(error), param_hint="--chain") from error


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

    def __call__(self, progress: BackfillProgress) -> None:
        """Take note of one commit; say so if it is time."""
        every = _DRAWN_EVERY if self._is_drawn else _SAID_EVERY
        if self._said_at is None or self._clock() - self._said_at >= every:
            self._say(progress)
        else:
            self._unsaid = progress

    def _say(self, progress: BackfillProgress) -> None:
        self._unsaid, self._said_at = None, self._clock()
        if self._is_drawn:
            width = shutil.get_terminal_size().columns - 1
            # The rest of the line is cleared: a line before may have been longer.
            self._out.write(f"\r{progress.line(width)}\x1b[K")
        else:
            self._out.write(f"{progress}\n")
        self._out.flush()
