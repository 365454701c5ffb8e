"""Limits of the HTTP client on time and size of responses."""

import base64
import gzip
import ssl
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import certifi
import orjson
import pytest

from devnet.local_http import HOST
from devnet.local_server import Handler, Server, answering
from devnet.webhook_receiver import make_certificate
from indexer.chains.evm.jsonrpc import JsonRpc
from indexer.chains.evm.reader import EvmReader
from indexer.chains.http import client
from indexer.chains.http.client import (
    ConnectionLost,
    HttpEndpoint,
    NodeTimeout,
    ResponseTooLarge,
    host_of,
)
from indexer.chains.http.service import HttpService
from indexer.chains.stellar.rpc import StellarRpc
from indexer.decode.evm import event_topics
from indexer.errors import ConfigurationError, NodeUnavailable, RangeTooWide
from tests.indexer.chains.evm.test_reader import CHAIN
from warehouse_schema.identifiers import Height

Write = Callable[[Handler], None]

DRIPS = 40
"""Pieces, 50 ms apart: each is in time, all of them take 2 s."""


@contextmanager
def answered_by(write: Write) -> Iterator[str]:
    """A server that answers every request with what `write` sends."""

    class RequestHandler(Handler):
        # An answer ends with its connection, and is sent as it is written.
        protocol_version = "HTTP/1.0"
        wbufsize = 0

        def do_POST(self) -> None:
            self.body()
            write(self)

        do_GET = do_POST

    server = Server((HOST, 0), RequestHandler)
    with answering(server):
        yield f"http://user:secret@{HOST}:{server.server_port}/key"


def drip(handler: Handler) -> None:
    handler.send_response(200)
    handler.end_headers()
    for _ in range(DRIPS):
        handler.wfile.write(b" ")
        time.sleep(0.05)


