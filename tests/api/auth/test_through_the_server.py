"""Tokens through `isthmus api` with two workers: headers, revocation and the log."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import sqlalchemy

from api.auth.tokens import Tokens
from devnet.identity import server as identity_server
from devnet.identity.provider import StandIn
from devnet.keys import in_files
from tests.factories.api_server import Server, serving
from tests.factories.tokens import ACCOUNT, URL, private_key, private_pem

KEY = private_key("server")
KEY_LINES = private_pem(KEY).splitlines()[1:-1]


@pytest.fixture
def stand_in(tmp_path: Path) -> Iterator[tuple[StandIn, dict[str, str]]]:
    """An identity provider, and the settings that name it."""
    stand_in = StandIn()
    with identity_server.serving(stand_in) as url:
        yield stand_in, in_files(tmp_path / "keys", stand_in.variables(url))


@pytest.fixture
def server(api_database: sqlalchemy.URL, tmp_path: Path, stand_in) -> Iterator[Server]:
    """The API as an operator starts it, on the local chains' network."""
    key = tmp_path / "token.pem"
    key.write_text(private_pem(KEY))
    settings = {"ISTHMUS_URL": URL, "ISTHMUS_TOKEN_KEY_FILE": str(key), **stand_in[1]}
    with serving(api_database, tmp_path, settings=settings) as server:
        yield server


def status(url: httpx.URL, *headers: str, method: str = "GET") -> int:
    """On a connection of its own, byte for byte: a client library would join headers."""
    lines = [f"{method} /v1/session HTTP/1.1", f"Host: {url.host}", "Connection: close", *headers]
    with socket.create_connection((url.host, url.port), timeout=60) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        return int(connection.recv(64).split()[1])


def test_tokens_behind_a_real_server(server, stand_in):
    url = httpx.URL(server.url)
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
    assert server.stop() == 0
    log = "".join(server.log)
    assert "token refused reason='revoked'" in log
    held = [stand_in[0].app_secret, "someone@example.com", "did:privy", *KEY_LINES]
    held += [piece for token in (ours, second, theirs) for piece in token.split(".")[1:]]
    assert [text for text in held if text in log] == []
