"""Two API processes behind HAProxy that cannot reach the database, and reach it again."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Engine, text
from sqlalchemy.engine import URL
from websockets.sync.client import connect

from api.auth.tokens import Tokens
from tests.api.machines.balancer import Balancer, haproxy, port_of
from tests.factories import tokens
from tests.factories.api_server import TIMEOUT, serving
from tests.factories.projections import insert_book
from warehouse_schema.identifiers import UnixSeconds

SETTINGS = {
    "ISTHMUS_NETWORK": "testnet",
    "ISTHMUS_PROXIES": "1",
    "ISTHMUS_URL": tokens.URL,
}
KEY = tokens.private_key("ours")


@pytest.fixture
def balancer(database: URL, tmp_path: Path) -> Iterator[Balancer]:
    """HAProxy in front of two processes that have a database of their own."""
    key = tmp_path / "token-key"
    key.touch(mode=0o600)
    key.write_text(tokens.private_pem(KEY))
    settings = SETTINGS | {"ISTHMUS_TOKEN_KEY_FILE": str(key)}
    with ExitStack() as stack:
        servers = [
            stack.enter_context(serving(database, tmp_path, workers=1, settings=settings))
            for _ in range(2)
        ]
        ports = [port_of(each) for each in servers]
        running = stack.enter_context(haproxy(ports))
        running.wait_until_up()
        yield running


def set_reachable(server: Engine, database: URL, *, reachable: bool) -> None:
    """Let sessions of a database begin, or end those that it has and let none begin."""
    with server.connect() as conn:
        name = database.database
        conn.execute(text(f"ALTER DATABASE {name} ALLOW_CONNECTIONS {reachable}"))
        if not reachable:
            query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :name"
            conn.execute(text(query), {"name": name})


def until_answered(ask: Callable[[], httpx.Response], status: int) -> httpx.Response:
    """The first answer that is no `OVERLOADED`: a busy process drops what waited for a thread."""
    deadline = time.monotonic() + TIMEOUT
    while (answer := ask()).status_code == 503 and answer.json()["code"] == "OVERLOADED":
        assert time.monotonic() < deadline, "HAProxy or the API has no room all the time"
        time.sleep(0.1)
    assert answer.status_code == status, answer.text
    return answer


def log_out(balancer: Balancer, jti: str) -> httpx.Response:
    """A write: the token is revoked."""
    issuer = Tokens(KEY, clock=lambda: UnixSeconds(int(time.time())), issuer=tokens.URL)
    bearer = issuer.issue(tokens.ACCOUNT, jti=jti)
    return httpx.delete(
        f"{balancer.url}/v1/session",
        headers={"Authorization": f"Bearer {bearer}"},
        verify=balancer.tls,
        timeout=TIMEOUT,
    )


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_unready_machines_answer_for_themselves(
    balancer: Balancer, stack: ExitStack, database: URL, engine: Engine, server_engine: Engine
) -> None:
    with engine.begin() as conn:
        insert_book(conn)
    engine.dispose()

    def read_book() -> httpx.Response:
        return balancer.get("/api/v1/orderbook")

    until_answered(read_book, 200)
    until_answered(partial(log_out, balancer, "first"), 200)
    stream = stack.enter_context(connect(balancer.stream_url, ssl=balancer.tls))
    set_reachable(server_engine, database, reachable=False)
    try:
        balancer.wait_until_down()
        # What needs no database.
        assert until_answered(partial(balancer.get, "/healthz"), 200).json() == {"status": "alive"}
        until_answered(partial(balancer.get, "/openapi.json"), 200)
        assert stream.ping().wait(TIMEOUT)
        # Neither an old state nor HAProxy's own words.
        for ask in (read_book, partial(log_out, balancer, "second")):
            answer = until_answered(ask, 503)
            assert answer.json()["code"] == "DATABASE_UNAVAILABLE"
            assert answer.headers["Retry-After"] == "5"
    finally:
        set_reachable(server_engine, database, reachable=True)
    # By the database, not by checks.
    until_answered(read_book, 200)
    until_answered(partial(log_out, balancer, "second"), 200)
