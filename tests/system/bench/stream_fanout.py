"""How long after a commit a thousand clients have the message, and what each delivery costs.

One process of the API serves them all. A ledger changes one offer: one message to each client. The
clock starts as COMMIT is sent to a Postgres that syncs its log; it stops when the clients' process
has read the message. CPU is that of the API's process: user and system, deliveries alone.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import Engine
from sqlalchemy.engine import URL, make_url

from indexer.facts.cursors import notify_ingested
from indexer.orderbook.store import apply_ledgers
from tests.factories.api_server import ROOT, serving
from tests.factories.book import CHAIN, account, usdc
from tests.factories.contract_model import ContractModel
from tests.factories.notifications import publishing
from tests.memory import server_folder
from tests.system.bench.site import milliseconds, percentile, print_line, until
from warehouse_schema.embedded import EmbeddedPostgres
from warehouse_schema.engine import make_engine
from warehouse_schema.identifiers import Height
from warehouse_schema.migrate import migrate

CLIENTS = 1_000
WARM_UP = 5
CHANGES = 40
SECONDS_APART = 0.2
PROVIDER = account("ana")


def measure() -> dict[str, Any]:
    """p50 and p99 in milliseconds over 40 messages to each of 1,000 clients."""
    with _warehouse() as (url, home):
        engine = make_engine(url, role="indexer")
        model = _market()
        _commit(engine, model)
        many = {"ISTHMUS_STREAMS": str(CLIENTS), "ISTHMUS_STREAMS_PER_ADDRESS": str(CLIENTS)}
        with serving(url, home, workers=1, settings=many) as server:
            process = _only_child(server.process.pid)
            with publishing(engine), _listeners(server.url) as listeners:
                print_line(f"{CLIENTS} clients listen; load {os.getloadavg()[0]:.1f}")
                for _ in range(WARM_UP):
                    _reprice(engine, model)
                    time.sleep(SECONDS_APART)
                before = _cpu_seconds(process)
                committed = _changes(engine, model)
                time.sleep(1.0)
                spent, memory = _cpu_seconds(process) - before, _memory_kb(process)
                told, _ = listeners.communicate(timeout=60)
        engine.dispose()
    arrived = {int(ledger): times for ledger, times in json.loads(told).items()}
    delays = [at - sent for ledger, sent in committed.items() for at in arrived[ledger]]
    if len(delays) != CLIENTS * CHANGES:
        raise RuntimeError(f"{len(delays)} messages arrived of {CLIENTS * CHANGES}")
    return {
        "clients": CLIENTS,
        "p50_ms": milliseconds(percentile(delays, 0.50)),
        "p99_ms": milliseconds(percentile(delays, 0.99)),
        "max_ms": milliseconds(max(delays)),
        "cpu_us_per_delivery": round(spent / len(delays) * 1e6, 1),
        "memory_mb": round(memory / 1024, 1),
        "load": round(os.getloadavg()[0], 1),
        "from": "COMMIT sent",
        "to": "message read by the clients' process",
    }


@contextmanager
def _warehouse() -> Iterator[tuple[URL, Path]]:
    with (
        server_folder("bench", memory=None) as home,
        EmbeddedPostgres(home / "postgres") as postgres,
    ):
        url = make_url(postgres.url("isthmus"))
        migrate(url)
        yield url, home


@contextmanager
def _listeners(url: str) -> Iterator["subprocess.Popen[str]"]:
    where = urlsplit(url)
    command = [
        "-m",
        "tests.system.bench.listeners",
        str(where.hostname),
        str(where.port),
        str(CLIENTS),
    ]
    with subprocess.Popen(
        [sys.executable, *command],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise RuntimeError("the clients did not get as far as their snapshot")
        try:
            yield process
        finally:
            process.kill()


def _market() -> ContractModel:
    model = ContractModel()
    model.config_set()
    model.rail_set("venmo")
    model.deposit(PROVIDER, usdc(500))
    model.payee_set(PROVIDER, "venmo", handle="@ana")
    model.terms_set(PROVIDER)
    return model


def _changes(engine: Engine, model: ContractModel) -> dict[int, float]:
    """Ledger → when its COMMIT was sent."""
    began = time.monotonic()
    committed = {}
    for n in range(CHANGES):
        until(began + n * SECONDS_APART)
        ledger, at = _reprice(engine, model)
        committed[ledger] = at
    return committed


def _reprice(engine: Engine, model: ContractModel) -> tuple[int, float]:
    # A rate that nobody had before, so that each ledger changes the offer.
    model.terms_set(PROVIDER, rate=usdc(1) + model.height)
    return _commit(engine, model)


def _commit(engine: Engine, model: ContractModel) -> tuple[int, float]:
    ledger, events = model.close()
    with engine.connect() as connection, connection.begin() as transaction:
        apply_ledgers(connection, [ledger], events)
        notify_ingested(connection, CHAIN, Height(ledger.height))
        sent = time.monotonic()
        transaction.commit()
    return ledger.height, sent


def _only_child(pid: int) -> int:
    """The process that serves, under the one that was started."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if children:
            return int(children[0])
        time.sleep(0.05)
    raise TimeoutError("the server started no process")


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory_kb(pid: int) -> int:
    """Proportional set size."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    raise ValueError("no Pss in smaps_rollup")
