"""Servers that the HTTP client believes over TLS."""

import ssl
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import certifi
import orjson
import pytest

from devnet.local_http import HOST
from devnet.local_server import Server, answering
from devnet.webhook_receiver import make_certificate
from indexer.chains.http import client
from indexer.chains.http.client import HttpEndpoint
from indexer.errors import NodeUnavailable
from tests.factories.http_servers import Recorder


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
    with (
        over_tls(trusted) as host,
        closing(HttpEndpoint(f"https://{host}/key", timeout=20)) as node,
    ):
        assert orjson.loads(node.send("GET").content)["path"] == "/key"


@pytest.mark.usefixtures("trusted")
def test_certificate_of_another_authority_is_refused(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    other = make_certificate(tmp_path_factory.mktemp("other"))
    with (
        over_tls(other) as host,
        closing(HttpEndpoint(f"https://{host}/key", timeout=20)) as node,
        pytest.raises(NodeUnavailable, match="certificate verify failed"),
    ):
        node.send("GET")


def test_certificate_of_another_name_is_refused(trusted: Path) -> None:
    with over_tls(trusted) as host:
        by_address = host.replace("localhost", HOST)
        with (
            closing(HttpEndpoint(f"https://{by_address}/key", timeout=20)) as node,
            pytest.raises(NodeUnavailable, match="certificate is not valid for"),
        ):
            node.send("GET")
