"""Hundreds of transfers through the API while everything under them is killed, some dozens at once.

    python -m tests.system.chaos transfers                            520 transfers, 40 a run
    SEED=7 TRANSFERS=40 python -m tests.system.chaos transfers        the run of seed 7 alone

Each run has chains, a warehouse and people of its own. A seed decides who moves how much by which
route, what fails and what is aimed at; where exactly a kill lands is the machine's to decide. In
the end the chains alone say whether something was lost or paid twice: see `checker.py`, which is
proven first; and what half of the owners took at their places for webhooks is held against what
there was to tell: see `hooks.py`. Progress and the crash matrix go to standard error; the last
line of standard output is JSON.
Exit code 0: nothing lost, nothing paid twice, nothing stuck, and no lie was taken.
"""

import argparse
import os
import time
from collections import deque
from collections.abc import Sequence

from tests.system.chaos.plan import Plan, say, show
from tests.system.chaos.site import site
from tests.system.chaos.transfers.outcome import Run, matrix, result, total
from tests.system.chaos.transfers.proof import prove_checker
from tests.system.chaos.transfers.run import TRANSFERS

_ALL = 520
LANES = 2
MINUTES = 50.0
"""No run begins later than this."""
_SHOWN = 8


def main(arguments: Sequence[str] | None = None) -> int:
    """Prove the checker, run everything, tell; 0 when all was as it must be."""
    options = _parse(arguments)
    began = time.monotonic()
    with site() as place:
        for planted in prove_checker(place, options.seed):
            say(f"the checker sees {planted}")
    number = -(-options.transfers // TRANSFERS)
    plan = Plan(
        {"transfers": deque(range(options.seed, options.seed + number))},
        began + 60 * options.minutes,
        read=Run.from_json,
        broke=lambda _, seed, why: Run(seed, findings=[why]),
        tell=lambda done, run: say(_line(done, number, run, time.monotonic() - began)),
    )
    plan.work([("transfers",)] * min(options.lanes, number))
    minutes = (time.monotonic() - began) / 60
    _tell(plan.outcomes)
    show(result(plan.outcomes, minutes))
    if len(plan.outcomes) < number:
        say(f"{number - len(plan.outcomes)} runs were not begun in {options.minutes:g} min")
        return 1
    return 1 if any(run.problems for run in plan.outcomes) else 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.system.chaos transfers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    values = os.environ
    parser.add_argument("--seed", type=int, default=int(values.get("SEED") or 1))
    parser.add_argument("--transfers", type=int, default=int(values.get("TRANSFERS") or _ALL))
    parser.add_argument("--lanes", type=int, default=int(values.get("LANES") or LANES))
    parser.add_argument("--minutes", type=float, default=float(values.get("MINUTES") or MINUTES))
    return parser.parse_args(arguments)


def _line(done: int, of: int, run: Run, seconds: float) -> str:
    left = seconds / done * (of - done) / 60
    values = (
        f"{done}/{of} seed {run.seed}: {run.seconds:g} s, {sum(run.completed.values())} of"
        f" {run.transfers} transfers at their ends, {sum(run.kills.values())} kills,"
        f" {len(run.reorgs)} reorgs, {sum(run.faults.values())} faults,"
        f" {sum(run.mischief.values())} lies; {len(run.lost)} lost, {len(run.double)} double,"
        f" {len(run.stuck)} stuck, {len(run.findings)} findings; {left:.0f} min left"
    )
    shown = "".join(f"\n    {problem[:600]}" for problem in run.problems[:_SHOWN])
    return f"{values}{shown}"


def _tell(runs: Sequence[Run]) -> None:
    """What all runs had in them."""
    for what in ("completed", "kills", "faults", "mischief"):
        counts = total(runs, what).most_common()
        say(f"{what}: {', '.join(f'{name} {count}' for name, count in counts)}")
    for line in matrix(runs):
        say(line)
    for run in runs:
        if run.problems:
            say(f"FAILED: SEED={run.seed} TRANSFERS={TRANSFERS} make chaos ONLY=transfers")
