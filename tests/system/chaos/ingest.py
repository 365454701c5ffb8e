"""Many seeded runs of ingestion under chaos, each held against one straight run.

    python -m tests.system.chaos ingest          200 runs, 22 through the whole Dagster stack
    SEED=7 RUNS=1 python -m tests.system.chaos ingest   seed 7 alone

Run i has the seed SEED + i; a seed that is divisible by 9 goes through the whole stack. A seed
decides what happens on the chains, which faults come, what is killed and in which phase it is aimed
at; where exactly a kill lands is the machine's to decide. Progress goes to standard error; the last
line of standard output is JSON. Exit code 0: every row of every run was as it must be.
"""

import argparse
import os
import time
from collections import Counter, deque
from collections.abc import Sequence

from tests.system.chaos.outcome import Outcome, result, total
from tests.system.chaos.plan import Plan, say, show
from tests.system.chaos.proof import prove_checker
from tests.system.chaos.site import site

RUNS = 200
LANES = 3
"""Runs at a time. A run waits more than it works."""
MINUTES = 58.0
"""No run begins later than this."""
_STACK_EVERY = 9
_SHOWN = 6


def main(arguments: Sequence[str] | None = None) -> int:
    """Prove the checker, run everything, tell; 0 when all was as it must be."""
    options = _parse(arguments)
    began = time.monotonic()
    with site() as place:
        for planted in prove_checker(place, options.seed):
            say(f"the checker sees {planted}")
    plan = Plan(
        _waiting(range(options.seed, options.seed + options.runs)),
        began + 60 * options.minutes,
        read=Outcome.from_json,
        broke=lambda kind, seed, why: Outcome(seed, kind, differences=[why]),
        tell=lambda number, outcome: say(_line(number, options.runs, outcome)),
    )
    lanes = range(min(options.lanes, options.runs))
    plan.work([("stack", "bare") if number == 0 else ("bare", "stack") for number in lanes])
    minutes = (time.monotonic() - began) / 60
    _tell(plan.outcomes)
    show(result(plan.outcomes, minutes))
    done = len(plan.outcomes) == options.runs
    if not done:
        say(f"{options.runs - len(plan.outcomes)} runs were not begun in {options.minutes:g} min")
    return 0 if done and all(outcome.is_well for outcome in plan.outcomes) else 1


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.system.chaos ingest",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    told = os.environ
    parser.add_argument("--seed", type=int, default=int(told.get("SEED") or 1))
    parser.add_argument("--runs", type=int, default=int(told.get("RUNS") or RUNS))
    parser.add_argument("--lanes", type=int, default=int(told.get("LANES") or LANES))
    parser.add_argument("--minutes", type=float, default=float(told.get("MINUTES") or MINUTES))
    return parser.parse_args(arguments)


def kind_of(seed: int) -> str:
    """Whether a seed's run goes through the whole stack."""
    return "bare" if seed % _STACK_EVERY else "stack"


def _waiting(seeds: Sequence[int]) -> dict[str, deque[int]]:
    waiting: dict[str, deque[int]] = {"bare": deque(), "stack": deque()}
    for seed in seeds:
        waiting[kind_of(seed)].append(seed)
    return waiting


def _line(number: int, of: int, outcome: Outcome) -> str:
    depths = f", reorgs to {max(outcome.reorgs)}" if outcome.reorgs else ""
    told = (
        f"{number}/{of} seed {outcome.seed} {outcome.kind}: {outcome.seconds:g} s,"
        f" {sum(outcome.kills.values())} kills, {sum(outcome.faults.values())} faults{depths},"
        f" {outcome.orphans} orphans, {outcome.rows} rows, {len(outcome.differences)} differences"
    )
    if outcome.is_well:
        return told
    problems = [*outcome.differences, *outcome.findings]
    shown = "".join(f"\n    {problem[:600]}" for problem in problems[:_SHOWN])
    return f"{told}{shown}\n    again: SEED={outcome.seed} RUNS=1 make chaos ONLY=ingest"


def _tell(outcomes: Sequence[Outcome]) -> None:
    """What all runs had in them."""
    for what in ("kills", "phases", "faults", "acts"):
        say(f"{what}: {_counts(total(outcomes, what))}")
    depths = Counter(
        "64" if depth == 64 else "21 to 63" if depth > 20 else "4 to 20" if depth > 3 else "1 to 3"
        for outcome in outcomes
        for depth in outcome.reorgs
    )
    say(f"reorgs by depth: {_counts(depths)}")
    say(f"rows compared: {sum(outcome.rows for outcome in outcomes)}")
    for outcome in outcomes:
        if not outcome.is_well:
            say(f"FAILED: SEED={outcome.seed} RUNS=1 make chaos ONLY=ingest")


def _counts(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.most_common())
