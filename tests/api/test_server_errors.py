"""Errors that the server returns before the app: same format, no secrets in the log."""

import json
import logging
import re
import socket

import pytest
from gunicorn.http.errors import InvalidResponseHeader

from api.errors import CODES
from api.server_errors import reject_request
from tests.factories.api_server import serving

SECRET = b"hunter2"


@pytest.fixture(scope="module")
def server(api_database, tmp_path_factory):
    with serving(api_database, tmp_path_factory.mktemp("home"), workers=1) as server:
        yield server


def answer(server, sent: bytes) -> tuple[int, str, dict]:
    """Status, head and body of what the server says before it closes the connection."""
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as sock:
        sock.sendall(sent)
        received = b"".join(iter(lambda: sock.recv(65536), b""))
    head, _, body = received.partition(b"\r\n\r\n")
    return int(head.split()[1]), head.decode(), json.loads(body)


HOST = b"Host: x\r\n"


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (b"hunter2\r\n\r\n", 400, "BAD_REQUEST"),
        (b"GET /hunter2 HTTP/9.9\r\n\r\n", 400, "BAD_REQUEST"),
        (b"GET / HTTP/1.1\r\n" + HOST + b"Bad Header hunter2: x\r\n\r\n", 400, "BAD_REQUEST"),
        (b"GET /?" + SECRET * 1000 + b" HTTP/1.1\r\n\r\n", 414, "URI_TOO_LONG"),
        (
            b"GET / HTTP/1.1\r\n" + HOST + b"Authorization: " + SECRET * 2000 + b"\r\n\r\n",
            431,
            "HEADERS_TOO_LARGE",
        ),
        (
            b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: hunter2\r\n\r\n",
            501,
            "NOT_IMPLEMENTED",
        ),
        (
            b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
            400,
            "BAD_REQUEST",
        ),
    ],
)
def test_malformed_request_has_the_error_shape(server, sent, status, code):
    got, head, body = answer(server, sent)
    assert (got, body["code"]) == (status, code)
    assert CODES[code].status == status
    assert body["message"]
    assert re.search(r"^Content-Type: application/json\r?$", head, re.MULTILINE)
    assert not re.search(r"gunicorn/|Python|hunter2", head + json.dumps(body))
    assert "hunter2" not in "".join(server.log)


def test_failure_outside_the_app_is_logged_without_message(caplog):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        caplog.set_level(logging.DEBUG)
        assert reject_request(ours, "192.0.2.1", InvalidResponseHeader("hunter2")) == 500
        assert b'"code":"INTERNAL"' in theirs.recv(65536)
    assert "InvalidResponseHeader" in caplog.text
    assert "hunter2" not in caplog.text


def test_client_gone_during_refusal_is_no_error(caplog):
    ours, theirs = socket.socketpair()
    theirs.close()
    with ours:
        assert reject_request(ours, "", RuntimeError("hunter2")) == 500
    assert "hunter2" not in caplog.text


CHUNKED = b"POST /auth HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
NEXT = b"GET /healthz HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"


@pytest.mark.parametrize(
    "body",
    [
        b"-5\r\nhello\r\n0\r\n\r\n",
        b"5\r\nhelloXX0\r\n\r\n",
        b"5\r\nhello\r\n0\r\nno trailer\r\n\r\n",
    ],
)
def test_malformed_chunks_return_400_and_close(server, body):
    # `answer` reads all that comes: a second answer would be no JSON.
    got, _, said = answer(server, CHUNKED + body + NEXT)
    assert (got, said["code"]) == (400, "BAD_BODY")


@pytest.mark.parametrize("smuggled", [b"", NEXT])
def test_two_content_lengths_return_400_and_close(server, smuggled):
    head = b"POST /auth HTTP/1.1\r\n" + HOST + b"Content-Length: 6\r\nTransfer-Encoding: chunked"
    got, _, said = answer(server, head + b"\r\n\r\n0\r\n\r\n" + smuggled)
    assert (got, said["code"]) == (400, "BAD_REQUEST")


def test_truncated_body_returns_400(server):
    host, port = server.url.removeprefix("http://").split(":")
    form = b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 40\r\n\r\n"
    with socket.create_connection((host, int(port)), timeout=30) as sock:
        sock.sendall(b"POST /auth HTTP/1.1\r\n" + HOST + form + b"transaction=1")
        sock.shutdown(socket.SHUT_WR)
        received = b"".join(iter(lambda: sock.recv(65536), b""))
    assert received.startswith(b"HTTP/1.1 400 ")
    assert json.loads(received.partition(b"\r\n\r\n")[2])["code"] == "BAD_BODY"


@pytest.mark.parametrize(
    "header",
    [
        b"SCRIPT_NAME: /v1",
        b"SCRIPT_NAME: /elsewhere",
        b"PATH_INFO: /metrics",
        b"X-Forwarded-Proto: https\r\nX-Forwarded-Ssl: off",
        b"X-Original-URL: /metrics",
        b"X-HTTP-Method-Override: DELETE",
    ],
)
def test_headers_cannot_route_a_request(server, header):
    got, _, said = answer(server, b"GET /v1/session HTTP/1.1\r\n" + HOST + header + CLOSE)
    assert (got, said["code"]) == (401, "UNAUTHORIZED")


CLOSE = b"\r\nConnection: close\r\n\r\n"
