"""What never reaches the app is refused in its words, and leaves nothing secret in the log."""

import json
import logging
import re
import socket

import pytest
from gunicorn.http.errors import InvalidResponseHeader

from api.errors import CODES
from api.refusals import refuse
from tests.factories.streaming import serving

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
def test_a_request_that_cannot_be_read_is_an_error_like_others(server, sent, status, code):
    got, head, body = answer(server, sent)
    assert (got, body["code"]) == (status, code)
    assert CODES[code].status == status
    assert body["message"]
    assert re.search(r"^Content-Type: application/json\r?$", head, re.MULTILINE)
    assert not re.search(r"gunicorn/|Python|hunter2", head + json.dumps(body))
    assert "hunter2" not in "".join(server.log)


def test_what_fails_outside_of_the_app_is_our_fault_and_logged_without_its_words(caplog):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        caplog.set_level(logging.DEBUG)
        assert refuse(ours, "192.0.2.1", InvalidResponseHeader("hunter2")) == 500
        assert b'"code":"INTERNAL"' in theirs.recv(65536)
    assert "InvalidResponseHeader" in caplog.text
    assert "hunter2" not in caplog.text


def test_a_client_that_is_gone_is_no_failure(caplog):
    ours, theirs = socket.socketpair()
    theirs.close()
    with ours:
        assert refuse(ours, "", RuntimeError("hunter2")) == 500
    assert "hunter2" not in caplog.text
