"""`python -m api`, as an operator starts and stops it."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from sqlalchemy.engine import URL

from tests.factories.projections import LEDGER, STELLAR, insert_cursor

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def server(api_database: URL, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """The API on a port of its choice, on the database that these tests share."""
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "ISTHMUS_NETWORK": "testnet",
        "ISTHMUS_HOME": str(tmp_path),
        "DATABASE_URL": api_database.render_as_string(hide_password=False),
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "api", "--bind", "127.0.0.1:0", "--workers", "1"],
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


def test_it_serves_until_it_is_told_to_stop(server, book):
    insert_cursor(book, STELLAR)
    with httpx.Client(base_url=address_of(server), timeout=60) as http:
        assert http.get("/healthz").json() == {"status": "alive"}
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
