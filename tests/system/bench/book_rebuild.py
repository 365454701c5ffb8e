"""How fast the order book is folded from nothing, from a million decoded events and from four.

Events lie in `facts` as ingestion leaves them; Postgres is as an operator has it (fsync on). Each
rebuild is `isthmus rebuild`'s own function in a process of its own: it reads the events,
folds them, and writes providers, orders, offers and depth. The book is empty before, so that what
is sent to the socket's clients is the offers alone.
"""

import multiprocessing
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from typing import Any

from sqlalchemy import Engine, delete, func, select
from sqlalchemy.engine import make_url

from indexer.config.networks import load_network
from indexer.ingest.rebuild import rebuild
from indexer.orderbook.store import BOOK_TABLES
from tests.memory import server_folder
from tests.system.bench.book_events import PROVIDERS, BookMachine, store
from tests.system.bench.site import print_line
from warehouse_schema import projections
from warehouse_schema.embedded import EmbeddedPostgres
from warehouse_schema.engine import make_engine
from warehouse_schema.facts import alarms
from warehouse_schema.migrate import migrate

EVENTS = 1_000_000
TIMES = 4


@dataclass(frozen=True)
class Rebuilt:
    """One rebuild."""

    events: int
    orders: int
    seconds: float
    cpu_seconds: float
    """Of the process, Postgres not counted."""
    peak_mb: float
    """Resident memory of the process, the interpreter and its libraries included."""

    @property
    def rate(self) -> float:
        return self.events / self.seconds

    @property
    def cpu_per_event(self) -> float:
        """Microseconds."""
        return 1e6 * self.cpu_seconds / self.events


def measure(events: int = EVENTS) -> dict[str, Any]:
    """Events a second, and how that and memory are at four times the events."""
    with _warehouse() as (url, owner):
        machine = BookMachine(load_network("devnet").stellar)
        store(owner, machine, events)
        one = _rebuilt(url, owner)
        store(owner, machine, (TIMES - 1) * events)
        four = _rebuilt(url, owner)
    return {
        "events_per_s": round(one.rate),
        "peak_mb": round(one.peak_mb),
        "cpu_us_per_event": round(one.cpu_per_event, 1),
        "events": one.events,
        "orders": one.orders,
        "providers": PROVIDERS,
        "rate_4x": round(four.rate),
        "ratio_4x": round(four.rate / one.rate, 3),
        "cpu_ratio_4x": round(one.cpu_per_event / four.cpu_per_event, 3),
        "peak_mb_4x": round(four.peak_mb),
        "events_4x": four.events,
        "orders_4x": four.orders,
    }


def _rebuilt(url: str, owner: Engine) -> Rebuilt:
    """A rebuild of a dropped book in a process of its own."""
    with owner.begin() as conn:
        for table in (*BOOK_TABLES, projections.stream_events):
            conn.execute(delete(table))
    rebuilt = _in_a_process(url)
    with owner.connect() as conn:
        orders = conn.scalar(select(func.count()).select_from(projections.orders))
        raised = conn.scalar(select(func.count()).select_from(alarms))
    if (orders, raised) != (rebuilt.orders, 0):
        raise AssertionError(f"{rebuilt} wrote {orders} orders and raised {raised} alarms")
    print_line(
        f"{rebuilt.events:,} events folded in {rebuilt.seconds:.0f} s: {rebuilt.rate:,.0f}/s, "
        f"{rebuilt.cpu_per_event:.1f} µs of CPU each, {rebuilt.peak_mb:.0f} MB at most"
    )
    return rebuilt


def _in_a_process(url: str) -> Rebuilt:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(theirs, url))
    child.start()
    theirs.close()
    try:
        return Rebuilt(**ours.recv())
    finally:
        child.join()


def _child(out: Connection, url: str) -> None:
    engine = make_engine(make_url(url), role="indexer")
    with engine.connect():
        cpu, began = time.process_time(), time.monotonic()
        report = rebuild(engine, load_network("devnet"))
        seconds, cpu = time.monotonic() - began, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    out.send(asdict(Rebuilt(report.events, report.orders, seconds, cpu, peak)))


@contextmanager
def _warehouse() -> Iterator[tuple[str, Engine]]:
    """URL and owner's engine of a migrated database; gone afterwards."""
    with (
        server_folder("bench", memory=None) as folder,
        EmbeddedPostgres(folder / "postgres") as server,
    ):
        url = server.url("isthmus_bench")
        migrate(make_url(url))
        owner = make_engine(make_url(url))
        yield url, owner
        owner.dispose()
