"""Waiting until everything below a span is committed.

Spans of one backfill are read side by side, by whatever processes; they are committed in order.
Where the backfill is, is in its row, so whoever reaches the warehouse knows whose turn it is.
"""

import time
from collections.abc import Callable

from sqlalchemy import Engine

from indexer.errors import FollowerConflict
from indexer.facts import backfills
from warehouse_schema.identifiers import ChainId, Height

STALL_SECONDS = 900.0
"""Seconds without any commit after which whoever waits gives up. A chunk takes seconds, but for a
node that has its moments."""

_LOOK_SECONDS = 0.5


class EarlierSpans:
    """The turn of the span that begins at `start`, in the backfill of `first … last`.

    `check` is called now and then while it waits: raise from it to end the waiting.
    """

    def __init__(
        self,
        engine: Engine,
        chain: ChainId,
        whole: tuple[Height, Height],
        start: Height,
        check: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._chain = chain
        self._whole = whole
        self._start = start
        self._check = check
        self._done = Height(-1)
        self._moved = time.monotonic()

    def has_come(self) -> bool:
        """Whether all below the span is committed. Once it is, it stays so."""
        if self._done < self._start - 1:
            with self._engine.connect() as conn:
                done = backfills.read_backfill(conn, self._chain, *self._whole).done
            if done != self._done:
                self._done, self._moved = done, time.monotonic()
        return self._done >= self._start - 1

    def wait(self) -> None:
        """Return when it has come. Raises `FollowerConflict` when nothing is committed for long."""
        while not self.has_come():
            self.pause()

    def pause(self) -> None:
        """Wait a moment, and lose patience as `wait` does."""
        self._check()
        if time.monotonic() - self._moved > STALL_SECONDS:
            raise FollowerConflict(
                f"{self._chain}: block {self._done + 1} comes before {self._start}, and nothing was"
                f" committed for {STALL_SECONDS:.0f} s; whoever was to bring it in is gone or stuck"
            )
        time.sleep(_LOOK_SECONDS)
