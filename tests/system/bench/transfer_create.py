"""What starting a transfer takes: `POST /v1/transfers`, each of a quote and a key of its own.

The API on two workers and the run that keeps transfers, on a durable Postgres of the same machine.
Forty owners take turns, so that nobody meets a limit. `p50_ms` and `p99_ms` are of one request
after the other, `per_s` of eight connections at a time; `server_cpu_ms` is the API's processor time
by transfer. The floor is a transaction of as many statements, of which one inserts a row, on a
session of its own without any HTTP: what Postgres and the disk take at least.
"""

import http.client
import json
import os
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import psycopg
from sqlalchemy import Connection, Engine, func

from api.auth.tokens import Tokens
from devnet import services
from devnet.databases import fresh_databases
from devnet.keys import in_files
from devnet.local_http import HOST
from devnet.services import Ports, demo_settings, environment
from devnet.supervisor import ChildSpec, PostgresService, Supervisor, free_port
from indexer.config.networks import load_network
from indexer.config.settings import Settings
from indexer.config.warehouse import database_url, embedded_postgres
from tests.factories.projections import address, insert_cursor, insert_sender
from tests.factories.started import insert_quote
from tests.factories.tokens import URL, private_key, private_pem
from tests.memory import server_folder
from tests.system.bench.orderbook import Server
from tests.system.bench.site import milliseconds, percentile, print_line
from warehouse_schema.engine import make_engine
from warehouse_schema.identifiers import UnixSeconds

OWNERS = 40
WARM, ALONE, TOGETHER = 40, 300, 800
CONNECTIONS = 8
STATEMENTS = 8
"""Of the transaction that makes a transfer: lock, key, quote, status of chains and of the relay,
limits, row, notification."""


@dataclass(frozen=True)
class Request:
    """One transfer to be started."""

    token: str
    quote: str


@dataclass(frozen=True)
class Bench:
    """The server, and what to ask of it."""

    server: Server
    requests: Sequence[Request]
    settings: Settings


def measure() -> dict[str, Any]:
    """What the module's docstring says."""
    load_before = os.getloadavg()[0]
    with _bench(WARM + ALONE + TOGETHER) as bench:
        port, requests = bench.server.port, list(bench.requests)
        _start(port, requests[:WARM])
        alone = _start(port, requests[WARM : WARM + ALONE])
        floor = _floor(bench.settings, ALONE)
        began, cpu = time.monotonic(), bench.server.cpu
        together = _start_together(port, requests[WARM + ALONE :])
        seconds, cpu = time.monotonic() - began, bench.server.cpu - cpu
    return {
        "p50_ms": milliseconds(statistics.median(alone)),
        "p99_ms": milliseconds(percentile(alone, 0.99)),
        "floor_p50_ms": milliseconds(statistics.median(floor)),
        "floor_p99_ms": milliseconds(percentile(floor, 0.99)),
        "per_s": round(len(together) / seconds, 1),
        "together_p99_ms": milliseconds(percentile(together, 0.99)),
        "server_cpu_ms": milliseconds(cpu / len(together)),
        "transfers": len(alone) + len(together),
        "machine_load": [round(load_before, 1), round(os.getloadavg()[0], 1)],
    }


def _start(port: int, requests: Sequence[Request]) -> list[float]:
    """Seconds of each. Raises `RuntimeError` for one that was refused."""
    connection = http.client.HTTPConnection(HOST, port, timeout=30)
    took = []
    for each in requests:
        headers = {
            "Authorization": f"Bearer {each.token}",
            "Idempotency-Key": each.quote,
            "Content-Type": "application/json",
        }
        body = json.dumps({"quote_id": each.quote})
        began = time.monotonic()
        connection.request("POST", "/v1/transfers", body, headers)
        answer = connection.getresponse()
        text = answer.read()
        took.append(time.monotonic() - began)
        if answer.status != 201:
            raise RuntimeError(f"{answer.status} {text.decode()}")
    connection.close()
    return took


def _start_together(port: int, requests: Sequence[Request]) -> list[float]:
    took: list[float] = []
    errors: list[Exception] = []

    def go(own: Sequence[Request]) -> None:
        try:
            took.extend(_start(port, own))
        except (OSError, RuntimeError, http.client.HTTPException) as error:
            errors.append(error)

    threads = [
        threading.Thread(target=go, args=(requests[number::CONNECTIONS],))
        for number in range(CONNECTIONS)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    for error in errors:
        raise error
    return took


def _floor(settings: Settings, times: int) -> list[float]:
    url = database_url(settings).set(drivername="postgresql")
    took = []
    with psycopg.connect(url.render_as_string(hide_password=False)) as session:
        session.execute("CREATE TABLE public.floor (id integer PRIMARY KEY)")
        session.commit()
        for number in range(times):
            began = time.monotonic()
            for _ in range(STATEMENTS - 1):
                session.execute("SELECT 1").fetchone()
            session.execute("INSERT INTO public.floor VALUES (%s)", [number])
            session.commit()
            took.append(time.monotonic() - began)
    return took


@contextmanager
def _bench(number: int) -> Iterator[Bench]:
    with server_folder("bench", memory=None) as folder:
        settings = demo_settings(Settings(load_network("devnet"), folder, None, {}))
        key = private_key("bench")
        with Supervisor(settings.home, print_line) as supervisor:
            supervisor.start(PostgresService(embedded_postgres(settings)))
            fresh_databases(settings)
            ports = Ports(free_port(), page=0, code=0)
            own = {"ISTHMUS_URL": URL, "ISTHMUS_TOKEN_KEY": private_pem(key)}
            variables = environment(settings) | in_files(folder / "keys", own)
            server = Server(supervisor.run(services.api(ports, variables)), ports.api)
            supervisor.run(_keeper(variables))
            engine = make_engine(database_url(settings))
            tokens = Tokens(key, issuer=URL, clock=_now)
            yield Bench(server, _asked(engine, tokens, number), settings)
            engine.dispose()


def _now() -> UnixSeconds:
    return UnixSeconds(int(time.time()))


def _keeper(variables: dict[str, str]) -> ChildSpec:
    command = services.isthmus("transfers")
    return ChildSpec("keeper", command, ready=lambda: True, environment=variables)


def _asked(engine: Engine, tokens: Tokens, number: int) -> list[Request]:
    network = load_network("devnet")
    owners = [address(each) for each in range(OWNERS)]
    held = {owner: tokens.issue(owner, jti=owner) for owner in owners}
    with engine.begin() as conn:
        for chain in network.chains:
            # Neither follower nor relay runs: their reports are dated an hour ahead.
            later = func.now() + timedelta(hours=1)
            insert_cursor(conn, chain.id, idle_seconds=-3_600, relayed=False, reported_at=later)
            insert_sender(conn, chain.id, silent_seconds=-3_600)
        return [
            Request(held[owner], _quote(conn, owner))
            for owner in (owners[each % OWNERS] for each in range(number))
        ]


def _quote(conn: Connection, owner: str) -> str:
    network = load_network("devnet")
    [evm] = network.evm
    return insert_quote(
        conn,
        owner=owner,
        dest_address=owner,
        source_chain=evm.id,
        source_asset=f"{evm.id}/erc20:{evm.usdc}",
        source_token=str(evm.usdc),
        dest_chain=network.stellar.id,
        dest_asset=network.stellar.usdc,
        amount_in=1_000_000,
        amount_out=9_999_000,
    )
