"""One run after another in a process of its own: `python -m tests.system.chaos.lane`.

In: `bare SEED`, `stack SEED` or `transfers SEED`, a line each. Out: the run's outcome, one JSON
line each. A run that breaks ends the lane with its traceback; whoever gave it the seed knows which
one it was.
"""

import logging
import signal
import sys
from collections.abc import Callable, Mapping
from types import FrameType

from tests.system.chaos.bare import bare_run
from tests.system.chaos.outcome import Outcome
from tests.system.chaos.site import Site, site
from tests.system.chaos.stack import make_dagster_template, stack_run
from tests.system.chaos.transfers.outcome import Run
from tests.system.chaos.transfers.run import transfers_run

MOST_SECONDS = 700
"""A run that takes longer is broken."""

RUNS: Mapping[str, Callable[[Site, int], Outcome | Run]] = {
    "bare": bare_run,
    "stack": stack_run,
    "transfers": transfers_run,
}


class RunTakesTooLong(Exception):
    """Something waits for what does not come."""


def main() -> None:
    """Serve until standard input ends."""
    logging.getLogger("indexer").setLevel(logging.CRITICAL)
    signal.signal(signal.SIGALRM, _too_long)
    signal.signal(signal.SIGTERM, _stop)
    has_template = False
    with site() as place:
        for line in sys.stdin:
            kind, seed = line.split()
            if kind == "stack" and not has_template:
                make_dagster_template(place)
                has_template = True
            signal.alarm(MOST_SECONDS)
            sys.stdout.write(_run(place, kind, int(seed)) + "\n")
            sys.stdout.flush()
            signal.alarm(0)


def _run(place: Site, kind: str, seed: int) -> str:
    return RUNS[kind](place, seed).to_json()


def _too_long(number: int, frame: FrameType | None) -> None:
    raise RunTakesTooLong(f"more than {MOST_SECONDS} s")


def _stop(number: int, frame: FrameType | None) -> None:
    raise SystemExit(143)


if __name__ == "__main__":
    main()
