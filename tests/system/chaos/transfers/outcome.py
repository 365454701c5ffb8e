"""What became of a run of transfers, and of all of them."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Run:
    """One run. Everything in it is JSON."""

    seed: int
    transfers: int = 0
    completed: Counter[str] = field(default_factory=Counter)
    """Transfers that ended as they must, by kind."""
    lost: list[str] = field(default_factory=list)
    double: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    """Whatever else should not have been: lies that were taken, processes that ended, wrong stages,
    sums that differ."""
    kills: Counter[str] = field(default_factory=Counter)
    points: Counter[str] = field(default_factory=Counter)
    """Kills by whom they hit, table and what became of the transaction, `|` between. Postgres is
    hit under the process that was met: `postgres under relay`."""
    faults: Counter[str] = field(default_factory=Counter)
    mischief: Counter[str] = field(default_factory=Counter)
    reorgs: list[int] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def problems(self) -> list[str]:
        """All that is wrong."""
        return [*self.lost, *self.double, *self.stuck, *self.findings]

    def to_json(self) -> str:
        """One line."""
        return json.dumps(vars(self))

    @classmethod
    def from_json(cls, line: str) -> "Run":
        """Read what `to_json` wrote."""
        loaded = json.loads(line)
        for name in ("completed", "kills", "points", "faults", "mischief"):
            loaded[name] = Counter(loaded[name])
        return cls(**loaded)


def total(runs: Sequence[Run], name: str) -> Counter[str]:
    """One of the counters over all runs."""
    counts: Counter[str] = Counter()
    for run in runs:
        counts.update(getattr(run, name))
    return counts


def result(runs: Sequence[Run], minutes: float) -> dict[str, Any]:
    """The line that a machine reads."""
    return {
        "name": "chaos_transfers",
        "transfers": sum(run.transfers for run in runs),
        "kills": sum(total(runs, "kills").values()),
        "lost": sum(len(run.lost) for run in runs),
        "double": sum(len(run.double) for run in runs),
        "stuck": sum(len(run.stuck) for run in runs),
        "findings": sum(len(run.findings) for run in runs),
        "reorgs": sum(len(run.reorgs) for run in runs),
        "faults": sum(total(runs, "faults").values()),
        "hostile": sum(total(runs, "mischief").values()),
        "runs": len(runs),
        "minutes": round(minutes, 1),
    }


BECAME = ("nothing written", "aborted", "committed", "not known")


def matrix(runs: Sequence[Run]) -> list[str]:
    """Commit point × what became of the transaction that was killed there, a line each."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for point, number in total(runs, "points").items():
        killed, table, became = point.split("|")
        counts.setdefault((killed, table), Counter())[became] += number
    head = f"{'killed':32} {'at the door of':32}" + "".join(f"{each:>17}" for each in BECAME)
    return [
        head,
        *(
            f"{killed:32} {table:32}" + "".join(f"{row[each] or '':>17}" for each in BECAME)
            for (killed, table), row in sorted(counts.items())
        ),
    ]
