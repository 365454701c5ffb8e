"""Slow clients, half requests and overload behind `deploy/nginx.conf`."""

import contextlib
import json
import select
import socket
import ssl
import time
from collections.abc import Iterator

import httpx
import pytest
from websockets.sync.client import connect

from api.load_shedding import shed_reason
from api.server import THREADS
from devnet.supervisor import free_port
from tests.api.proxy.conftest import MAX_CONNS, Proxy, nginx
from tests.factories.api_server import TIMEOUT

MANY = 3 * THREADS
POST = b"POST /auth HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
GET = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
ORDER = "/api/v1/intents/" + "ab" * 32
HALF_REQUESTS = {
    "nothing": b"",
    "part-of-request-line": b"GET /hea",
    "part-of-head": GET,
    "part-of-body": POST + b"Content-Length: 100\r\n\r\n{",
    "part-of-large-body": POST + b"Content-Length: 60000\r\n\r\n{",
    "too-large-body": POST + b"Content-Length: 100000000\r\n\r\n{",
    "part-of-chunk": POST + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab",
    "endless-chunks": POST
    + b"Transfer-Encoding: chunked\r\n\r\n"
    + (b"400\r\n" + b"a" * 1024 + b"\r\n") * 130,
    "expects-continue": POST + b"Content-Length: 9\r\nExpect: 100-continue\r\n\r\n",
    "answered-and-open": GET + b"\r\n",
}


def read_all(sock: socket.socket) -> bytes:
    return b"".join(iter(lambda: sock.recv(65536), b""))


def status_of(sock: socket.socket) -> int:
    return int(read_all(sock).split(b" ", 2)[1])


