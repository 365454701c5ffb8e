"""What an answer of the order book costs, beside a view that sends the same bytes and no more.

200 offers on a Postgres of its own, two workers of `isthmus api`, 16 kept-alive connections. The
book changes once a second meanwhile: a ledger with another rate, as a fold commits it. For the 304
it does not.

Runs alternate (API, static view, bare WSGI callable, and again), so that each ratio is of runs that
are neighbours in time. `cpu_ms` is user and system time of the server's processes by answer; on a
machine that does other work it is the figure to look at.
"""

import os
import statistics
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import Engine, func, insert, select, update

from devnet import services
from devnet.databases import fresh_databases
from devnet.local_http import HOST
from devnet.process_groups import members
from devnet.services import Ports, demo_settings, environment
from devnet.supervisor import Child, ChildSpec, PostgresService, Supervisor, free_port
from indexer.config.networks import load_network
from indexer.config.settings import Settings
from indexer.config.warehouse import database_url, embedded_postgres
from tests.factories.projections import (
    LEDGER,
    address,
    insert_book,
    insert_depth,
    insert_offer,
    insert_order,
    insert_payee,
    insert_provider,
    insert_rail,
    insert_terms,
)
from tests.memory import server_folder
from tests.system.bench.load import finish_load, start_load
from tests.system.bench.site import milliseconds, percentile, print_line
from warehouse_schema import channels
from warehouse_schema import projections as tables
from warehouse_schema.engine import make_engine

OFFERS = 200
WORKERS = 2
CONNECTIONS = 16
ROUNDS = 5
SECONDS = 2.0
CHANGE_EVERY_SECONDS = 1.0
CHAIN = "stellar:devnet"
ORDER_ID = "0x" + "1f" * 32
RAILS = ("cashapp", "revolut", "venmo", "wise")
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Question:
    """What is asked, and whether the book changes meanwhile."""

    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    status: int = 200
    book_changes: bool = True


@dataclass(frozen=True)
class Run:
    """One run of the load."""

    seconds: float
    took: Sequence[float]
    server_cpu: float
    """Seconds of processor by answer."""
    generator: float
    """Share of a core that the load generator took."""

    @property
    def rate(self) -> float:
        """Answers a second."""
        return len(self.took) / self.seconds


def measure_get() -> dict[str, Any]:
    """All offers, plain."""
    return _measure(Question("/api/v1/orderbook"))


def measure_get_gzip() -> dict[str, Any]:
    """All offers, packed."""
    return _measure(Question("/api/v1/orderbook", {"Accept-Encoding": "gzip"}))


def measure_304() -> dict[str, Any]:
    """All offers, for a client that has them."""
    return _measure(Question("/api/v1/orderbook", status=304, book_changes=False))


def measure_summary() -> dict[str, Any]:
    """The depth summary."""
    return _measure(Question("/api/v1/orderbook/summary"))


def measure_provider() -> dict[str, Any]:
    """One provider."""
    return _measure(Question(f"/api/v1/providers/{address(1)}"))


def measure_intent() -> dict[str, Any]:
    """One order."""
    return _measure(Question(f"/api/v1/intents/{ORDER_ID[2:]}"))


def _measure(question: Question) -> dict[str, Any]:
    with _servers(question) as (engine, api, twin):
        load_before = os.getloadavg()[0]
        with _changing(engine if question.book_changes else None):
            rounds = [
                tuple(run(*target) for target in _targets(question, api, twin))
                for _ in range(ROUNDS)
            ]
    ours, static, bare = (list(runs) for runs in zip(*rounds, strict=True))
    took = [each for run in ours for each in run.took]
    return {
        "rps": _median(run.rate for run in ours),
        "p50_ms": milliseconds(percentile(took, 0.50)),
        "p99_ms": milliseconds(percentile(took, 0.99)),
        "cpu_ms": _cpu(ours),
        "static_rps": _median(run.rate for run in static),
        "static_cpu_ms": _cpu(static),
        "ratio": _ratio(a.rate / b.rate for a, b in zip(ours, static, strict=True)),
        "cpu_ratio": _ratio(b.server_cpu / a.server_cpu for a, b in zip(ours, static, strict=True)),
        "bare_wsgi_rps": _median(run.rate for run in bare),
        "bare_wsgi_cpu_ms": _cpu(bare),
        "generator_share": round(max(run.generator for run in ours + static + bare), 2),
        "answers": len(took),
        "machine_load": [round(load_before, 1), round(os.getloadavg()[0], 1)],
    }


def _median(rates: Iterator[float]) -> int:
    return round(statistics.median(rates))


def _ratio(ratios: Iterator[float]) -> float:
    """1 is as fast, or as cheap, as the static view."""
    return round(statistics.median(ratios), 2)


def _cpu(runs: Sequence[Run]) -> float:
    return round(statistics.median(run.server_cpu for run in runs) * 1000, 3)


# Servers


@dataclass(frozen=True)
class Server:
    """One of the two, and where it listens."""

    child: Child
    port: int

    @property
    def cpu(self) -> float:
        """Processor seconds of all its processes so far."""
        ticks = 0
        for process in members(self.child.pid):
            after_name = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(after_name[11]) + int(after_name[12])
        return ticks / _TICKS


