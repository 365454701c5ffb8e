"""How a backfill grows with workers of Celery: time, and processor time of an event.

Workers are in network namespaces of their own, with RabbitMQ, Postgres and the node beside them
(`tests.system.engine`). The chain has events of ours in each block. Each number of workers reads it
into a database of its own; what counts is from the start of the run to its end, all movements
folded. On few cores the wall time says what the cores can, and nothing of more machines; processor
time of an event says what a worker more costs.

Rounds of all numbers in turn, and the least of each: whatever else the machine does only adds, and
often more than a worker would.
`ISTHMUS_BENCH_BLOCKS`, `ISTHMUS_BENCH_WORKERS` (`1,2,4`) and `ISTHMUS_BENCH_ROUNDS` set the size.
"""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from tests.system.bench.processor import family_seconds
from tests.system.bench.site import print_line
from tests.system.engine.node import events_of
from tests.system.engine.site import Site, backfill_config, open_site

BLOCKS = 20_000
ROUNDS = 3
WORKERS = "1,2,4"
SPANS = 40
MIN_SPAN_BLOCKS = 2_000
"""Of the job's default: a step costs a third of a second, whatever it reads."""
TIMEOUT_SECONDS = 3_600.0

Meters = Mapping[str, Callable[[], float]]


@dataclass(frozen=True)
class Measured:
    """One run."""

    wall: float
    used: Mapping[str, float]
    """Processor seconds by who used them."""


def measure() -> dict[str, Any]:
    """Wall seconds, and processor microseconds of workers for each event, by number of workers."""
    blocks = int(os.environ.get("ISTHMUS_BENCH_BLOCKS", BLOCKS))
    numbers = [int(each) for each in os.environ.get("ISTHMUS_BENCH_WORKERS", WORKERS).split(",")]
    events = events_of(blocks)
    rounds = int(os.environ.get("ISTHMUS_BENCH_ROUNDS", ROUNDS))
    found: dict[int, list[Measured]] = {number: [] for number in numbers}
    with open_site(blocks) as site:
        for _ in range(rounds):
            for number in numbers:
                measured = _run(site, number)
                found[number].append(measured)
                cost = 1e6 * measured.used["workers"] / events
                print_line(f"{number} workers: {measured.wall:.0f} s, {cost:.0f} µs an event")

    figures = {}
    for number, each in found.items():
        wall, (workers, postgres) = min(one.wall for one in each), _least(each)
        figures[str(number)] = {
            "wall_s": round(wall, 1),
            "worker_cpu_s": round(workers, 2),
            "cpu_us_per_event": round(1e6 * workers / events, 1),
            "cpu_us_per_event_rounds": [round(1e6 * one.used["workers"] / events) for one in each],
            "postgres_cpu_us_per_event": round(1e6 * postgres / events, 1),
            "events_per_s": round(events / wall),
        }
    costs = [_least(each)[0] for each in found.values()]
    return {
        "cpu_ratio": round(max(costs) / min(costs), 3),
        "workers": figures,
        "rounds": rounds,
        "blocks": blocks,
        "events": events,
        "cores": os.cpu_count(),
    }


def _least(measured: list[Measured]) -> tuple[float, float]:
    """Processor seconds of workers and of Postgres."""
    return (
        min(each.used["workers"] for each in measured),
        min(each.used["postgres"] for each in measured),
    )


def _run(site: Site, number: int) -> Measured:
    warehouse = f"workers_{number}"
    site.create_warehouse(warehouse)
    site.postgres.execute("CHECKPOINT")
    for place in range(number):
        site.start_worker(f"worker{place}", warehouse)
    meters: Meters = {
        "workers": partial(_sum, [each.process.pid for each in site.workers.values()]),
        "postgres": site.postgres.processor_seconds,
    }
    before = {name: read() for name, read in meters.items()}
    began = time.monotonic()
    span = max(MIN_SPAN_BLOCKS, site.blocks // SPANS)
    run = site.start_run(
        warehouse, "backfill", backfill_config(site.blocks, span, report_seconds=10)
    )
    site.await_run(run, warehouse, TIMEOUT_SECONDS)
    wall = time.monotonic() - began
    used = {name: read() - before[name] for name, read in meters.items()}
    if site.committed(warehouse) != site.blocks:
        raise AssertionError(f"{site.committed(warehouse)} of {site.blocks} blocks")
    site.stop_workers()
    for database in (warehouse, f"{warehouse}_dagster"):
        site.postgres.execute(f"DROP DATABASE {database} WITH (FORCE)")
    return Measured(wall, used)


def _sum(pids: list[int]) -> float:
    return sum(map(family_seconds, pids))