def ask_order(sockets: list[socket.socket]) -> None:
    for sock in sockets:
        sock.sendall(f"GET {ORDER} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())


@pytest.mark.parametrize("sent", HALF_REQUESTS.values(), ids=HALF_REQUESTS)
def test_half_requests_take_no_thread(proxy: Proxy, sent: bytes) -> None:
    with proxy.connections(MANY) as sockets:
        for sock in sockets:
            sock.sendall(sent)
        # All connections are still open: nginx cuts the first one after 10 s.
        began = time.monotonic()
        assert [proxy.get("/healthz").status_code for _ in range(10)] == [200] * 10
        assert time.monotonic() - began < 10


def test_byte_by_byte_request_is_answered(proxy: Proxy) -> None:
    sent = POST + b"Content-Length: 18\r\nConnection: close\r\n\r\n" + b'{"transaction":""}'
    with proxy.connections(1) as (sock,):
        for at in range(len(sent)):
            sock.sendall(sent[at : at + 1])
        assert status_of(sock) == 404


def test_pipelined_requests_are_answered_in_order(proxy: Proxy) -> None:
    chunked = POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    with proxy.connections(1) as (sock,):
        sock.sendall(GET + b"\r\n" + chunked + GET + b"Connection: close\r\n\r\n")
        answers = read_all(sock).split(b"HTTP/1.1 ")[1:]
    assert [each[:3] for each in answers] == [b"200", b"404", b"200"]


def test_request_that_never_ends_is_closed(proxy: Proxy) -> None:
    with proxy.connections(2) as (half, silent):
        half.sendall(b"GET /hea")
        # nginx closes without a response: it has no whole request to answer.
        assert read_all(half) == b""
        assert read_all(silent) == b""


MALFORMED = {
    "header-too-large": (GET + b"Authorization: " + b"hunter2" * 2000 + b"\r\n\r\n", 431),
    "request-line-too-long": (b"GET /?" + b"hunter2" * 1200 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414),
    "body-too-large": (POST + b"Content-Length: 100000000\r\n\r\n{", 413),
    "two-lengths": (POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
    "no-http": (b"hunter2\r\n\r\n", 400),
    "other-http": (b"GET / HTTP/3.0\r\nHost: x\r\n\r\n", 400),
    "trace": (b"TRACE / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 405),
    "internal-location": (b"GET /error/503 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 404),
}
CODES = {
    400: "BAD_REQUEST",
    404: "NOT_FOUND",
    405: "METHOD_NOT_ALLOWED",
    413: "BODY_TOO_LARGE",
    414: "URI_TOO_LONG",
    431: "HEADERS_TOO_LARGE",
}


def test_refusal_of_nginx_has_the_shape_of_errors(proxy: Proxy, subtests) -> None:
    for name, (sent, status) in MALFORMED.items():
        with subtests.test(name), proxy.connections(1) as (sock,):
            sock.sendall(sent)
            head, _, body = read_all(sock).partition(b"\r\n\r\n")
            assert int(head.split()[1]) == status
            assert b"Content-Type: application/json" in head
            assert b"X-Content-Type-Options: nosniff" in head
            assert json.loads(body)["code"] == CODES[status]
            assert b"hunter2" not in head + body


def test_stopped_api_returns_503() -> None:
    port = free_port()
    with nginx(port, free_port()) as tls:
        response = httpx.get(f"https://localhost:{port}/healthz", verify=tls, timeout=TIMEOUT)
    assert (response.status_code, response.json()["code"]) == (503, "OVERLOADED")
    assert response.headers["Retry-After"] == "5"


ONE_AT_A_TIME = {
    "limit_conn per_address 128;": "limit_conn per_address 1;",
    "server_tokens off;": "server_tokens off; set_real_ip_from 127.0.0.1; real_ip_header X-From;",
}
OTHER_CLIENTS = {
    # Two ways in which text leaves out zeros, of one /64.
    "same-64": ("2001:db8::5", "2001:db8:0:0:1::", 429),
    "same-ipv4": ("192.0.2.1", "192.0.2.1", 429),
    "other-64": ("2001:db8::5", "2001:db8:0:1::5", 503),
    "other-ipv4": ("192.0.2.1", "192.0.2.2", 503),
}


def test_connection_limit_counts_an_ipv6_64_as_one_client(subtests) -> None:
    # A server that reads no request and answers none: nginx says 503 in its place.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(TIMEOUT)
        port = free_port()
        edits = ONE_AT_A_TIME | {"proxy_read_timeout 60s;": "proxy_read_timeout 4s;"}
        with nginx(port, silent.getsockname()[1], edits) as tls:
            for name, (first, second, status) in OTHER_CLIENTS.items():
                # Once it is passed on, it is counted.
                with subtests.test(name), ask_from(port, tls, first) as held, silent.accept()[0]:
                    with ask_from(port, tls, second) as asking, contextlib.ExitStack() as passed_on:
                        # Accepted too, or the next client would find it in its own one's place.
                        if status == 503:
                            passed_on.enter_context(silent.accept()[0])
                        assert status_of(asking) == status
                    assert status_of(held) == 503


@contextlib.contextmanager
def ask_from(port: int, tls: ssl.SSLContext, address: str) -> Iterator[socket.socket]:
    """A request that nginx takes for one from that address."""
    with (
        socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT) as plain,
        tls.wrap_socket(plain, server_hostname="localhost") as sock,
    ):
        sock.sendall(GET + f"X-From: {address}\r\nConnection: close\r\n\r\n".encode())
        yield sock


def test_forged_request_start_is_replaced(proxy: Proxy, book) -> None:
    response = httpx.get(
        f"{proxy.url}/api/v1/orderbook",
        headers={"X-Request-Start": "t=1.0"},
        verify=proxy.tls,
        timeout=TIMEOUT,
    )
    assert (response.status_code, response.json()) == (200, [])


def test_stream_is_upgraded(proxy: Proxy, book) -> None:
    url = f"wss://localhost:{proxy.port}/api/v1/stream"
    with connect(url, ssl=proxy.tls, open_timeout=TIMEOUT) as stream:
        assert stream.ping().wait(TIMEOUT)


# Overload: eight threads wait for a table that the test has locked.


def wait_until_full(proxy: Proxy) -> None:
    """Ask once more until nginx refuses; a request that waits takes a place itself."""
    for _ in range(MAX_CONNS):
        with proxy.connections(1) as (probe,):
            ask_order([probe])
            if select.select([probe], [], [], 0.2)[0]:
                assert status_of(probe) == 503
                return
    pytest.fail("nginx refuses no request")


def test_full_queue_returns_503_at_once(overloaded) -> None:
    proxy, locked = overloaded
    with proxy.connections(MAX_CONNS) as waiting, proxy.connections(20) as further:
        with locked():
            ask_order(waiting)
            wait_until_full(proxy)
            ask_order(further)
            # The lock is still held: only nginx can have answered these.
            refused = [read_all(sock) for sock in further]
            assert [each.split(b" ", 2)[1] for each in refused] == [b"503"] * 20
            assert all(b"\r\nRetry-After: 5\r\n" in each for each in refused)
        assert {status_of(sock) for sock in waiting} <= {404, 503}


def test_late_and_abandoned_requests_are_shed(overloaded) -> None:
    proxy, locked = overloaded
    with proxy.connections(THREADS) as served, proxy.connections(10) as late:
        with locked():
            ask_order(served)
            with proxy.connections(20) as leaving:
                ask_order(leaving)
            ask_order(late)
            time.sleep(3.2)
        # On a busy machine the statement timeout ends the first ones.
        assert {status_of(sock) for sock in served} <= {404, 503}
        assert [status_of(sock) for sock in late] == [503] * 10
    shed = proxy.metric("isthmus_requests_shed_total")
    assert shed[("too_late",)] + shed.get(("client_gone",), 0) >= 10


def test_liveness_probe_is_never_shed() -> None:
    late = {"PATH_INFO": "/healthz", "HTTP_X_REQUEST_START": "t=1.0"}
    assert shed_reason(late, now=100.0) is None
    assert shed_reason({**late, "PATH_INFO": "/v1/routes"}, now=100.0) == "too_late"


def test_request_of_closed_connection_is_shed() -> None:
    client, server = socket.socketpair()
    waited = {"HTTP_X_REQUEST_START": "t=99.0", "gunicorn.socket": server}
    with client, server:
        assert shed_reason(waited, now=100.0) is None
        client.close()
        assert shed_reason(waited, now=100.0) == "client_gone"
        # It may only have closed its sending side.
        assert shed_reason(waited, now=99.2) is None
