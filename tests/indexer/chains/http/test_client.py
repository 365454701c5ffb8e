"""Limits of the HTTP client on time and size of responses."""

import gzip
import time
import traceback
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from devnet.local_server import Handler
from indexer.chains.evm.jsonrpc import JsonRpc
from indexer.chains.evm.reader import EvmReader
from indexer.chains.http.client import (
    HttpEndpoint,
    NodeTimeout,
    ResponseTooLarge,
    host_of,
)
from indexer.chains.http.service import HttpService
from indexer.chains.stellar.rpc import StellarRpc
from indexer.decode.evm import event_topics
from indexer.errors import ConfigurationError, NodeUnavailable, RangeTooWide
from tests.factories.http_servers import answered_by
from tests.indexer.chains.evm.chain import CHAIN
from warehouse_schema.identifiers import Height

DRIPS = 400
"""Pieces, 50 ms apart: each is in time, all of them take 20 s."""


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
        closing(HttpEndpoint(url, timeout=20, seconds=0.2, max_bytes=1000)) as client,
        ends_within(10),
        pytest.raises(NodeTimeout, match=r"^here: the answer takes more than 0\.2 s"),
    ):
        client.send("POST", where="here")


def test_decompressed_size_is_bounded() -> None:
    with (
        answered_by(babble) as url,
        closing(HttpEndpoint(url, timeout=20, seconds=20, max_bytes=1000)) as client,
        pytest.raises(ResponseTooLarge, match="over 1000 bytes"),
    ):
        client.send("GET", where="here")


def test_every_client_ends_a_dripping_response(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexer.chains.http.client._RESPONSE_TIMEOUT_FACTOR", 0.01)
    with answered_by(drip) as url:
        evm, stellar = JsonRpc(url, timeout=20), StellarRpc(url, timeout=20)
        service = HttpService(url, timeout=20, per_second=1000)
        for ask in (
            lambda: evm.call("eth_chainId", []),
            lambda: stellar.call("getHealth", {}),
            lambda: service.request("GET", ""),
        ):
            with (
                ends_within(10),
                pytest.raises(NodeUnavailable, match=r"takes more than 0\.2 s") as raised,
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


@pytest.mark.parametrize("url", ["http://", "http://user:SECRET/word@a", "http://a:99999"])
def test_url_without_a_server_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="no host or port") as raised:
        HttpEndpoint(url, timeout=20)
    assert "SECRET" not in "".join(traceback.format_exception(raised.value))


def test_host_has_no_credentials() -> None:
    assert host_of("https://user:p@ss@node.example:8545/v3/key?token=1") == "node.example:8545"
