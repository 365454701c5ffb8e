"""Progress of a backfill: share, rates, time left."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from indexer.facts.backfills import BackfillTotals
from warehouse_schema.identifiers import ChainId, Height

_BAR = 30
"""Maximum characters of the bar."""


@dataclass(frozen=True, slots=True)
class BackfillProgress:
    """Committed part of a backfill, and rates of this run."""

    chain: ChainId
    first: Height
    last: Height
    committed: int
    """Blocks whose facts are committed."""
    events: int
    """Raw events stored, including earlier runs."""
    step: Literal["facts", "movements"] = "facts"
    """Facts first, then the movements that were too many for their chunks."""
    unfolded: int = 0
    """Committed blocks whose movements are not folded yet."""
    blocks_per_second: float = 0.0
    """Of the step, since this run began it."""
    events_per_second: float = 0.0

    @property
    def share(self) -> float:
        """Done part of the step, from 0 to 1."""
        return (self._blocks - self._blocks_left) / self._blocks

    @property
    def seconds_left(self) -> float | None:
        """Time until the step is done; None before it has a rate."""
        if self._blocks_left == 0:
            return 0.0
        return self._blocks_left / self.blocks_per_second if self.blocks_per_second else None

    @property
    def _blocks_left(self) -> int:
        return self._blocks - self.committed if self.step == "facts" else self.unfolded

    @property
    def _blocks(self) -> int:
        return self.last - self.first + 1

    def __str__(self) -> str:
        return self.line()

    def line(self, width: int | None = None) -> str:
        """Bar, share, rates and time left, in at most `width` characters."""
        rates = (
            f" {self.share:6.1%} {self.blocks_per_second:,.0f} blocks/s"
            f" {self.events_per_second:,.0f} events/s {_duration(self.seconds_left)} left"
        )
        what = f"{self.chain} {self.first}–{self.last} {self.step}"
        room = _BAR if width is None else min(_BAR, width - len(rates) - len(what) - len(" []"))
        if room < 1:
            return f"{self.step}{rates}"[:width]
        filled = int(self.share * room)
        return f"{what} [{'█' * filled}{'·' * (room - filled)}]{rates}"


class Meter:
    """Measures one run of a backfill from its start."""

    def __init__(self, start: BackfillTotals, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._start = start
        self._since = clock()

    def progress(self, now: BackfillTotals) -> BackfillProgress:
        """The stored progress, with rates since the current step began."""
        start, moment = self._start, self._clock()
        seconds = moment - self._since
        reads_facts = start.committed < start.blocks
        blocks = now.committed - start.committed if reads_facts else now.folded - start.folded
        if reads_facts and now.committed == now.blocks:
            self._start, self._since = now, moment
        return BackfillProgress(
            chain=now.chain,
            first=now.first,
            last=now.last,
            committed=now.committed,
            events=now.events,
            step="facts" if reads_facts else "movements",
            unfolded=now.committed - now.folded,
            blocks_per_second=blocks / seconds if seconds > 0 else 0.0,
            events_per_second=(now.events - start.events) / seconds if seconds > 0 else 0.0,
        )


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"
