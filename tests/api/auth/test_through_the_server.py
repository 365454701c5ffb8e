"""Tokens through `isthmus api` with two workers: headers, revocation and the log."""

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import sqlalchemy

from api.auth.tokens import Tokens
from devnet.identity.provider import StandIn
from devnet.identity.server import serving
from devnet.keys import in_files
from devnet.services import isthmus
from tests.factories.tokens import ACCOUNT, URL, private_key, private_pem

ROOT = Path(__file__).resolve().parents[3]
KEY = private_key("server")
KEY_LINES = private_pem(KEY).splitlines()[1:-1]


@pytest.fixture
def stand_in(tmp_path: Path) -> Iterator[tuple[StandIn, dict[str, str]]]:
    """An identity provider, and the settings that name it."""
    stand_in = StandIn()
    with serving(stand_in) as url:
        yield stand_in, in_files(tmp_path / "keys", stand_in.variables(url))


@pytest.fixture
def server(
    api_database: sqlalchemy.URL, tmp_path: Path, stand_in
) -> Iterator[subprocess.Popen[str]]:
    """The API as an operator starts it, on the local chains' network."""
    key = tmp_path / "token.pem"
    key.write_text(private_pem(KEY))
    process = subprocess.Popen(
        isthmus("api", "--bind", "127.0.0.1:0", "--workers", "2"),
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "ISTHMUS_HOME": str(tmp_path),
            "ISTHMUS_URL": URL,
            "ISTHMUS_TOKEN_KEY_FILE": str(key),
            "DATABASE_URL": api_database.render_as_string(hide_password=False),
            **stand_in[1],
        },
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


def address_of(server: subprocess.Popen[str]) -> httpx.URL:
    for line in server.stderr:
        if found := re.search(r"Listening at: (http://[0-9.:]+)", line):
            return httpx.URL(found[1])
    raise AssertionError("it ended without listening")


def status(url: httpx.URL, *headers: str, method: str = "GET") -> int:
    """On a connection of its own, byte for byte: a client library would join headers."""
    lines = [f"{method} /v1/session HTTP/1.1", f"Host: {url.host}", "Connection: close", *headers]
    with socket.create_connection((url.host, url.port), timeout=60) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        return int(connection.recv(64).split()[1])


def test_tokens_behind_a_real_server(server, stand_in):
    url = address_of(server)
    tokens = Tokens(KEY, issuer=URL, clock=lambda: int(time.time()))
    ours, second = (tokens.issue(ACCOUNT, jti=f"{n}-{time.time_ns()}") for n in range(2))
    theirs = stand_in[0].token(stand_in[0].add_user())
    header, other = f"Authorization: Bearer {ours}", f"Authorization: Bearer {second}"
    for good in (header, f"authorization: bearer {ours}", f"Authorization: Bearer {theirs}"):
        assert status(url, good) == 200
    for bad in ((), (header, header), (header, other), (f"{header},Bearer {ours}",)):
        assert status(url, *bad) == 401
    assert status(url, header, method="DELETE") == 200
    # The worker that did not answer the logout reads of it within half a second.
    refused = 0
    while refused < 12:
        refused = refused + 1 if status(url, header) == 401 else 0
    assert status(url, other) == 200
    server.send_signal(signal.SIGTERM)
    _, log = server.communicate(timeout=60)
    assert server.returncode == 0
    assert "token refused reason='revoked'" in log
    held = [stand_in[0].app_secret, "someone@example.com", "did:privy", *KEY_LINES]
    held += [piece for token in (ours, second, theirs) for piece in token.split(".")[1:]]
    assert [text for text in held if text in log] == []
