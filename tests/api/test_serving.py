"""`isthmus api` as a process: start, file limit, stop."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from sqlalchemy import update
from sqlalchemy.engine import URL

from devnet.services import isthmus
from tests.factories.projections import LEDGER, STELLAR, insert_cursor
from warehouse_schema import projections

ROOT = Path(__file__).resolve().parents[2]


OPTIONS = ["--bind", "127.0.0.1:0", "--workers", "1"]
WITH_FEW_FILES = f"""
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (160, 160))
from indexer.cli.main import main
main(["api", *{OPTIONS}])
"""


@pytest.fixture
def program() -> list[str]:
    """What the server's process runs."""
    return [*isthmus("api"), *OPTIONS]


@pytest.fixture
def server(
    api_database: URL, tmp_path: Path, program: list[str]
) -> Iterator[subprocess.Popen[str]]:
    """The API on a port of its choice, on the database that these tests share."""
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "ISTHMUS_NETWORK": "testnet",
        "ISTHMUS_HOME": str(tmp_path),
        "DATABASE_URL": api_database.render_as_string(hide_password=False),
    }
    process = subprocess.Popen(
        program,
        env=environment,
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def address_of(server: subprocess.Popen[str]) -> str:
    """Where it listens, by its own word."""
    assert server.stderr is not None
    for line in server.stderr:
        if found := re.search(r"Listening at: (http://[0-9.:]+)", line):
            return found[1]
    raise AssertionError("it ended without listening")


def test_server_stops_on_sigterm(server, book):
    assert "serving without a proxy (ISTHMUS_PROXIES=0)" in server.stderr.readline()
    with httpx.Client(base_url=address_of(server), timeout=60) as http:
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
    server.send_signal(signal.SIGTERM)
    _, log = server.communicate(timeout=30)
    assert server.returncode == 0
    assert "path='/readyz' status=200" in log
    assert "isthmus:" not in log, "the database password is in the log"


@pytest.mark.parametrize("program", [[sys.executable, "-c", WITH_FEW_FILES]], ids=["160 files"])
def test_clients_beyond_the_file_limit_wait(server):
    url = httpx.URL(address_of(server))
    assert httpx.get(url.join("/healthz"), timeout=60).status_code == 200
    with contextlib.ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(socket.create_connection((url.host, url.port)))
        # Nobody can be let in before somebody leaves.
        with httpx.Client(base_url=url, timeout=1) as http, pytest.raises(httpx.ReadTimeout):
            http.get("/healthz")
    with httpx.Client(base_url=url, timeout=60) as http:
        assert http.get("/healthz").status_code == 200
    server.send_signal(signal.SIGTERM)
    _, log = server.communicate(timeout=30)
    assert log.count("Booting worker") <= 1
    assert "Too many open files" not in log


def test_commit_is_visible_through_the_server(server, book):
    with httpx.Client(base_url=address_of(server), timeout=60) as http:
        assert http.get("/api/v1/orderbook").headers["X-Ledger"] == str(LEDGER)
        book.execute(update(projections.book).values(as_of_ledger=LEDGER + 1))
        committed = time.monotonic()
        while http.get("/api/v1/orderbook").headers["X-Ledger"] == str(LEDGER):
            assert time.monotonic() - committed < 60