@contextmanager
def _servers(question: Question) -> Iterator[tuple[Engine, Server, Server]]:
    """A filled warehouse, the API on it, and the twin that sends what the API answered."""
    with server_folder("bench", memory=None) as folder:
        settings = demo_settings(Settings(load_network("devnet"), folder, None, {}))
        with Supervisor(settings.home, print_line) as supervisor:
            supervisor.start(PostgresService(embedded_postgres(settings)))
            fresh_databases(settings)
            engine = make_engine(database_url(settings))
            fill_book(engine)
            ours, theirs = (Ports(free_port(), page=0, code=0) for _ in range(2))
            variables = environment(settings)
            api = supervisor.run(services.api(ours, variables, workers=WORKERS))
            _keep_answer(question, ours.api_url, folder / "answers")
            twin = supervisor.run(_twin(theirs, folder / "answers", variables))
            yield engine, Server(api, ours.api), Server(twin, theirs.api)
            engine.dispose()


def _twin(ports: Ports, answers: Path, variables: Mapping[str, str]) -> ChildSpec:
    """The API's own specification, but for the program."""
    program = ("-m", "tests.system.bench.twin", f"{HOST}:{ports.api}", str(WORKERS), str(answers))
    return replace(services.api(ports, variables), name="twin", command=[sys.executable, *program])


def _keep_answer(question: Question, base_url: str, folder: Path) -> None:
    folder.mkdir()
    headers = {"Accept-Encoding": "identity", **question.headers}
    with httpx.stream("GET", base_url + question.path, headers=headers) as answer:
        answer.raise_for_status()
        body = b"".join(answer.iter_raw())
    kept = b"304 NOT MODIFIED\n\n" if question.status == 304 else b"200 OK\n\n" + body
    (folder / "answer").write_bytes(kept)


def _targets(question: Question, api: Server, twin: Server) -> Iterator[tuple[Server, bytes, int]]:
    headers = dict(question.headers)
    if question.status == 304:
        headers["If-None-Match"] = httpx.get(
            f"http://{HOST}:{api.port}{question.path}", headers={"Accept-Encoding": "identity"}
        ).headers["ETag"]
    for server, path in ((api, question.path), (twin, "/static/answer"), (twin, "/bare/answer")):
        lines = [f"GET {path} HTTP/1.1", f"Host: {HOST}:{server.port}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        yield server, "\r\n".join([*lines, "", ""]).encode(), question.status


def run(server: Server, request: bytes, status: int) -> Run:
    """Ask a server for a while."""
    cpu = server.cpu
    seen = finish_load(start_load(server.port, CONNECTIONS, SECONDS, status, request))
    cpu = server.cpu - cpu
    return Run(seen["seconds"], seen["took"], cpu / seen["answers"], seen["own_cpu"])


# The book


def fill_book(engine: Engine) -> None:
    """Half as many providers as offers, each with one in either direction."""
    with engine.begin() as connection:
        insert_book(connection, chain=CHAIN, total_available=100_000, offer_count=OFFERS)
        for rail in RAILS:
            insert_rail(connection, rail)
            insert_depth(connection, rail, 25_000, OFFERS // 2)
        for number in range(1, OFFERS // 2 + 1):
            _fill_provider(connection, number)
        insert_order(connection, order_id=ORDER_ID, provider=address(1))


def _fill_provider(connection: Any, number: int) -> None:
    provider, rails = address(number), sorted({RAILS[number % 4], RAILS[(number + 1) % 4]})
    insert_provider(connection, provider, free="812.4700001", completed_orders=number)
    for rail in rails:
        insert_terms(connection, provider=provider, rail=rail)
        insert_payee(connection, provider=provider, rail=rail)
    for direction in ("onramp", "offramp"):
        insert_offer(
            connection,
            provider=provider,
            direction=direction,
            currency=("EUR", "USD")[number % 2],
            rails=rails,
            rate=f"0.9{number:04d}",
            available="812.4700001",
            handles=dict.fromkeys(rails, f"@provider-{number}"),
            completed_orders=number,
            avg_fulfillment_seconds=431,
        )


@contextmanager
def _changing(engine: Engine | None) -> Iterator[None]:
    """The book changes once a second meanwhile; not without an engine."""
    over = threading.Event()
    thread = threading.Thread(target=_change_until, args=(engine, over))
    if engine is not None:
        thread.start()
    try:
        yield
    finally:
        over.set()
        if engine is not None:
            thread.join()


def _change_until(engine: Engine, over: threading.Event) -> None:
    offers, ledger = tables.offers, LEDGER
    while not over.wait(CHANGE_EVERY_SECONDS):
        ledger += 1
        with engine.begin() as connection:
            connection.execute(
                update(offers)
                .where(offers.c.provider == address(1 + ledger % (OFFERS // 2)))
                .values(rate=9_000_000 + ledger % 1_000_000)
            )
            connection.execute(update(tables.book).values(as_of_ledger=ledger))
            message = {"chain": CHAIN, "ledger": ledger, "channel": "orderbook", "op": "update"}
            connection.execute(
                insert(tables.stream_events).values(**message, entry={}, last=True, revised=False)
            )
            connection.execute(select(func.pg_notify(channels.INGESTED, f"{CHAIN}:{ledger}")))
