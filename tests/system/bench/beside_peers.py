"""Isthmus beside other indexers of EVM chains: Subsquid and Ponder, each in a run of its own.

Both read the same chain from the same anvil and write to the same Postgres (fsync on), each to a
new database; they take turns, and which begins a round changes. The rows of both must have the
number and the sum of the transfers that were mined, or the run fails.

- `backfill`: 100,800 ERC-20 transfers in 400 blocks, one transaction a block. From exec of the
  process to the commit of the last row, which a poll every 20 ms sees: one every 5 ms took a tenth
  of a core from an indexer that uses both. Isthmus runs as `isthmus backfill`; Subsquid as
  `node lib/main.js`, which is what `sqd process` does; Ponder as `ponder start`. `cpu_s` is of the
  process until it has stopped, `postgres_cpu_s` of the server.
- `catch_up`: the same transfers by the live path, which goes on behind them: `isthmus follow`, and
  the peers without a last block.
- `head`: from the call of `evm_mine` for a block of five transfers until a poll every 2 ms sees the
  last of them. All three have the node's WebSocket. Each round starts a new process, and
  blocks of a warm-up are not counted. The next block is mined when the last is stored.

`peers/` has their configurations: no rate limit (Ponder has one for each URL, and is given the node
many times), Ponder's cache of RPC answers off as its documentation says for Anvil, and a finality
of 0 for Subsquid's backfill. Their packages are those of the lock files, installed under
`.cache/peers` at the first run.

`foreign_share` is what other processes had of all cores during the rounds, and `load_average` that
at the start. Ratios are the peer's time by that of Isthmus.

Not compared: Subsquid stores the decoded transfer alone. Ponder stores raw logs, blocks and
transactions too. Isthmus stores raw logs, asks for the events of all its contracts, proves the logs
of head blocks by their receipts, checks that blocks join, and folds movements and transfers; its
database has the warehouse's tables before the clock starts, as Subsquid's has its table. Ponder
makes its tables within the time.
"""

import os
import resource
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import orjson
import psycopg
from sqlalchemy.engine import make_url

from devnet.evm_node import AnvilProcess, JsonRpc
from devnet.processes import end_process
from tests.memory import server_folder
from tests.system.bench.indexers import (
    SUBSQUID_TABLE,
    Indexer,
    Job,
    isthmus_indexer,
    local_chain,
    ponder_indexer,
    subsquid_indexer,
)
from tests.system.bench.log_chain import install_transfers, submit_transfers
from tests.system.bench.npm_project import NotInstalled, install
from tests.system.bench.processor import ForeignLoad, family_seconds
from tests.system.bench.site import milliseconds, percentile, print_line, until
from warehouse_schema.embedded import EmbeddedPostgres, Server
from warehouse_schema.migrate import migrate

ROUNDS = 3
BLOCKS = 400
TRANSFERS = 252
"""Of a block of the backfill. Never a round number of logs in a range, which a reader halves."""
DEPTH = 70
"""Empty blocks on top: what an indexer calls final by default is at most 64 blocks deep."""
HEAD_BLOCKS = 70
"""Of a round."""
HEAD_TRANSFERS = 5
WARM_UP = 20
BLOCK_SECONDS = 0.25
TIMEOUT_SECONDS = 300.0
_STOP_SECONDS = 30.0
_BACKFILL_POLL_SECONDS = 0.02
_HEAD_POLL_SECONDS = 0.002
_DATABASE = "bench_run"
_PEERS = Path(__file__).parent / "peers"


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


def measure_subsquid() -> dict[str, Any]:
    """Isthmus and Subsquid in turns."""
    return _measure("subsquid", "@subsquid/evm-processor", subsquid_indexer)


def measure_ponder() -> dict[str, Any]:
    """Isthmus and Ponder in turns."""
    return _measure("ponder", "ponder", ponder_indexer)


def _measure(name: str, package: str, peer_in: Callable[[Path], Indexer]) -> dict[str, Any]:
    try:
        folder = install(_PEERS / name)
    except NotInstalled as reason:
        return {"skipped": str(reason)}
    with _open_bench() as bench:
        pair = (isthmus_indexer(bench.folder), peer_in(folder))
        found = {each.name: Rounds() for each in pair}
        load = ForeignLoad([os.getpid(), bench.postmaster])
        for number in range(ROUNDS):
            for indexer in pair if number % 2 == 0 else pair[::-1]:
                bench.backfill(indexer, found[indexer.name])
                bench.catch_up(indexer, found[indexer.name])
                bench.follow(indexer, found[indexer.name])
        foreign = load.share()
    ours, theirs = found["isthmus"], found[name]
    return {
        "peer": f"{package} {_version(folder, package)}",
        "node_js": subprocess.check_output(["node", "--version"], text=True).strip(),
        "events": BLOCKS * TRANSFERS,
        "backfill": {each: rounds.backfill() for each, rounds in found.items()},
        "backfill_ratio": _ratio(theirs.seconds, ours.seconds),
        "catch_up": {each: rounds.catch_up() for each, rounds in found.items()},
        "catch_up_ratio": _ratio(theirs.catch_up_seconds, ours.catch_up_seconds),
        "head": {each: rounds.head() for each, rounds in found.items()},
        "head_p50_ratio": round(percentile(theirs.delays, 0.5) / percentile(ours.delays, 0.5), 2),
        "head_blocks": ROUNDS * HEAD_BLOCKS,
        "rounds": ROUNDS,
        "load_average": round(load.average, 1),
        "foreign_share": round(foreign, 3),
    }


