"""Progress of a backfill on a terminal or in a log."""

import logging
import shutil
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from indexer.ingest.backfill import BackfillProgress

_DRAWN_EVERY = 0.2
_LOGGED_EVERY = 10.0
"""Seconds between lines in a log or pipe."""


class Bar:
    """One line that is redrawn on a terminal; elsewhere a line every few seconds."""

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
        every = _DRAWN_EVERY if self._is_drawn else _LOGGED_EVERY
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
