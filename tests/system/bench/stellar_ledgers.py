"""What a follower needs for full ledgers of Stellar: processor time, and time until they are read.

Ledgers of protocol 30 with 6,000 transfers each of USDC between accounts that are all watched, at a
steady pace from a stand-in for RPC (`ledger_node`). The follower runs bare, in a process of its
own. The clock of a ledger starts when the node has it, and stops when a poll sees the commit of its
rows and projections, up to 2 ms late. Counts and sums are compared with what was generated;
`contents` is a hash of all rows of facts and projections, equal for equal options and build.

`ISTHMUS_BENCH_LEDGER_SECONDS` (2) is the time between ledgers, `ISTHMUS_BENCH_LEDGERS` (40) their
number; a million events take 1 GB of memory in this process.

`stellar_ledgers_beside_gets` is the same beside 500 `GET`s of the order book a second, of two
workers of the API and 200 offers. `gets_p99_ratio` is their p99 by that of as many `GET`s just
before, while no ledger closes. `stellar_ledgers_behind` is about as many ledgers that are all there
at once, as after an outage.
"""

import gc
import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, NullPool, create_engine, func, insert, select, text

from devnet.services import environment, follower
from devnet.supervisor import Supervisor
from indexer.addresses import account_of_key
from indexer.config.settings import Settings
from indexer.config.warehouse import database_url, embedded_postgres, open_engine
from tests.system.bench.book_reads import BookReads
from tests.system.bench.ledger_node import (
    FullLedger,
    LedgerNode,
    account_keys,
    full_ledgers,
    serving,
)
from tests.system.bench.processor import family_seconds, processor_seconds
from tests.system.bench.site import (
    Commits,
    milliseconds,
    percentile,
    print_line,
    until,
    warehouse,
)
from warehouse_schema.events import asset_movements
from warehouse_schema.facts import blocks, cursors, stellar_events
from warehouse_schema.identifiers import Height
from warehouse_schema.intake import watched_addresses
from warehouse_schema.metadata import FACTS, PROJECTIONS, metadata

FIRST = 60_000_000
LEDGERS, LEDGER_SECONDS = 40, 2.0
TRANSFERS = 6_000
"""Of a ledger."""
ACCOUNTS = 20_000
WARM_UP = 4
"""Ledgers before those that count."""
TIMEOUT_SECONDS = 120.0
"""Without a commit."""


@dataclass(frozen=True)
class _Run:
    """A follower that has read the first `WARM_UP` ledgers."""

    supervisor: Supervisor
    node: LedgerNode
    ledgers: Sequence[FullLedger]
    """Those that count."""
    seconds: float
    """Between two of them."""
    commits: Commits
    follower: int
    """Its process id."""
    server: int
    """Postgres's process id."""
    reads: BookReads | None

    def used(self) -> tuple[float, float]:
        """Processor seconds of the follower and of Postgres so far."""
        return processor_seconds(self.follower), family_seconds(self.server)


def measure() -> dict[str, Any]:
    """Ledgers alone."""
    return _measure(_at_their_pace)


def measure_beside_gets() -> dict[str, Any]:
    """Ledgers beside `GET`s of the order book."""
    return _measure(_at_their_pace, beside_gets=True)


def measure_behind() -> dict[str, Any]:
    """Ledgers that are all there at once."""
    return _measure(_all_at_once)


def _measure(
    figures_of: Callable[[_Run], dict[str, Any]], *, beside_gets: bool = False
) -> dict[str, Any]:
    # Taken out of the environment: the follower refuses what is no setting of its own.
    count = int(os.environ.pop("ISTHMUS_BENCH_LEDGERS", LEDGERS))
    seconds = float(os.environ.pop("ISTHMUS_BENCH_LEDGER_SECONDS", LEDGER_SECONDS))
    load = os.getloadavg()[0]
    with warehouse() as (supervisor, settings):
        chain = replace(settings.network.stellar, start_height=Height(FIRST))
        print_line(f"making {WARM_UP + count} ledgers of {TRANSFERS} transfers")
        ledgers = list(full_ledgers(chain, FIRST, WARM_UP + count, TRANSFERS, ACCOUNTS, seconds))
        # Millions of objects that stay: this process answers the follower.
        gc.freeze()
        with serving(node := LedgerNode(chain, ledgers)) as url:
            network = replace(settings.network, stellar=chain)
            settings = replace(settings, network=network, nodes={chain.id: (url,)})
            _watch(settings)
            # Fills the order book, which the follower would have a row of.
            reads = BookReads(supervisor, settings) if beside_gets else None
            commits = Commits(settings, chain.id)
            commits.start()
            child = supervisor.run(follower(chain.id, environment(settings)))
            _close(node, ledgers[1:WARM_UP], seconds)
            _await(supervisor, commits, node.latest)
            counted = ledgers[WARM_UP:]
            postgres = _postmaster(settings)
            run = _Run(supervisor, node, counted, seconds, commits, child.pid, postgres, reads)
            figures = figures_of(run) | {"peak_rss_mb": _peak_megabytes(child.pid)}
            child.stop()
            commits.stop()
        engine = open_engine(settings, "analyst")
        _check(engine, ledgers)
        engine.dispose()
        figures["contents"] = _contents(settings)
    return {
        **figures,
        "ledgers": count,
        "ledger_seconds": seconds,
        "transfers_per_ledger": TRANSFERS,
        "from": "the node has the ledger",
        "to": "commit seen by a poll every 2 ms",
        "load": round(load, 1),
    }


