"""A POST to an owner's URL reaches public addresses only, follows no redirect, and ends."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address

import pytest

from devnet.webhook_receiver import make_certificate
from relay.webhooks.post import WebhookResponse, _Deadline, is_public, post

ANY = lambda _: True  # noqa: E731


PRIVATE = [
    *("127.0.0.1", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254"),
    *("100.64.0.1", "192.0.0.8", "198.18.0.1", "203.0.113.7", "224.0.0.1", "240.0.0.1"),
    *("255.255.255.255", "::", "::1", "fe80::1", "fc00::1", "fd12::1", "ff02::1"),
    *("::ffff:127.0.0.1", "::ffff:8.8.8.8", "64:ff9b::7f00:1", "2002:7f00:1::", "2001:db8::1"),
    *("fec0::1", "fe80::1%eth0", "192.88.99.1", "5f00::1", "64:ff9b:1::1", "100::1"),
]


def test_private_and_reserved_addresses_are_not_public() -> None:
    assert [address for address in PRIVATE if is_public(ip_address(address))] == []


def test_internet_addresses_are_public() -> None:
    for address in ("8.8.8.8", "1.1.1.1", "2606:4700:4700::1111"):
        assert is_public(ip_address(address))


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """TLS contexts of a server and of a client that trusts it, as localhost."""
    file = make_certificate(tmp_path_factory.mktemp("tls"))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(file)
    return server, ssl.create_default_context(cafile=str(file))


@contextmanager
def answering(
    server: ssl.SSLContext, *pieces: bytes, stays: bool = False
) -> Iterator[tuple[int, list[bytes]]]:
    """A server that answers each connection with these bytes; its port, and the bytes received."""
    listening = socket.create_server(("127.0.0.1", 0))
    heard: list[bytes] = []
    over = threading.Event()

    def serve() -> None:
        while not over.is_set():
            try:
                plain, _ = listening.accept()
                with plain, server.wrap_socket(plain, server_side=True) as sock:
                    data = sock.recv(65536)
                    while data and not data.endswith(b"}"):
                        data += sock.recv(65536)
                    heard.append(data)
                    for piece in pieces:
                        sock.sendall(piece)
                    if stays:
                        over.wait(20)
            except OSError:
                continue

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listening.getsockname()[1], heard
    finally:
        over.set()
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()


def test_post_sends_body_and_returns_status(contexts) -> None:
    server, client = contexts
    with answering(server, b"HTTP/1.1 204 No Content\r\n\r\n") as (port, heard):
        url = f"https://localhost:{port}/hooks?a=b"
        said = post(url, b'{"a": 1}', {"webhook-id": "7"}, context=client, admits=ANY)
    assert said == WebhookResponse(204, None)
    assert said.is_taken
    assert heard[0].startswith(b"POST /hooks?a=b HTTP/1.1\r\n")
    assert b"webhook-id: 7" in heard[0]


def test_redirect_is_not_followed(contexts) -> None:
    server, client = contexts
    moved = b"HTTP/1.1 307 X\r\nLocation: https://localhost:1/\r\nContent-Length: 0\r\n\r\n"
    with answering(server, moved) as (port, heard):
        said = post(f"https://localhost:{port}/", b"{}", {}, context=client, admits=ANY)
    assert said == WebhookResponse(307, None)
    assert not said.is_taken
    assert len(heard) == 1


def test_name_with_private_address_is_not_connected_to(contexts) -> None:
    server, client = contexts
    with answering(server) as (port, heard):
        said = post(f"https://localhost:{port}/", b"{}", {}, context=client)
        assert said == WebhookResponse(None, "NotPublic")
        assert post(f"https://127.0.0.1:{port}/", b"{}", {}, context=client) == said
    assert heard == []


def test_one_private_address_among_public_ones_is_rejected(contexts, monkeypatch) -> None:
    mixed = [(2, 1, 6, "", (each, 443)) for each in ("8.8.8.8", "10.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: mixed)
    said = post("https://mixed.example/", b"{}", {}, context=contexts[1])
    assert said == WebhookResponse(None, "NotPublic")


def test_endless_response_times_out(contexts) -> None:
    server, client = contexts
    with answering(server, b"HTTP/1.1 2", stays=True) as (port, _):
        said = post(
            f"https://localhost:{port}/", b"{}", {}, context=client, admits=ANY, whole_seconds=0.3
        )
    assert said.status is None


def test_wrong_certificate_gets_no_request(contexts) -> None:
    server, _ = contexts
    with answering(server, b"HTTP/1.1 200 OK\r\n\r\n") as (port, heard):
        stranger = ssl.create_default_context()
        said = post(f"https://localhost:{port}/", b"{}", {}, context=stranger, admits=ANY)
    assert said == WebhookResponse(None, "SSLCertVerificationError")
    assert heard == []


@pytest.mark.parametrize(
    "url",
    [
        *("https://a..localhost/", "https://.localhost/", "https://localhost:99999/", "https://"),
        *("https://localhost:x/", "https://[::1/", f"https://{'a' * 64}.localhost/"),
        *("https://localhost:1/\r\nX: y", "https://localhost:1/é"),
    ],
)
def test_invalid_name_returns_error(contexts, url: str, monkeypatch) -> None:
    loopback = [(2, 1, 6, "", ("127.0.0.1", 1))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: loopback)
    said = post(url, b"{}", {}, context=contexts[1], admits=ANY)
    assert said.status is None


def test_endless_handshake_times_out(contexts) -> None:
    silent = socket.create_server(("127.0.0.1", 0))
    url = f"https://localhost:{silent.getsockname()[1]}/"
    with silent:
        said = post(url, b"{}", {}, context=contexts[1], admits=ANY, whole_seconds=0.3)
    assert said.status is None


def test_slow_dns_lookup_times_out_before_request(contexts, monkeypatch) -> None:
    server, client = contexts
    requested = threading.Event()
    real = socket.getaddrinfo

    def slow(*args, **options):
        # Until the deadline sets it.
        assert requested.wait(10)
        return real(*args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    cut = _Deadline._cut

    def then_go_on(deadline) -> None:
        cut(deadline)
        requested.set()

    monkeypatch.setattr(_Deadline, "_cut", then_go_on)
    with answering(server, b"HTTP/1.1 200 OK\r\n\r\n") as (port, heard):
        url = f"https://localhost:{port}/"
        said = post(url, b"{}", {}, context=client, admits=ANY, whole_seconds=0.1)
    assert said == WebhookResponse(None, "TimeoutError")
    assert heard == []


def test_unreachable_address_falls_back_to_next(contexts, monkeypatch) -> None:
    server, client = contexts
    with answering(server, b"HTTP/1.1 204 No Content\r\n\r\n") as (port, _):
        both = [(2, 1, 6, "", (each, port)) for each in ("127.0.0.2", "127.0.0.1")]
        monkeypatch.setattr(
            socket, "getaddrinfo", lambda host, *_, **__: both[host == "127.0.0.1" :]
        )
        said = post(f"https://localhost:{port}/", b"{}", {}, context=client, admits=ANY)
    assert said == WebhookResponse(204, None)
