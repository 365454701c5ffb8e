"""How far a backfill is, how fast it goes, and how long it will still take."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from indexer.facts.backfills import Backfill
from warehouse_schema.identifiers import ChainId, Height

_BAR = 30
"""Characters of a bar; fewer where there is no room for so many."""


@dataclass(frozen=True, slots=True)
class BackfillProgress:
    """What of a backfill is committed, and how fast this run of it goes."""

    chain: ChainId
    first: Height
    last: Height
    done: Height
    """Last height whose facts are committed."""
    events: int
    """Raw logs or events kept, by earlier runs too."""
    step: Literal["facts", "movements"] = "facts"
    """Facts come first, then the movements that were too many to be folded on the way."""
    unfolded: int = 0
    """Blocks up to `done` whose movements are still to be folded."""
    blocks_per_second: float = 0.0
    """Of the step, since this run began it."""
    events_per_second: float = 0.0

    @property
    def share(self) -> float:
        """Of the step; from 0 to 1."""
        blocks = self.last - self.first + 1
        return (blocks - self._blocks_left) / blocks

    @property
    def seconds_left(self) -> float | None:
        """Until the step is done, at its rate; None before it has one."""
        if self._blocks_left == 0:
            return 0.0
        return self._blocks_left / self.blocks_per_second if self.blocks_per_second else None

    @property
    def _blocks_left(self) -> int:
        return self.last - self.done if self.step == "facts" else self.unfolded

    def __str__(self) -> str:
        return self.line()

    def line(self, width: int | None = None) -> str:
        """A bar, the share, the rates and the time left, in at most so many characters."""
        said = (
            f" {self.share:6.1%} {self.blocks_per_second:,.0f} blocks/s"
            f" {self.events_per_second:,.0f} events/s {_duration(self.seconds_left)} left"
        )
        what = f"{self.chain} {self.first}–{self.last} {self.step}"
        room = _BAR if width is None else min(_BAR, width - len(said) - len(what) - len(" []"))
        if room < 1:
            return f"{self.step}{said}"[:width]
        filled = int(self.share * room)
        return f"{what} [{'█' * filled}{'·' * (room - filled)}]{said}"


class Meter:
    """Measures one run of a backfill from where it takes it up."""

    def __init__(self, start: Backfill, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._start = start
        self._since = clock()

    def progress(self, now: Backfill) -> BackfillProgress:
        """What stands in the warehouse, with the rates since the present step began."""
        start, moment = self._start, self._clock()
        seconds = moment - self._since
        brings_facts = start.done < start.last
        blocks = now.done - start.done if brings_facts else now.folded - start.folded
        if brings_facts and now.done == now.last:
            self._start, self._since = now, moment
        return BackfillProgress(
            chain=now.chain,
            first=now.first,
            last=now.last,
            done=now.done,
            events=now.events,
            step="facts" if brings_facts else "movements",
            unfolded=now.done - now.folded,
            blocks_per_second=blocks / seconds if seconds > 0 else 0.0,
            events_per_second=(now.events - start.events) / seconds if seconds > 0 else 0.0,
        )


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"