def _at_their_pace(run: _Run) -> dict[str, Any]:
    reads = run.reads
    if reads is not None:
        reads.begin(len(run.ledgers) * run.seconds)
    before = run.used()
    print_line(f"closing {len(run.ledgers)} ledgers at {run.seconds} s")
    there = _close(run.node, run.ledgers, run.seconds)
    last, ended = run.commits.seen[-1][0], time.monotonic()
    read_figures = {} if reads is None else reads.finish()
    _await(run.supervisor, run.commits, run.node.latest)
    delays = [run.commits.when(height) - at for height, at in there]
    return {
        **_used_per_ledger(run, before),
        "p50_ms": milliseconds(percentile(delays, 0.50)),
        "p99_ms": milliseconds(percentile(delays, 0.99)),
        "lag_ledgers": run.node.latest - last,
        "lag_s": round(max(0.0, run.commits.when(run.node.latest) - ended), 2),
        **read_figures,
    }


def _all_at_once(run: _Run) -> dict[str, Any]:
    before, began = run.used(), time.monotonic()
    run.node.latest = run.ledgers[-1].height
    _await(run.supervisor, run.commits, run.node.latest)
    took = run.commits.when(run.node.latest) - began
    return {**_used_per_ledger(run, before), "s_per_ledger": round(took / len(run.ledgers), 3)}


def _used_per_ledger(run: _Run, before: tuple[float, float]) -> dict[str, Any]:
    (follower_before, server_before), (follower_after, server_after) = before, run.used()
    count = len(run.ledgers)
    return {
        "cpu_s_per_ledger": round((follower_after - follower_before) / count, 3),
        "postgres_cpu_s_per_ledger": round((server_after - server_before) / count, 3),
    }


def _close(
    node: LedgerNode, ledgers: Sequence[FullLedger], seconds: float
) -> list[tuple[int, float]]:
    """Heights of the ledgers, and when the node had each; returns one beat after the last."""
    began = time.monotonic()
    there = []
    for beat, ledger in enumerate(ledgers, start=1):
        until(began + beat * seconds)
        there.append((ledger.height, time.monotonic()))
        node.latest = ledger.height
    until(began + (len(ledgers) + 1) * seconds)
    return there


def _await(supervisor: Supervisor, commits: Commits, height: int) -> None:
    progress, deadline = 0, time.monotonic() + TIMEOUT_SECONDS
    while not commits.reached(height):
        if len(commits.seen) > progress:
            progress, deadline = len(commits.seen), time.monotonic() + TIMEOUT_SECONDS
        if time.monotonic() > deadline:
            raise TimeoutError(f"ledger {height}: no commit for {TIMEOUT_SECONDS} s")
        supervisor.wait(0.05)


def _watch(settings: Settings) -> None:
    chain = settings.network.stellar.id
    rows = [
        {"chain": chain, "address": account_of_key(key), "reason": "a benchmark"}
        for key in account_keys(ACCOUNTS)
    ]
    engine = open_engine(settings, "api")
    with engine.begin() as conn:
        conn.execute(insert(watched_addresses), rows)
    engine.dispose()


def _check(engine: Engine, ledgers: Sequence[FullLedger]) -> None:
    """A figure for rows that are not there would be worth nothing."""
    events = sum(len(each.events) for each in ledgers)
    amount = func.sum(asset_movements.c.amount)
    expected = {
        select(cursors.c.height): ledgers[-1].height,
        select(func.count()).select_from(blocks): len(ledgers),
        select(func.sum(blocks.c.events)): events,
        select(func.count()).select_from(stellar_events): events,
        select(func.count()).select_from(asset_movements): events,
        select(amount): sum(each.amount for each in ledgers),
    }
    with engine.connect() as conn:
        for query, value in expected.items():
            found = conn.scalar(query)
            if found != value:
                raise AssertionError(f"{query}: {found}, not {value}")


def _contents(settings: Settings) -> str:
    """Hash of all rows of facts and projections, without the database's own clocks and numbers."""
    digest = sha256()
    # As the owner: no role may read every table.
    engine = create_engine(database_url(settings), poolclass=NullPool)
    with engine.connect() as conn:
        for name, table in sorted(metadata.tables.items()):
            own = [c.name for c in table.c if c.server_default is None and c.identity is None]
            # The cursor has the times of heartbeats.
            if table.schema not in (FACTS, PROJECTIONS) or table is cursors:
                continue
            row = ", ".join(f'"{each}"' for each in own)
            sums = f"SELECT count(*), sum(hashtextextended(ROW({row})::text, 0)) FROM {name}"
            digest.update(repr((name, *conn.execute(text(sums)).one())).encode())
    return digest.hexdigest()[:16]


def _postmaster(settings: Settings) -> int:
    data = embedded_postgres(settings).data_dir
    return int((data / "postmaster.pid").read_text().split()[0])


def _peak_megabytes(pid: int) -> int:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    if found is None:
        raise LookupError(f"process {pid} has no peak of memory")
    return int(found[1]) // 1024
