"""`deploy/haproxy.cfg` in a real HAProxy: limits, headers, errors, streams."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest
from sqlalchemy import Connection
from sqlalchemy.engine import URL
from websockets.sync.client import connect

from devnet.supervisor import free_port
from tests.api.machines.balancer import Balancer, haproxy, port_of
from tests.factories.api_server import TIMEOUT, Server, serving

SETTINGS = {
    "ISTHMUS_NETWORK": "testnet",
    "ISTHMUS_PROXIES": "1",
    "ISTHMUS_LIMIT_SIGN_IN": "off",
}
POST = b"POST /auth HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
GET = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"


@pytest.fixture(scope="module")
def server(api_database: URL, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(
        api_database, tmp_path_factory.mktemp("home"), workers=1, settings=SETTINGS
    ) as running:
        yield running


@pytest.fixture(scope="module")
def balancer(server: Server) -> Iterator[Balancer]:
    """HAProxy in front of one API, which stays up however busy the machine of the tests is."""
    with haproxy([port_of(server)], {"fall 2": "fall 1000"}) as running:
        running.wait_until_up()
        yield running


def open_socket(balancer: Balancer, stack: ExitStack) -> socket.socket:
    plain = stack.enter_context(
        socket.create_connection(("127.0.0.1", balancer.port), timeout=TIMEOUT)
    )
    return stack.enter_context(balancer.tls.wrap_socket(plain, server_hostname="localhost"))


def read_all(sock: socket.socket) -> bytes:
    return b"".join(iter(lambda: sock.recv(65536), b""))


def ask(balancer: Balancer, sent: bytes) -> tuple[int, bytes, bytes]:
    """Status, head and body of the answer to bytes."""
    with ExitStack() as stack:
        sock = open_socket(balancer, stack)
        sock.sendall(sent)
        head, _, body = read_all(sock).partition(b"\r\n\r\n")
    return int(head.split(b" ", 2)[1]), head, body


REFUSED = {
    "request-line-too-long": (b"GET /?" + b"hunter2" * 1200 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414),
    "header-too-large": (GET + b"Authorization: " + b"hunter2" * 2000 + b"\r\n\r\n", 431),
    "body-too-large": (POST + b"Content-Length: 100000\r\n\r\n{", 413),
    "too-many-chunks": (
        POST
        + b"Transfer-Encoding: chunked\r\n\r\n"
        + (b"400\r\n" + b"a" * 1024 + b"\r\n") * 70
        + b"0\r\n\r\n",
        413,
    ),
    "trace": (b"TRACE / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 405),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusal_has_the_shape_of_errors(balancer: Balancer, case: str) -> None:
    sent, status = REFUSED[case]
    found, head, body = ask(balancer, sent)
    assert found == status
    assert b"content-type: application/json" in head.lower()
    assert b"x-content-type-options: nosniff" in head.lower()
    assert json.loads(body).keys() >= {"code", "message"}
    assert b"hunter2" not in head + body


@pytest.mark.parametrize(
    "sent",
    [
        POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"hunter2\r\n\r\n",
    ],
    ids=["two-lengths", "no-http"],
)
def test_malformed_request_is_refused(balancer: Balancer, sent: bytes) -> None:
    # HAProxy has no configuration for this answer.
    status, head, body = ask(balancer, sent)
    assert status == 400
    assert b"hunter2" not in head + body


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /hea",
        GET,
        POST + b"Content-Length: 60000\r\n\r\n{",
        GET + b"Content-Length: 60000\r\n\r\n{",
        b"GET /api/v1/stream HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n"
        b"Connection: upgrade\r\nContent-Length: 5\r\n\r\n",
    ],
    ids=["nothing", "line", "head", "body", "body-of-get", "upgrade-with-body"],
)
def test_half_requests_take_no_thread(balancer: Balancer, sent: bytes) -> None:
    with ExitStack() as stack:
        for _ in range(24):
            open_socket(balancer, stack).sendall(sent)
        began = time.monotonic()
        assert [balancer.get("/healthz").status_code for _ in range(10)] == [200] * 10
        assert time.monotonic() - began < 10


def test_slow_readers_take_no_thread(balancer: Balancer) -> None:
    """Each leaves a response of half a megabyte unread."""
    with ExitStack() as stack:
        for _ in range(24):
            request = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"
            open_socket(balancer, stack).sendall(request)
        began = time.monotonic()
        assert [balancer.get("/healthz").status_code for _ in range(10)] == [200] * 10
        assert time.monotonic() - began < 8


def test_body_of_64_kilobytes_is_accepted(balancer: Balancer) -> None:
    body = b'{"transaction":"' + b"x" * (60_000) + b'"}'
    answer = httpx.post(
        f"{balancer.url}/auth",
        content=body,
        verify=balancer.tls,
        headers={"Content-Type": "application/json"},
        timeout=TIMEOUT,
    )
    # The API's own answer: it has no login.
    assert (answer.status_code, answer.json()["code"]) == (404, "SIGN_IN_OFF")


def test_client_address_and_start_are_replaced(balancer: Balancer, server: Server, book) -> None:
    forged = {"X-Forwarded-For": "192.0.2.9", "X-Request-Start": "t=1.0"}
    answer = balancer.get("/api/v1/orderbook", headers=forged)
    assert (answer.status_code, answer.json()) == (200, [])
    with connect(balancer.stream_url, ssl=balancer.tls, additional_headers=forged):
        pass
    deadline = time.monotonic() + TIMEOUT
    while not any("stream closed" in line for line in server.log):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    closed = [each for each in server.log if "stream closed" in each]
    assert all("address=127.0.0.1 " in each for each in closed)


def test_request_start_is_in_seconds_with_milliseconds() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(TIMEOUT)
        port = listener.getsockname()[1]
        with haproxy([port], {"option httpchk": "#"}) as balancer, ExitStack() as stack:
            sock = open_socket(balancer, stack)
            before = time.time()
            sock.sendall(GET + b"\r\n")
            while True:
                connection, _ = listener.accept()
                stack.enter_context(connection)
                connection.settimeout(TIMEOUT)
                head = connection.recv(65536)
                # A check of TCP alone sends nothing.
                if head:
                    break
    [value] = [
        line.partition(b": ")[2]
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"x-request-start")
    ]
    assert abs(float(value.removeprefix(b"t=")) - before) < 1
    assert value.count(b".") == 1


def test_requests_and_streams_of_one_address_are_limited(
    balancer: Balancer, server: Server, book: Connection
) -> None:
    with haproxy([port_of(server)], {"gt 128": "gt 2"}) as limited, ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(connect(limited.stream_url, ssl=limited.tls))
        answer = limited.get("/healthz")
        assert (answer.status_code, answer.json()["code"]) == (429, "TOO_MANY")
        assert answer.headers["Retry-After"] == "5"


def test_stopped_api_returns_503() -> None:
    with haproxy([free_port()]) as balancer:
        answer = balancer.get("/healthz")
    assert (answer.status_code, answer.json()["code"]) == (503, "OVERLOADED")
    assert answer.headers["Retry-After"] == "5"
