"""Many seeded runs of ingestion under chaos, each held against one straight run.

    python -m tests.chaos                     200 runs, 22 of them through the whole Dagster stack
    SEED=7 RUNS=1 python -m tests.chaos       the run of seed 7 alone, as it was

Run i has the seed SEED + i; a seed that is divisible by 9 goes through the whole stack. A seed
decides what happens on the chains, which faults come, what is killed and in which phase it is aimed
at; where exactly a kill lands is the machine's to decide. Progress goes to standard error; the last
line of standard output is JSON. Exit code 0: every row of every run was as it must be.
"""

import argparse
import os
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import orjson

from tests.chaos.outcome import Outcome, result, total
from tests.chaos.processes import PROJECT
from tests.chaos.proof import prove_checker
from tests.chaos.site import site

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
    plan = Plan(range(options.seed, options.seed + options.runs), began + 60 * options.minutes)
    lanes = [
        threading.Thread(target=plan.work, args=(number == 0,))
        for number in range(min(options.lanes, options.runs))
    ]
    for lane in lanes:
        lane.start()
    for lane in lanes:
        lane.join()
    minutes = (time.monotonic() - began) / 60
    _tell(plan.outcomes)
    print(orjson.dumps(result(plan.outcomes, minutes)).decode(), flush=True)
    done = len(plan.outcomes) == options.runs
    if not done:
        say(f"{options.runs - len(plan.outcomes)} runs were not begun in {options.minutes:g} min")
    return 0 if done and all(outcome.is_well for outcome in plan.outcomes) else 1


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    told = os.environ
    parser.add_argument("--seed", type=int, default=int(told.get("SEED") or 1))
    parser.add_argument("--runs", type=int, default=int(told.get("RUNS") or RUNS))
    parser.add_argument("--lanes", type=int, default=int(told.get("LANES") or LANES))
    parser.add_argument("--minutes", type=float, default=float(told.get("MINUTES") or MINUTES))
    return parser.parse_args(arguments)


def say(line: str) -> None:
    """Every line at once, also into a pipe."""
    print(line, file=sys.stderr, flush=True)


def kind_of(seed: int) -> str:
    """Whether a seed's run goes through the whole stack."""
    return "bare" if seed % _STACK_EVERY else "stack"


@dataclass
class Plan:
    """The seeds still to be run, and what became of the others."""

    seeds: Sequence[int]
    deadline: float
    """`time.monotonic` after which no run begins."""
    outcomes: list[Outcome] = field(default_factory=list)
    _waiting: dict[str, deque[int]] = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._waiting = {"bare": deque(), "stack": deque()}
        for seed in self.seeds:
            self._waiting[kind_of(seed)].append(seed)

    def work(self, prefers_stack: bool) -> None:
        """Run what waits in a lane of its own; a lane that broke is replaced."""
        while (outcome := self._in_one_lane(prefers_stack)) is not None:
            self._note(outcome)

    def _in_one_lane(self, prefers_stack: bool) -> Outcome | None:
        """Runs until nothing waits (None) or one broke: what is to be said of that one."""
        lane: subprocess.Popen[bytes] | None = None
        while (seed := self._next(prefers_stack)) is not None:
            lane = lane or _lane()
            assert lane.stdin is not None
            assert lane.stdout is not None
            lane.stdin.write(f"{kind_of(seed)} {seed}\n".encode())
            lane.stdin.flush()
            line = lane.stdout.readline()
            if not line:
                broke = f"the run broke, code {lane.wait()}; its traceback is above"
                return Outcome(seed, kind_of(seed), differences=[broke])
            self._note(Outcome.from_json(line.decode()))
        if lane is not None:
            assert lane.stdin is not None
            lane.stdin.close()
            lane.wait()
        return None

    def _next(self, prefers_stack: bool) -> int | None:
        if time.monotonic() > self.deadline:
            return None
        order = ("stack", "bare") if prefers_stack else ("bare", "stack")
        with self._lock:
            for kind in order:
                if self._waiting[kind]:
                    return self._waiting[kind].popleft()
        return None

    def _note(self, outcome: Outcome) -> None:
        with self._lock:
            self.outcomes.append(outcome)
            say(_line(len(self.outcomes), len(self.seeds), outcome))


def _lane() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.chaos.lane"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=PROJECT,
    )


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
    return f"{told}{shown}\n    again: SEED={outcome.seed} RUNS=1 make chaos"


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
            say(f"FAILED: SEED={outcome.seed} RUNS=1 make chaos")


def _counts(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.most_common())


if __name__ == "__main__":
    sys.exit(main())
