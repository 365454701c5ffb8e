"""What waiting for a standby costs: commits of one small row, by `synchronous_commit`.

A primary and its standby of Debian's Postgres 15 on this machine, set up as
docs/operations/failover.md says. Both write to one disk and no network lies between, so `on` is two
flushes of that disk one after the other: with two machines add the round trip. Settings
take turns, so that other work on the machine meets all of them.
"""

import os
import statistics
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, Literal

import psycopg

from tests.system.bench.site import milliseconds, percentile, print_line
from tests.system.failover.nodes import Pair, running_pair

Level = Literal["local", "remote_write", "on"]
LEVELS: tuple[Level, ...] = ("local", "remote_write", "on")
CONNECTIONS = 8
ROUNDS = 5
ALONE, TOGETHER = 100, 60
"""Commits of a connection in a round."""


def measure() -> dict[str, Any]:
    """What the module's docstring says."""
    load_before = os.getloadavg()[0]
    alone: dict[Level, list[float]] = defaultdict(list)
    together: dict[Level, list[float]] = defaultdict(list)
    wall: dict[Level, float] = defaultdict(float)
    folder = os.environ.get("ISTHMUS_BENCH_FOLDER", "/var/tmp")
    with tempfile.TemporaryDirectory(prefix="isthmus-bench-", dir=folder) as name:
        Path(name).chmod(0o755)
        with running_pair(Path(name)) as pair:
            pair.execute("CREATE TABLE rows (id bigserial PRIMARY KEY, what text)")
            for number in range(ROUNDS):
                print_line(f"round {number + 1} of {ROUNDS}")
                for level in LEVELS:
                    alone[level] += _commit(pair, level, ALONE)
                    began = time.monotonic()
                    together[level] += _commit_together(pair, level)
                    wall[level] += time.monotonic() - began
    figures: dict[str, Any] = {}
    for level in LEVELS:
        figures |= {
            f"{level}_p50_ms": milliseconds(statistics.median(alone[level])),
            f"{level}_p99_ms": milliseconds(percentile(alone[level], 0.99)),
            f"{level}_per_s": round(len(alone[level]) / sum(alone[level])),
            f"{level}_8_p99_ms": milliseconds(percentile(together[level], 0.99)),
            f"{level}_8_per_s": round(len(together[level]) / wall[level]),
        }
    figures["commits"] = ROUNDS * len(LEVELS) * (ALONE + CONNECTIONS * TOGETHER)
    return {**figures, "machine_load": [round(load_before, 1), round(os.getloadavg()[0], 1)]}


def _commit(pair: Pair, level: Level, commits: int) -> list[float]:
    """Seconds of each commit on a connection of its own."""
    took = []
    with psycopg.connect(pair.url("postgres"), options=f"-c synchronous_commit={level}") as conn:
        for _ in range(commits):
            conn.execute("INSERT INTO rows (what) VALUES (repeat('x', 200))")
            began = time.monotonic()
            conn.commit()
            took.append(time.monotonic() - began)
    return took


def _commit_together(pair: Pair, level: Level) -> list[float]:
    took: list[float] = []
    threads = [
        threading.Thread(target=lambda: took.extend(_commit(pair, level, TOGETHER)))
        for _ in range(CONNECTIONS)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return took
