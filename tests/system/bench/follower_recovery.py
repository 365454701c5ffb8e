"""How long after its follower is killed a chain has new rows again, under the orchestrator.

Both chains' follower runs get SIGKILL at once; the clock stops when the NOTIFY of the first commit
after that arrives, for the later of the two chains. Blocks and ledgers come once a second, so up to
one second of each figure is the wait for one.
"""

import os
import signal
import time
from typing import Any

from devnet.world import Pace
from tests.system.bench.site import (
    Commits,
    follower_pids,
    print_line,
    site,
    start_orchestrator,
)

KILLS = 3
TIMEOUT_SECONDS = 120.0
PAUSE_SECONDS = 2.0
"""From a recovery to the next kill: what has committed is replaced at once, however briefly."""

GRACE_SECONDS = 0.2
"""A NOTIFY of the killed process may still be on its way."""


def measure() -> dict[str, Any]:
    """Seconds of each of three kills, and the slowest."""
    with site(Pace(block_seconds=1, ledger_seconds=1)) as running:
        start_orchestrator(running)
        commits = [Commits(running.settings, chain.id) for chain in running.settings.network.chains]
        for each in commits:
            each.start()
        _wait_for_commit(commits, time.monotonic())
        seconds = []
        for _ in range(KILLS):
            running.supervisor.wait(PAUSE_SECONDS)
            killed = time.monotonic()
            for pid in follower_pids(running.settings).values():
                os.kill(pid, signal.SIGKILL)
            seconds.append(round(_wait_for_commit(commits, killed) - killed, 1))
            print_line(f"back after {seconds[-1]} s")
        for each in commits:
            each.stop()
    return {"max_s": max(seconds), "seconds": seconds, "kills": KILLS}


def _wait_for_commit(commits: list[Commits], after: float) -> float:
    """When every chain has had a commit later than `after`: the time of the last one's first."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        firsts = [
            next((at for _, at in each.seen if at > after + GRACE_SECONDS), None)
            for each in commits
        ]
        found = [at for at in firsts if at is not None]
        if len(found) == len(commits):
            return max(found)
        if time.monotonic() > deadline:
            raise TimeoutError(f"no commit on every chain after {TIMEOUT_SECONDS} s")
        time.sleep(0.05)