def babble(handler: Handler) -> None:
    body = gzip.compress(b" " * 100_000)
    handler.send_response(200)
    handler.send_header("content-encoding", "gzip")
    handler.send_header("content-length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


@contextmanager
def ends_within(seconds: float) -> Iterator[None]:
    started = time.monotonic()
    yield
    assert time.monotonic() - started < seconds


def test_dripping_response_ends_at_the_deadline() -> None:
    with (
        answered_by(drip) as url,
        closing(HttpEndpoint(url, timeout=1, seconds=0.2, max_bytes=1000)) as client,
        ends_within(1),
        pytest.raises(NodeTimeout, match=r"^here: the answer takes more than 0\.2 s"),
    ):
        client.send("POST", where="here")


def test_decompressed_size_is_bounded() -> None:
    with (
        answered_by(babble) as url,
        closing(HttpEndpoint(url, timeout=1, seconds=5, max_bytes=1000)) as client,
        pytest.raises(ResponseTooLarge, match="over 1000 bytes"),
    ):
        client.send("GET", where="here")


def test_every_client_ends_a_dripping_response() -> None:
    with answered_by(drip) as url:
        evm, stellar = JsonRpc(url, timeout=0.1), StellarRpc(url, timeout=0.1)
        service = HttpService(url, timeout=0.1, per_second=1000)
        for ask in (
            lambda: evm.call("eth_chainId", []),
            lambda: stellar.call("getHealth", {}),
            lambda: service.request("GET", ""),
        ):
            with (
                ends_within(1.5),
                pytest.raises(NodeUnavailable, match="takes more than") as raised,
            ):
                ask()
            assert "secret" not in str(raised.value)
            assert "/key" not in str(raised.value)
        for each in (evm, stellar, service):
            each.close()


@pytest.mark.parametrize("method", ["getEvents", "getLedgers"])
def test_slow_or_large_stellar_range_is_too_wide(method: str) -> None:
    for write in (drip, babble, lambda _: time.sleep(0.3)):
        with answered_by(write) as url:
            rpc = StellarRpc(url, timeout=0.1, max_bytes=1000)
            with pytest.raises(RangeTooWide):
                rpc.call(method, {})
            rpc.close()


def test_large_evm_range_is_too_wide() -> None:
    with answered_by(babble) as url:
        reader = EvmReader(CHAIN, [url], event_topics, max_bytes=1000)
        with pytest.raises(RangeTooWide, match="over 1000 bytes"):
            reader.read(Height(3), Height(4), [])
        with pytest.raises(ResponseTooLarge):
            reader.read(Height(3), Height(3), [])
        reader.close()


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

    with answered_by(refuse) as url, closing(HttpEndpoint(url, timeout=5)) as client:
        response = client.send("GET")
    assert (response.status, response.retry_after) == (429, seconds)


# What is sent.


class Recorder(Handler):
    """Answers each request with what it was, on a connection that is kept."""

    def do_POST(self) -> None:
        seen = {
            "method": self.command,
            "path": self.path,
            "headers": {name.lower(): text for name, text in self.headers.items()},
            "body": self.body().decode(),
            "port": self.client_address[1],
        }
        self.answer(200, orjson.dumps(seen))

    do_GET = do_POST


@contextmanager
def recorded(path: str = "") -> Iterator[HttpEndpoint]:
    with answering(Server((HOST, 0), Recorder)) as url:
        client = HttpEndpoint(url + path, timeout=5, headers={"x-app": "app"})
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
        with closing(HttpEndpoint(with_password, timeout=5)) as client:
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
    with answered_by(redirect) as url, closing(HttpEndpoint(url, timeout=5)) as client:
        response = client.send("GET")
    assert (response.status, response.is_success) == (307, False)


def cut(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("content-length", "1000")
    handler.end_headers()
    handler.wfile.write(b"[1")


def cut_in_a_chunk(handler: Handler) -> None:
    handler.protocol_version = "HTTP/1.1"
    handler.send_response(200)
    handler.send_header("transfer-encoding", "chunked")
    handler.end_headers()
    handler.wfile.write(b"5\r\nwhole\r\n400\r\nhalf")


def nothing(_: Handler) -> None:
    """The connection ends without an answer."""


@pytest.mark.parametrize("write", [cut, cut_in_a_chunk, nothing])
def test_response_that_is_cut_is_a_lost_connection(write: Write) -> None:
    with (
        answered_by(write) as url,
        closing(HttpEndpoint(url, timeout=5)) as client,
        pytest.raises(ConnectionLost) as raised,
    ):
        client.send("GET", where="here")
    assert str(raised.value).startswith("here: ")
    assert "secret" not in str(raised.value)
    assert "/key" not in str(raised.value)


def chunked(handler: Handler) -> None:
    handler.protocol_version = "HTTP/1.1"
    handler.send_response(200)
    handler.send_header("transfer-encoding", "chunked")
    handler.end_headers()
    handler.wfile.write(b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n")


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


@pytest.mark.parametrize("write", [chunked, zipped, without_length])
def test_response_is_whole_however_it_is_sent(write: Write) -> None:
    with answered_by(write) as url, closing(HttpEndpoint(url, timeout=5)) as client:
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
        closing(HttpEndpoint(url, timeout=5)) as client,
        pytest.raises(NodeUnavailable, match=r"^here: "),
    ):
        client.send("GET", where="here")


@contextmanager
def over_tls(certificate: Path) -> Iterator[str]:
    """A `Recorder` at localhost, with this certificate."""
    server = Server((HOST, 0), Recorder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    with answering(server):
        yield f"localhost:{server.server_port}"


@pytest.fixture
def trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A certificate for localhost that the client trusts."""
    file = make_certificate(tmp_path)
    monkeypatch.setattr(certifi, "where", lambda: str(file))
    client._certificates.cache_clear()
    yield file
    client._certificates.cache_clear()


def test_trusted_server_is_asked_over_tls(trusted: Path) -> None:
    with over_tls(trusted) as host, closing(HttpEndpoint(f"https://{host}/key", timeout=5)) as node:
        assert orjson.loads(node.send("GET").content)["path"] == "/key"


@pytest.mark.usefixtures("trusted")
def test_certificate_of_another_authority_is_refused(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    other = make_certificate(tmp_path_factory.mktemp("other"))
    with (
        over_tls(other) as host,
        closing(HttpEndpoint(f"https://{host}/key", timeout=5)) as node,
        pytest.raises(NodeUnavailable, match="certificate verify failed"),
    ):
        node.send("GET")


def test_certificate_of_another_name_is_refused(trusted: Path) -> None:
    with over_tls(trusted) as host:
        by_address = host.replace("localhost", HOST)
        with (
            closing(HttpEndpoint(f"https://{by_address}/key", timeout=5)) as node,
            pytest.raises(NodeUnavailable, match="certificate is not valid for"),
        ):
            node.send("GET")


def test_refused_connection_names_host_and_reason() -> None:
    server = Server((HOST, 0), Recorder)
    server.server_close()
    url = f"http://user:secret@{HOST}:{server.server_port}/key"
    with (
        closing(HttpEndpoint(url, timeout=5)) as client,
        pytest.raises(NodeUnavailable, match=f"{HOST}:{server.server_port}.*refused") as raised,
    ):
        client.send("GET")
    assert "secret" not in str(raised.value)
    assert "/key" not in str(raised.value)


@pytest.mark.parametrize("url", ["http://", "http://user:SECRET/word@a", "http://a:99999"])
def test_url_without_a_server_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="no host or port") as raised:
        HttpEndpoint(url, timeout=5)
    assert "SECRET" not in "".join(traceback.format_exception(raised.value))


def test_host_has_no_credentials() -> None:
    assert host_of("https://user:p@ss@node.example:8545/v3/key?token=1") == "node.example:8545"
