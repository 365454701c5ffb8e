"""`isthmus api` as a process: start, file limit, stop."""

import contextlib
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from sqlalchemy import update
from sqlalchemy.engine import URL

from tests.factories.api_server import Server, serving
from tests.factories.projections import LEDGER, STELLAR, insert_cursor
from warehouse_schema import projections

WITH_FEW_FILES = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (160, 160))
from indexer.cli.main import main
main(["api", *sys.argv[1:]])
"""


@pytest.fixture
def program() -> list[str] | None:
    """What the server's process runs, when it is not `isthmus api`."""
    return None


@pytest.fixture
def server(api_database: URL, tmp_path: Path, program: list[str] | None) -> Iterator[Server]:
    """The API on a port of its choice, on the database that these tests share."""
    settings = {"ISTHMUS_NETWORK": "testnet"}
    with serving(api_database, tmp_path, workers=1, settings=settings, program=program) as server:
        yield server


def test_server_stops_on_sigterm(server, book):
    assert "serving without a proxy (ISTHMUS_PROXIES=0)" in server.log[0]
    with httpx.Client(base_url=server.url, timeout=60) as http:
        assert http.get("/healthz").json() == {"status": "alive"}
        # Not before: a busy machine may take longer to start than a chain may be silent.
        insert_cursor(book, STELLAR)
        ready = http.get("/readyz")
        assert ready.status_code == 200, ready.text
        assert [chain["chain"] for chain in ready.json()["chains"]] == [STELLAR]
        offers = http.get("/api/v1/orderbook")
        assert (offers.json(), offers.headers["X-Ledger"]) == ([], str(LEDGER))
        # A chunked body, as a real server hands it on.
        assert http.post("/healthz", content=iter([b"x" * 40_000] * 2)).status_code == 413
    assert server.stop() == 0
    log = "".join(server.log)
    assert "path='/readyz' status=200" in log
    assert "isthmus:" not in log, "the database password is in the log"


@pytest.mark.parametrize("program", [[sys.executable, "-c", WITH_FEW_FILES]], ids=["160 files"])
def test_clients_beyond_the_file_limit_wait(server):
    url = httpx.URL(server.url)
    assert httpx.get(url.join("/healthz"), timeout=60).status_code == 200
    with contextlib.ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(socket.create_connection((url.host, url.port)))
        # Nobody can be let in before somebody leaves.
        with httpx.Client(base_url=url, timeout=1) as http, pytest.raises(httpx.ReadTimeout):
            http.get("/healthz")
    with httpx.Client(base_url=url, timeout=60) as http:
        assert http.get("/healthz").status_code == 200
    assert server.stop() == 0
    log = "".join(server.log)
    assert log.count("Booting worker") <= 1
    assert "Too many open files" not in log


def test_commit_is_visible_through_the_server(server, book):
    with httpx.Client(base_url=server.url, timeout=60) as http:
        assert http.get("/api/v1/orderbook").headers["X-Ledger"] == str(LEDGER)
        book.execute(update(projections.book).values(as_of_ledger=LEDGER + 1))
        committed = time.monotonic()
        while http.get("/api/v1/orderbook").headers["X-Ledger"] == str(LEDGER):
            assert time.monotonic() - committed < 60