def _ratio(theirs: Sequence[float], ours: Sequence[float]) -> float:
    """Of the rounds, the median."""
    return round(median(peer / mine for peer, mine in zip(theirs, ours, strict=True)), 2)


def _version(folder: Path, package: str) -> str:
    manifest = folder / "node_modules" / package / "package.json"
    return str(orjson.loads(manifest.read_bytes())["version"])


# Where they run


class ProcessEnded(Exception):
    """An indexer ended before its last row was stored."""


@dataclass
class Bench:
    """A chain with the transfers of the backfill, and a Postgres."""

    folder: Path
    server: Server
    postmaster: int
    node: AnvilProcess
    rpc: JsonRpc
    amount: int = 1
    """Of the next transfer. Amounts go up by one, so that a sum tells of each."""

    def mine(self, transfers: int) -> float:
        """Mine a block with so many transfers; returns when mining began."""
        submit_transfers(self.rpc, local_chain(), self.amount, transfers)
        self.amount += transfers
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
        """One run of the live path from an empty database, until it has the same transfers."""
        with self._database(indexer.template) as url:
            began = time.monotonic()
            with self._reading_history(indexer, Job(self.node, url, 1, None)):
                found.catch_up_seconds.append(time.monotonic() - began)
        print_line(f"{indexer.name}: caught up in {found.catch_up_seconds[-1]:.2f} s")

    @contextmanager
    def _reading_history(self, indexer: Indexer, job: Job) -> Iterator[None]:
        """A process that has stored the transfers of the backfill."""
        with self._running(indexer, job) as process:
            seen = Rows(job.database, indexer)
            seen.wait(BLOCKS, TRANSFERS, process, _BACKFILL_POLL_SECONDS)
            yield
            seen.check(BLOCKS, BLOCKS * TRANSFERS, 1)
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
                self.mine(HEAD_TRANSFERS)
            seen.wait(self.height(), HEAD_TRANSFERS, process, _HEAD_POLL_SECONDS)
            height = self.height()
            for number in range(1, HEAD_BLOCKS + 1):
                began = self.mine(HEAD_TRANSFERS)
                seen.wait(height + number, HEAD_TRANSFERS, process, _HEAD_POLL_SECONDS)
                found.delays.append(time.monotonic() - began)
                until(began + BLOCK_SECONDS)
            seen.check(self.height(), self.amount - amount, amount)
            seen.close()
        print_line(f"{indexer.name}: p50 {median(found.delays[-HEAD_BLOCKS:]) * 1000:.1f} ms")

    def _mine_until_stored(self, first: int, seen: "Rows", process: "Process") -> None:
        """Mine blocks until `first` is stored: an indexer begins when it hears of a new block."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not seen.has(first, HEAD_TRANSFERS):
            process.check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"block {first} is not stored after {TIMEOUT_SECONDS:.0f} s")
            until(self.mine(HEAD_TRANSFERS) + BLOCK_SECONDS)

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
    """Transfers that an indexer has committed."""

    def __init__(self, url: str, indexer: Indexer) -> None:
        self._conn = psycopg.connect(url, autocommit=True)
        self._indexer = indexer
        self._has_table = False
        self._query = f"SELECT 1 FROM {indexer.table} WHERE {indexer.row}".encode()

    def close(self) -> None:
        """Close the connection."""
        self._conn.close()

    def has(self, height: int, transfers: int) -> bool:
        """Whether the last of a block's transfers is there."""
        if not self._has_table:
            row = self._conn.execute("SELECT to_regclass(%s)", [self._indexer.table]).fetchone()
            self._has_table = row is not None and row[0] is not None
        if not self._has_table:
            return False
        values = {"height": height, "position": transfers - 1}
        return self._conn.execute(self._query, values).fetchone() is not None

    def wait(self, height: int, transfers: int, process: Process, poll_seconds: float) -> None:
        """Until `has`. Raises `TimeoutError`, or `ProcessEnded`.

        Polls: the tables of the peers announce nothing. The pause is the error of the figure.
        """
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not self.has(height, transfers):
            process.check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"block {height} is not stored after {TIMEOUT_SECONDS:.0f} s")
            time.sleep(poll_seconds)

    def check(self, height: int, count: int, first_amount: int) -> None:
        """Raises `AssertionError` unless the table has just these transfers up to the block."""
        query = (
            f"SELECT count(*), sum(amount) FROM {self._indexer.table}"
            f" WHERE {self._indexer.height} <= %s"
        )
        found = self._conn.execute(query.encode(), [height]).fetchone()
        expected = (count, sum(range(first_amount, first_amount + count)))
        if found != expected:
            raise AssertionError(f"{self._indexer.name} has {found}, not {expected}")


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextmanager
def _open_bench() -> Iterator[Bench]:
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
            conn.execute(SUBSQUID_TABLE)
        install_transfers(rpc, local_chain())
        postmaster = (folder / "postgres" / "postmaster.pid").read_text().split()[0]
        bench = Bench(folder, server, int(postmaster), node, rpc)
        for _ in range(BLOCKS):
            bench.mine(TRANSFERS)
        for _ in range(DEPTH):
            rpc("evm_mine")
        print_line(f"a chain of {BLOCKS * TRANSFERS:,} transfers")
        yield bench
