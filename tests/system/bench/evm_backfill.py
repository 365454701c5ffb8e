"""How fast history comes in from a local node, beside a floor that only asks and copies.

Each run is a process of its own on a database of its own, cloned from a migrated one; Postgres is
as an operator has it (fsync on). The clock of a backfill runs from the call to the commit of its
last facts. The floor asks the same node the same questions for the same ranges (`eth_getLogs` and
nothing else), parses the answers and throws them away, and copies ready-made rows: the very rows
that the backfill writes, into the same tables with the same indexes, a transaction a range.
"""

import multiprocessing
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from multiprocessing.connection import Connection
from typing import Any

import httpx
import orjson
from sqlalchemy import NullPool, create_engine, func, select, text
from sqlalchemy.engine import make_url

from devnet.evm_node import AnvilProcess, JsonRpc
from indexer.chains.evm.log_filters import transfer_filters
from indexer.chains.evm.reader import EvmReader
from indexer.config.networks import EvmChain, Network, load_network
from indexer.decode.evm import event_topics
from indexer.facts.columns_copy import copy_text
from indexer.ingest.backfill import BackfillProgress, backfill
from indexer.ingest.backfill.chunks import Chunk
from indexer.ingest.backfill.fetch import fetch_ahead, open_source
from tests.memory import server_folder
from tests.system.bench.log_chain import grow
from tests.system.bench.site import print_line
from warehouse_schema.embedded import EmbeddedPostgres, Server
from warehouse_schema.engine import make_engine
from warehouse_schema.events import EVENT_TABLES
from warehouse_schema.facts import evm_logs
from warehouse_schema.identifiers import Height
from warehouse_schema.migrate import migrate

BLOCKS = 400
MOVEMENTS = 140
"""Of a block: 252 logs. Never a round number of logs in a range, which a reader halves."""
TIMES = 4
RUNS = 3
PAIRS = 5
TEMPLATE = "isthmus_template"


@dataclass(frozen=True)
class Measured:
    """One run."""

    events: int
    seconds: float
    cpu_seconds: float
    """Of the process: neither the node's nor Postgres's."""
    peak_mb: float
    """Resident memory, the interpreter and its libraries included."""

    @property
    def rate(self) -> float:
        return self.events / self.seconds

    @property
    def cpu_per_event(self) -> float:
        """Microseconds."""
        return 1e6 * self.cpu_seconds / self.events


@dataclass(frozen=True)
class Task:
    """What a child process is told."""

    node: str
    database: str
    last: int


class FactsAreIn(Exception):
    """The last facts are committed: what is measured is over."""


def measure() -> dict[str, Any]:
    """Events a second of a chain of 100,800 logs, and of the floor; medians of three runs each."""
    with _bench(BLOCKS) as run:
        backfills, floors = [], []
        for _ in range(RUNS):
            floors.append(run(_floor, BLOCKS))
            backfills.append(run(_backfill, BLOCKS))
            print_line(f"floor {floors[-1].rate:,.0f} events/s, backfill {backfills[-1].rate:,.0f}")
        whole = run(_backfill_and_fold, BLOCKS)
    rate = statistics.median(each.rate for each in backfills)
    floor = statistics.median(each.rate for each in floors)
    # Of neighbours in time: what else the machine does changes more than either of them.
    ratio = statistics.median(
        mine.rate / plain.rate for mine, plain in zip(backfills, floors, strict=True)
    )
    return {
        "events_per_s": round(rate),
        "floor_events_per_s": round(floor),
        "ratio": round(ratio, 2),
        "cpu_s": round(statistics.median(each.cpu_seconds for each in backfills), 2),
        "floor_cpu_s": round(statistics.median(each.cpu_seconds for each in floors), 2),
        "peak_mb": round(max(each.peak_mb for each in backfills)),
        "events": backfills[0].events,
        "with_movements_s": round(whole.seconds, 1),
        "runs": RUNS,
    }


def measure_4x() -> dict[str, Any]:
    """CPU of an event at four times the logs, beside that at one; five pairs, run in turn."""
    with _bench(TIMES * BLOCKS) as run:
        pairs = []
        for _ in range(PAIRS):
            pairs.append((run(_backfill, BLOCKS), run(_backfill, TIMES * BLOCKS)))
            one, four = pairs[-1]
            print_line(f"{one.cpu_per_event:.1f} and {four.cpu_per_event:.1f} µs of CPU an event")
    fours = [four for _, four in pairs]
    ratios = [four.cpu_per_event / one.cpu_per_event for one, four in pairs]
    return {
        "cpu_ratio": round(statistics.median(ratios), 3),
        "cpu_us_per_event": round(statistics.median(each.cpu_per_event for each in fours), 1),
        "events_per_s": round(statistics.median(each.rate for each in fours)),
        "peak_mb": round(max(each.peak_mb for each in fours)),
        "peak_mb_1x": round(max(one.peak_mb for one, _ in pairs)),
        "events": fours[0].events,
        "pairs": PAIRS,
    }


# What runs in a process of its own


def _backfill(task: Task) -> Measured:
    return _measured(task, facts_alone=True)


