"""Which commit point is met next: the one that was met least, so that over some runs each is, in
each of the ways in which it can be.

Runs know nothing of each other: a seed says where in one order of all points its run begins.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

BEFORE, DURING, AFTER = "before COMMIT", "on the way to COMMIT", "right after COMMIT"
_WAYS = (BEFORE, DURING, AFTER)
_STRIDE = 13
"""Points further on, each run begins: of so many it meets about as many. It must share no factor
with the number of points, or runs begin at few of them."""
_AT_ONCE = 3
"""Processes that are aimed at together, at a point each: some seldom write anything."""
_FIRST = 3
"""So many of a run's kills are for what is written in its beginning alone."""

SELDOM = (
    "intake.consents",
    "facts.lost_sources",
    "facts.orphans",
    "facts.evm_logs",
    "facts.stellar_events",
    "relay.obstacles",
    "relay.webhook_senders",
)
"""Written some times in a run, by one process each: somebody waits at their doors whatever else is
aimed at."""
EARLY = (
    "intake.quotes",
    "intake.webhooks",
    "intake.transfers",
    "intake.watched_addresses",
)
"""Written as transfers begin, which all of a run do within seconds."""


@dataclass(frozen=True)
class Point:
    """A table, and a process that writes to it."""

    process: str
    table: str


class Aim:
    """Of one run."""

    def __init__(self, points: Mapping[str, Sequence[str]], seed: int) -> None:
        self.points = [Point(process, each) for process in points for each in points[process]]
        at = _STRIDE * seed % len(self.points)
        self._order = [*self.points[at:], *self.points[:at]]
        self._seed = seed
        self._kills = 0
        self._met: Counter[Point] = Counter()
        self._passed: Counter[Point] = Counter()

    def next(self) -> list[Point]:
        """Whoever comes to one of these first is met there: those that are aimed at, and what is
        seldom written, until it was met as often."""
        self._kills += 1
        is_early = self._kills <= _FIRST
        early = [each for each in self._order if is_early and each.table in EARLY]
        aimed = self._least(early or self._order)
        self._passed.update(aimed)
        most = 1 + self._met[aimed[0]]
        seldom = [e for e in self._order if e.table in SELDOM and self._met[e] < most]
        return [*aimed, *(each for each in seldom if each not in aimed)]

    def _least(self, among: Sequence[Point]) -> list[Point]:
        """Of some processes the one that each was met at least, or waited for in vain."""
        ordered = sorted(among, key=lambda each: 3 * self._met[each] + self._passed[each])
        of_each: dict[str, Point] = {}
        for each in ordered:
            of_each.setdefault(each.process, each)
        return [*of_each.values()][:_AT_ONCE]

    def way(self, point: Point) -> str:
        """How whoever came there is killed: in another way in each run, and each time in a run."""
        self._met[point] += 1
        return _WAYS[(self._seed + self.points.index(point) + self._met[point]) % len(_WAYS)]


def tables_of(points: Collection[Point]) -> list[str]:
    """Each once."""
    return sorted({each.table for each in points})
