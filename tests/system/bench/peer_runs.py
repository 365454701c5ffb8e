"""Runs that `beside_peers` compares: a chain, a Postgres, an indexer and its rows."""

import os
import resource
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import psycopg
from sqlalchemy.engine import make_url

from devnet.evm_node import AnvilProcess, JsonRpc
from devnet.processes import end_process
from tests.memory import server_folder
from tests.system.bench.indexers import EVENTS, SUBSQUID_TABLES, Indexer, Job, local_chain
from tests.system.bench.log_chain import Emitter
from tests.system.bench.processor import family_seconds
from tests.system.bench.site import milliseconds, percentile, print_line, until
from warehouse_schema.embedded import EmbeddedPostgres, Server
from warehouse_schema.migrate import migrate

BLOCKS = 400
DEPTH = 70
"""Empty blocks on top: what an indexer calls final by default is at most 64 blocks deep."""
HEAD_BLOCKS = 70
"""Of a round."""
HEAD_EVENTS = 5
WARM_UP = 20
BLOCK_SECONDS = 0.25
TIMEOUT_SECONDS = 300.0
_STOP_SECONDS = 30.0
_BACKFILL_POLL_SECONDS = 0.02
_HEAD_POLL_SECONDS = 0.002
_DATABASE = "bench_run"


@dataclass
class Rounds:
    """What one indexer was measured at."""

    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    postgres_seconds: list[float] = field(default_factory=list)
    catch_up_seconds: list[float] = field(default_factory=list)
    delays: list[float] = field(default_factory=list)

    def backfill(self) -> dict[str, Any]:
        """Medians, and the seconds of each round."""
        return {
            "seconds": round(median(self.seconds), 2),
            "rounds_s": [round(each, 2) for each in self.seconds],
            "cpu_s": round(median(self.cpu_seconds), 2),
            "postgres_cpu_s": round(median(self.postgres_seconds), 2),
        }

    def catch_up(self) -> dict[str, Any]:
        """Median, and the seconds of each round."""
        return {
            "seconds": round(median(self.catch_up_seconds), 2),
            "rounds_s": [round(each, 2) for each in self.catch_up_seconds],
        }

    def head(self) -> dict[str, Any]:
        """Of the blocks of all rounds."""
        return {
            "p50_ms": milliseconds(percentile(self.delays, 0.50)),
            "p99_ms": milliseconds(percentile(self.delays, 0.99)),
            "max_ms": milliseconds(max(self.delays)),
        }


class ProcessEnded(Exception):
    """An indexer ended before its last row was stored."""


@dataclass
class Bench:
    """A chain with the events of the backfill, and a Postgres."""

    folder: Path
    server: Server
    postmaster: int
    node: AnvilProcess
    rpc: JsonRpc
    emitter: Emitter
    amount: int = 1
    """Of the next event. Amounts go up by one, so that a sum tells of each."""

    def mine(self, events: int) -> float:
        """Mine a block with so many events; returns when mining began."""
        self.emitter.submit(self.rpc, local_chain(), self.amount, events)
        self.amount += events
        began = time.monotonic()
        self.rpc("evm_mine")
        return began

    def height(self) -> int:
        """Of the chain."""
        return int(self.rpc("eth_blockNumber"), 16)

    def backfill(self, indexer: Indexer, found: Rounds) -> None:
        """One run from an empty database."""
        with self._database(indexer.template) as url:
            used, postgres = _children_seconds(), family_seconds(self.postmaster)
            began = time.monotonic()
            with self._reading_history(indexer, Job(self.node, url, 1, BLOCKS)):
                found.seconds.append(time.monotonic() - began)
                found.postgres_seconds.append(family_seconds(self.postmaster) - postgres)
            found.cpu_seconds.append(_children_seconds() - used)
        print_line(f"{indexer.name}: backfill in {found.seconds[-1]:.2f} s")

    def catch_up(self, indexer: Indexer, found: Rounds) -> None:
        """One run of the live path from an empty database, until it has the same events."""
        with self._database(indexer.template) as url:
            began = time.monotonic()
            with self._reading_history(indexer, Job(self.node, url, 1, None)):
                found.catch_up_seconds.append(time.monotonic() - began)
        print_line(f"{indexer.name}: caught up in {found.catch_up_seconds[-1]:.2f} s")

    @contextmanager
    def _reading_history(self, indexer: Indexer, job: Job) -> Iterator[None]:
        """A process that has stored the events of the backfill."""
        with self._running(indexer, job) as process:
            seen = Rows(job.database, indexer)
            seen.wait(BLOCKS, EVENTS, process, _BACKFILL_POLL_SECONDS)
            yield
            seen.check(BLOCKS, BLOCKS * EVENTS, 1)
            seen.close()

    def follow(self, indexer: Indexer, found: Rounds) -> None:
        """One run at the head, from an empty database."""
        first, amount = self.height() + 1, self.amount
        with (
            self._database(indexer.template) as url,
            self._running(indexer, Job(self.node, url, first, None)) as process,
        ):
            seen = Rows(url, indexer)
            self._mine_until_stored(first, seen, process)
            for _ in range(WARM_UP):
                self.mine(HEAD_EVENTS)
            seen.wait(self.height(), HEAD_EVENTS, process, _HEAD_POLL_SECONDS)
            height = self.height()
            for number in range(1, HEAD_BLOCKS + 1):
                began = self.mine(HEAD_EVENTS)
                seen.wait(height + number, HEAD_EVENTS, process, _HEAD_POLL_SECONDS)
                found.delays.append(time.monotonic() - began)
                until(began + BLOCK_SECONDS)
            seen.check(self.height(), self.amount - amount, amount)
            seen.close()
        print_line(f"{indexer.name}: p50 {median(found.delays[-HEAD_BLOCKS:]) * 1000:.1f} ms")

    def _mine_until_stored(self, first: int, seen: "Rows", process: "Process") -> None:
        """Mine blocks until `first` is stored: an indexer begins when it hears of a new block."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not seen.has(first, HEAD_EVENTS):
            process.check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"block {first} is not stored after {TIMEOUT_SECONDS:.0f} s")
            until(self.mine(HEAD_EVENTS) + BLOCK_SECONDS)

    @contextmanager
    def _database(self, template: str) -> Iterator[str]:
        with psycopg.connect(self.server.url("postgres", "postgresql"), autocommit=True) as conn:
            conn.execute(f"CREATE DATABASE {_DATABASE} TEMPLATE {template}".encode())
            # What the runs before left dirty is not this run's to write out.
            conn.execute("CHECKPOINT")
            yield self.server.url(_DATABASE, "postgresql")
            conn.execute(f"DROP DATABASE {_DATABASE} WITH (FORCE)".encode())

    @contextmanager
    def _running(self, indexer: Indexer, job: Job) -> Iterator["Process"]:
        start, log = indexer.start(job), self.folder / f"{indexer.name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                start.command,
                cwd=start.folder,
                env={**os.environ, **start.variables},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            yield Process(indexer.name, process, log)
        finally:
            end_process(process, _STOP_SECONDS)


@dataclass(frozen=True)
class Process:
    """A running indexer."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def check(self) -> None:
        """Raises `ProcessEnded` for one that failed."""
        if self.process.poll():
            tail = self.log.read_text(errors="replace")[-2000:]
            raise ProcessEnded(f"{self.name} ended with {self.process.returncode}: {tail}")