def _backfill_and_fold(task: Task) -> Measured:
    return _measured(task, facts_alone=False)


def _measured(task: Task, *, facts_alone: bool) -> Measured:
    def report(progress: BackfillProgress) -> None:
        if facts_alone and progress.share == 1.0:
            raise FactsAreIn

    network, chain = _network(), _chain()
    engine, reader = make_engine(make_url(task.database), role="indexer"), _reader(task)
    with engine.connect():
        cpu, began = _cpu(), time.monotonic()
        try:
            backfill(engine, reader, network, Height(1), Height(task.last), report)
        except FactsAreIn:
            print_line("facts are in")
        seconds, cpu = time.monotonic() - began, _cpu() - cpu
    with engine.connect() as conn:
        events = int(conn.scalar(select(func.count()).select_from(evm_logs)) or 0)
        decoded = sum(
            conn.scalar(select(func.count()).select_from(table)) or 0
            for table in EVENT_TABLES.values()
        )
    reader.close()
    expected = task.last * MOVEMENTS * 9 // 5
    if (events, decoded) != (expected, expected):
        raise AssertionError(f"{expected} logs, but {events} raw and {decoded} decoded: {chain.id}")
    return Measured(events, seconds, cpu, _peak())


def _floor(task: Task) -> Measured:
    chain, reader = _chain(), _reader(task)
    reader.check_identity()
    with open_source(reader, _network(), chain.watched) as fetchers:
        chunks = list(fetch_ahead(fetchers, Height(1), Height(task.last)))
    questions = [_questions(reader, chain, chunk) for chunk in chunks]
    engine = make_engine(make_url(task.database), role="indexer")
    with httpx.Client(timeout=60) as client, engine.connect() as conn:
        cpu, began = _cpu(), time.monotonic()
        for chunk, asked in zip(chunks, questions, strict=True):
            for question in asked:
                answer = client.post(
                    task.node, content=question, headers={"content-type": "application/json"}
                )
                orjson.loads(answer.content)["result"]
            with conn.begin():
                for copied in (*chunk.copies, chunk.sends.text):
                    copy_text(conn, copied)
        seconds, cpu = time.monotonic() - began, _cpu() - cpu
    reader.close()
    return Measured(sum(chunk.events for chunk in chunks), seconds, cpu, _peak())


def _questions(reader: EvmReader, chain: EvmChain, chunk: Chunk) -> list[bytes]:
    filters = [*reader._events, *transfer_filters(chain, chain.watched)]
    where = {"fromBlock": hex(chunk.first), "toBlock": hex(chunk.last)}
    calls = [each.query(where) for each in filters]
    return [
        orjson.dumps({"jsonrpc": "2.0", "id": 0, "method": method, "params": params})
        for method, params in calls
    ]


def _network() -> Network:
    """The devnet, followed from above what is read."""
    network = load_network("devnet")
    above = Height(TIMES * BLOCKS + 1)
    return replace(
        network,
        evm=tuple(replace(each, start_height=above, confirmations=0) for each in network.evm),
    )


def _chain() -> EvmChain:
    (chain,) = _network().evm
    return chain


def _reader(task: Task) -> EvmReader:
    return EvmReader(_chain(), [task.node], event_topics)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


# Where it runs


@contextmanager
def _bench(blocks: int) -> Iterator[Callable[[Callable[[Task], Measured], int], Measured]]:
    """A node with so many blocks and a Postgres; call it with what to run and up to which block."""
    with (
        server_folder("bench", memory=None) as folder,
        EmbeddedPostgres(folder / "postgres") as server,
        AnvilProcess(folder / "anvil.log") as node,
        JsonRpc(node.rpc_url) as rpc,
    ):
        migrate(make_url(server.url(TEMPLATE)))
        began = time.monotonic()
        logs = grow(rpc, _chain(), blocks, MOVEMENTS)
        print_line(f"a chain of {logs:,} logs in {time.monotonic() - began:.0f} s")

        def run(what: Callable[[Task], Measured], last: int) -> Measured:
            with _database(server) as url:
                return _in_a_process(what, Task(node.rpc_url, url, last))

        yield run


@contextmanager
def _database(server: Server) -> Iterator[str]:
    """A fresh migrated database; gone afterwards."""
    engine = create_engine(
        make_url(server.url("postgres")), poolclass=NullPool, isolation_level="AUTOCOMMIT"
    )
    with engine.connect() as conn:
        conn.execute(text(f"CREATE DATABASE isthmus_run TEMPLATE {TEMPLATE}"))
        # What the runs before left dirty is not this run's to write out.
        conn.execute(text("CHECKPOINT"))
        yield server.url("isthmus_run")
        conn.execute(text("DROP DATABASE isthmus_run WITH (FORCE)"))


def _in_a_process(what: Callable[[Task], Measured], task: Task) -> Measured:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(theirs, what, task))
    child.start()
    theirs.close()
    try:
        return Measured(**ours.recv())
    finally:
        child.join()


def _child(out: Connection, what: Callable[[Task], Measured], task: Task) -> None:
    out.send(asdict(what(task)))
