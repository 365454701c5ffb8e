"""Waiting until all earlier spans of a backfill are committed.

Any processes read spans in parallel; they commit in order. The backfill's row says how far it is.
"""

import time
from collections.abc import Callable

from sqlalchemy import Engine

from indexer.errors import FollowerConflict
from indexer.facts import backfills
from warehouse_schema.identifiers import ChainId, Height

STALL_SECONDS = 900.0
"""Seconds without any commit after which waiting fails. A chunk takes seconds, unless its node is
slow."""

_POLL_SECONDS = 0.5


class EarlierSpans:
    """The spans before `start` in the backfill of `whole`.

    `check` is called regularly while waiting: raise from it to stop waiting.
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
        self._moved_at = time.monotonic()

    def are_committed(self) -> bool:
        """True once all earlier spans are committed; stays true."""
        if self._done < self._start - 1:
            with self._engine.connect() as conn:
                done = backfills.read_backfill(conn, self._chain, *self._whole).done
            if done != self._done:
                self._done, self._moved_at = done, time.monotonic()
        return self._done >= self._start - 1

    def wait(self) -> None:
        """Wait until they are. Raises `FollowerConflict` when nothing is committed for long."""
        while not self.are_committed():
            self.pause()

    def pause(self) -> None:
        """Wait a moment. Raises as `wait` does."""
        self._check()
        if time.monotonic() - self._moved_at > STALL_SECONDS:
            raise FollowerConflict(
                f"{self._chain}: block {self._done + 1} comes before {self._start}, and nothing was"
                f" committed for {STALL_SECONDS:.0f} s; the process of that span is gone or stuck"
            )
        time.sleep(_POLL_SECONDS)
