"""What became of a run, and of all of them."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Outcome:
    """One run. Everything in it is JSON."""

    seed: int
    kind: str
    """bare or stack."""
    differences: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    """What should not have happened though the rows came out right: processes that ended by
    themselves and should have gone on."""
    kills: Counter[str] = field(default_factory=Counter)
    """What was killed, by name; one for each occasion."""
    phases: Counter[str] = field(default_factory=Counter)
    """Where in its work each follower was when it was killed, or its Postgres was."""
    faults: Counter[str] = field(default_factory=Counter)
    """Requests that each fault has spoilt."""
    acts: Counter[str] = field(default_factory=Counter)
    reorgs: list[int] = field(default_factory=list)
    """Depths."""
    orphans: int = 0
    rows: int = 0
    """Rows that were compared."""
    seconds: float = 0.0

    @property
    def is_well(self) -> bool:
        """Whether everything was as it must be."""
        return not self.differences and not self.findings

    def to_json(self) -> str:
        """One line."""
        return json.dumps(vars(self))

    @classmethod
    def from_json(cls, line: str) -> "Outcome":
        """Read what `to_json` wrote."""
        told = json.loads(line)
        for name in ("kills", "phases", "faults", "acts"):
            told[name] = Counter(told[name])
        return cls(**told)


def total(outcomes: Sequence[Outcome], name: str) -> Counter[str]:
    """One of the counters over all runs."""
    counts: Counter[str] = Counter()
    for outcome in outcomes:
        counts.update(getattr(outcome, name))
    return counts


def result(outcomes: Sequence[Outcome], minutes: float) -> dict[str, Any]:
    """The line that a machine reads."""
    kills = total(outcomes, "kills")
    return {
        "name": "chaos_ingest",
        "runs": len(outcomes),
        "faults": sum(total(outcomes, "faults").values()),
        "kills": sum(kills.values()),
        "full_stack_kills": kills["whole stack"],
        "minutes": round(minutes, 1),
        "differences": sum(len(outcome.differences) for outcome in outcomes),
    }