class Rows:
    """Events that an indexer has committed."""

    def __init__(self, url: str, indexer: Indexer) -> None:
        self._conn = psycopg.connect(url, autocommit=True)
        self._indexer = indexer
        self._has_table = False
        self._query = f"SELECT 1 FROM {indexer.table} WHERE {indexer.row}".encode()

    def close(self) -> None:
        """Close the connection."""
        self._conn.close()

    def has(self, height: int, events: int) -> bool:
        """Whether the last of a block's events is there."""
        if not self._has_table:
            row = self._conn.execute("SELECT to_regclass(%s)", [self._indexer.table]).fetchone()
            self._has_table = row is not None and row[0] is not None
        if not self._has_table:
            return False
        values = {"height": height, "position": events - 1}
        return self._conn.execute(self._query, values).fetchone() is not None

    def wait(self, height: int, events: int, process: Process, poll_seconds: float) -> None:
        """Until `has`. Raises `TimeoutError`, or `ProcessEnded`.

        Polls: the tables of the peers announce nothing. The pause is the error of the figure.
        """
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not self.has(height, events):
            process.check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"block {height} is not stored after {TIMEOUT_SECONDS:.0f} s")
            time.sleep(poll_seconds)

    def check(self, height: int, count: int, first_amount: int) -> None:
        """Raises `AssertionError` unless the tables have just these events up to the block."""
        expected = (count, sum(range(first_amount, first_amount + count)))
        for query in self._indexer.totals:
            found = self._conn.execute(query.encode(), {"height": height}).fetchone()
            if found != expected:
                raise AssertionError(f"{self._indexer.name} has {found}, not {expected}: {query}")


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextmanager
def open_bench(emitter: Emitter) -> Iterator[Bench]:
    """A node with the events of the backfill, and a Postgres with the databases to copy."""
    hour_ago = int(time.time()) - 3_600
    with (
        server_folder("bench", memory=None) as folder,
        EmbeddedPostgres(folder / "postgres") as server,
        # Blocks that are mined at once have times a second apart.
        AnvilProcess(folder / "anvil.log", genesis_time=hour_ago) as node,
        JsonRpc(node.rpc_url) as rpc,
    ):
        migrate(make_url(server.url("template_isthmus")))
        with psycopg.connect(server.url("postgres", "postgresql"), autocommit=True) as conn:
            conn.execute("CREATE DATABASE template_subsquid")
        with psycopg.connect(server.url("template_subsquid", "postgresql")) as conn:
            conn.execute(SUBSQUID_TABLES)
        emitter.install(rpc, local_chain())
        postmaster = (folder / "postgres" / "postmaster.pid").read_text().split()[0]
        bench = Bench(folder, server, int(postmaster), node, rpc, emitter)
        for _ in range(BLOCKS):
            bench.mine(EVENTS)
        for _ in range(DEPTH):
            rpc("evm_mine")
        print_line(f"a chain of {BLOCKS * EVENTS:,} events")
        yield bench
