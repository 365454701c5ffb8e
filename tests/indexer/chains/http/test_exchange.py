"""What the HTTP client sends, and what it makes of an answer."""

import base64
import gzip
from collections.abc import Iterator
from contextlib import closing, contextmanager

import orjson
import pytest

from devnet.local_http import HOST
from devnet.local_server import Handler, Server, answering
from indexer.chains.http.client import ConnectionLost, HttpEndpoint
from indexer.errors import NodeUnavailable
from tests.factories.http_servers import Recorder, Write, answered_by


@contextmanager
def recorded(path: str = "") -> Iterator[HttpEndpoint]:
    with answering(Server((HOST, 0), Recorder)) as url:
        client = HttpEndpoint(url + path, timeout=20, headers={"x-app": "app"})
        with closing(client):
            yield client


def test_request_is_sent_as_given() -> None:
    with recorded("/v1/key?token=1") as client:
        seen = orjson.loads(client.send("POST", json={"id": 1}).content)
    assert (seen["method"], seen["path"], seen["body"]) == ("POST", "/v1/key?token=1", '{"id":1}')
    assert seen["headers"]["content-type"] == "application/json"
    assert seen["headers"]["x-app"] == "app"
    assert "authorization" not in seen["headers"]


def test_parameters_are_encoded() -> None:
    with recorded("/v2") as client:
        seen = orjson.loads(client.send("GET", "/fees", params={"at": "a b&c"}).content)
    assert (seen["method"], seen["path"], seen["body"]) == ("GET", "/v2/fees?at=a+b%26c", "")


def test_user_and_password_of_the_url_are_sent() -> None:
    with answering(Server((HOST, 0), Recorder)) as url:
        with_password = url.replace("//", "//us%40er:p%C3%A4ss@")
        with closing(HttpEndpoint(with_password, timeout=20)) as client:
            seen = orjson.loads(client.send("GET").content)
    given = base64.b64decode(seen["headers"]["authorization"].removeprefix("Basic "))
    assert given.decode() == "us@er:päss"
    assert seen["path"] == "/"


def test_connection_is_kept() -> None:
    with recorded() as client:
        ports = {orjson.loads(client.send("GET").content)["port"] for _ in range(3)}
    assert len(ports) == 1


def test_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    with recorded() as client:
        assert client.send("GET").is_success


# What is answered.


def redirect(handler: Handler) -> None:
    handler.send_response(307)
    handler.send_header("location", "http://127.0.0.1:9/inside")
    handler.end_headers()


def test_redirect_is_not_followed() -> None:
    with answered_by(redirect) as url, closing(HttpEndpoint(url, timeout=20)) as client:
        response = client.send("GET")
    assert (response.status, response.is_success) == (307, False)


def chunked(body: bytes) -> Write:
    """An answer in chunks, which `body` holds."""

    def write(handler: Handler) -> None:
        handler.protocol_version = "HTTP/1.1"
        handler.send_response(200)
        handler.send_header("transfer-encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(body)

    return write


def cut(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("content-length", "1000")
    handler.end_headers()
    handler.wfile.write(b"[1")


def nothing(_: Handler) -> None:
    """The connection ends without an answer."""


@pytest.mark.parametrize("write", [cut, chunked(b"5\r\nwhole\r\n400\r\nhalf"), nothing])
def test_response_that_is_cut_is_a_lost_connection(write: Write) -> None:
    with (
        answered_by(write) as url,
        closing(HttpEndpoint(url, timeout=20)) as client,
        pytest.raises(ConnectionLost) as raised,
    ):
        client.send("GET", where="here")
    assert str(raised.value).startswith("here: ")
    assert "secret" not in str(raised.value)
    assert "/key" not in str(raised.value)


def zipped(handler: Handler) -> None:
    body = gzip.compress(b"hello world")
    handler.send_response(200)
    handler.send_header("content-encoding", "gzip")
    handler.end_headers()
    for at in range(len(body)):
        handler.wfile.write(body[at : at + 1])


def without_length(handler: Handler) -> None:
    handler.send_response(200)
    handler.end_headers()
    handler.wfile.write(b"hello ")
    handler.wfile.write(b"world")


@pytest.mark.parametrize(
    "write", [chunked(b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"), zipped, without_length]
)
def test_response_is_whole_however_it_is_sent(write: Write) -> None:
    with answered_by(write) as url, closing(HttpEndpoint(url, timeout=20)) as client:
        assert client.send("GET").content == b"hello world"


def not_gzip(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("content-encoding", "gzip")
    handler.end_headers()
    handler.wfile.write(b"no gzip at all")


def no_http(handler: Handler) -> None:
    handler.wfile.write(b"\0\xff no HTTP\r\n\r\n")


@pytest.mark.parametrize("write", [not_gzip, no_http])
def test_malformed_response_is_no_answer(write: Write) -> None:
    with (
        answered_by(write) as url,
        closing(HttpEndpoint(url, timeout=20)) as client,
        pytest.raises(NodeUnavailable, match=r"^here: "),
    ):
        client.send("GET", where="here")


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7.0), ("Wed, 21 Oct 2026 07:28:00 GMT", None), (None, None)],
)
def test_retry_after_seconds_are_parsed(header: str | None, seconds: float | None) -> None:
    def refuse(handler: Handler) -> None:
        handler.send_response(429)
        if header is not None:
            handler.send_header("retry-after", header)
        handler.end_headers()

    with answered_by(refuse) as url, closing(HttpEndpoint(url, timeout=20)) as client:
        response = client.send("GET")
    assert (response.status, response.retry_after) == (429, seconds)


def test_refused_connection_names_host_and_reason() -> None:
    server = Server((HOST, 0), Recorder)
    server.server_close()
    url = f"http://user:secret@{HOST}:{server.server_port}/key"
    with (
        closing(HttpEndpoint(url, timeout=20)) as client,
        pytest.raises(NodeUnavailable, match=f"{HOST}:{server.server_port}.*refused") as raised,
    ):
        client.send("GET")
    assert "secret" not in str(raised.value)
    assert "/key" not in str(raised.value)
