"""Clients that are slow, on purpose or not, hold up nobody else."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import httpx
import pytest
from sqlalchemy import create_engine, text

from api.worker import (
    ARRIVING_SECONDS,
    MAX_QUEUED,
    MOST_HELD,
    Arriving,
)
from devnet.supervisor import free_port
from tests.api.test_metrics import figures
from tests.factories.streaming import PATIENCE, serving

MANY = 24
"""Three times as many as the server has threads."""
HEAD = b"POST /auth HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
WHOLE = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"


@pytest.fixture(scope="module")
def server(api_database, tmp_path_factory):
    settings = {"ISTHMUS_LIMIT_SIGN_IN": "off"}
    home = tmp_path_factory.mktemp("home")
    with serving(api_database, home, workers=1, settings=settings) as server:
        yield server


@contextmanager
def connections(server, number: int = MANY) -> Iterator[list[socket.socket]]:
    host, port = server.url.removeprefix("http://").split(":")
    with ExitStack() as stack:
        yield [
            stack.enter_context(socket.create_connection((host, int(port)), timeout=30))
            for _ in range(number)
        ]


def read_all(sock: socket.socket) -> bytes:
    return b"".join(iter(lambda: sock.recv(65536), b""))


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /hea",
        WHOLE,
        HEAD + b"Content-Length: 100\r\n\r\n{",
        HEAD + b"Content-Length: 100000\r\n\r\n{",
        HEAD + b"Content-Length: 100000000\r\n\r\n{",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + (b"400\r\n" + b"a" * 1024 + b"\r\n") * 130,
        HEAD + b"Content-Length: 9\r\nExpect: 100-continue\r\n\r\n",
        WHOLE + b"Connection: close\r\n\r\n",
    ],
    ids=lambda sent: f"{sent[:24]!r} {len(sent)}",
)
def test_half_requests_and_connections_that_stay_open_take_no_thread(server, sent):
    with connections(server) as sockets:
        for sock in sockets:
            sock.sendall(sent)
        # With the first ten requests gunicorn's own worker would need a minute.
        began = time.monotonic()
        assert [httpx.get(f"{server.url}/healthz").status_code for _ in range(10)] == [200] * 10
        assert time.monotonic() - began < ARRIVING_SECONDS


def test_a_request_in_many_pieces_is_answered(server):
    sent = HEAD + b"Content-Length: 18\r\nConnection: close\r\n\r\n" + b'{"transaction":""}'
    with connections(server, 1) as (sock,):
        for at in range(len(sent)):
            sock.sendall(sent[at : at + 1])
        assert read_all(sock).startswith(b"HTTP/1.1 404 ")


def test_requests_that_were_sent_together_are_answered_in_order(server):
    chunked = HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    with connections(server, 1) as (sock,):
        sock.sendall(WHOLE + b"\r\n" + chunked + WHOLE + b"Connection: close\r\n\r\n")
        answers = read_all(sock).split(b"HTTP/1.1 ")[1:]
    assert [each[:3] for each in answers] == [b"200", b"404", b"200"]


def test_who_waits_to_be_asked_for_a_body_is_asked(server):
    with connections(server, 1) as (sock,):
        close = b"Connection: close\r\n"
        sock.sendall(HEAD + close + b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        assert sock.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        sock.sendall(b"{}")
        assert b"HTTP/1.1 404 " in read_all(sock)


def test_a_request_that_never_ends_gets_408(server):
    with connections(server, 2) as (sock, silent):
        began = time.monotonic()
        sock.sendall(b"GET /hea")
        answer = read_all(sock)
        assert answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
        assert b'"code":"REQUEST_TIMEOUT"' in answer
        # A connection without a request has nothing to be answered.
        assert read_all(silent) == b""
        assert ARRIVING_SECONDS - 1 < time.monotonic() - began < ARRIVING_SECONDS + 5


def arrived(data: bytes, *, by: int = 1) -> Arriving:
    arriving = Arriving(0.0)
    for at in range(0, len(data), by):
        arriving.add(data[at : at + by])
    return arriving


@pytest.mark.parametrize("by", [1, 3, 4096])
@pytest.mark.parametrize(
    ("body", "whole"),
    [
        (b"content-LENGTH:\t3 \r\n\r\nabc", True),
        (b"content-length: 3\r\n\r\nab", False),
        (b"Transfer-Encoding: chunked\r\n\r\n3;x=0\r\nabc\r\n00\r\n\r\n", True),
        (b"Transfer-Encoding: chunked\r\n\r\n5\r\n0\r\n\r\n", False),
        (b"Transfer-Encoding: chunked\r\n\r\n0\r\nTrailer: x\r\n\r\n", True),
        (b"Transfer-Encoding: chunked\r\n\r\n0\r\nTrailer: x\r\n", False),
        (b"Transfer-Encoding: chunked\r\n\r\nnonsense\r\n", True),
        (b"Transfer-Encoding: gzip\r\n\r\n", True),
        (b"Content-Length: 3\r\nContent-Length: 4\r\n\r\n", True),
        (b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", True),
        (b"X: y\r\n", False),
    ],
)
def test_a_request_is_whole_when_its_body_is(by, body, whole):
    arriving = arrived(HEAD + body, by=by)
    assert (arriving.is_whole(), arriving.is_too_much()) == (whole, False)


def test_what_is_too_much_is_not_waited_for():
    declared = arrived(HEAD + b"Content-Length: %d\r\n\r\n" % (MOST_HELD + 1))
    assert declared.is_said_to_be_too_much()
    assert arrived(b"x" * MOST_HELD, by=4096).is_too_much()


# Overload: one worker, whose eight threads wait for a table that the test has locked.

ORDER = "/api/v1/intents/" + "ab" * 32
THREADS = 8


@pytest.fixture
def overloaded(api_database, book, tmp_path):
    """A server with a figures port and a function that locks the orders until its block ends."""
    port = free_port()
    settings = {"ISTHMUS_METRICS": f"127.0.0.1:{port}", "ISTHMUS_NETWORK": "testnet"}
    owner = create_engine(api_database)

    @contextmanager
    def locked():
        with owner.begin() as connection:
            connection.execute(text("LOCK TABLE projections.orders IN ACCESS EXCLUSIVE MODE"))
            yield

    def metric(name: str) -> dict[tuple[str, ...], float]:
        return figures(httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE).text)[name]

    with serving(api_database, tmp_path, workers=1, settings=settings) as server:
        yield server, locked, metric
    owner.dispose()


def ask_order(sockets: list[socket.socket]) -> None:
    for sock in sockets:
        sock.sendall(f"GET {ORDER} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())


def status_of(sock: socket.socket) -> int:
    return int(read_all(sock).split(b" ", 2)[1])


def test_a_full_queue_refuses_at_once_with_503(overloaded):
    server, locked, metric = overloaded
    with connections(server, MAX_QUEUED) as waiting, connections(server, 20) as further:
        with locked():
            ask_order(waiting)
            ask_order(further)
            # The lock is still held: only the loop can have answered these.
            refused = [read_all(sock) for sock in further]
            assert all(each.startswith(b"HTTP/1.1 503 ") for each in refused)
            assert all(b"\r\nRetry-After: 5\r\n" in each for each in refused)
            assert [each for each in refused if b"OVERLOADED" not in each] == []
        assert {status_of(sock) for sock in waiting} <= {404, 503}
    assert metric("isthmus_requests_shed_total")[("queue_full",)] == 20


@pytest.mark.parametrize("queued", [THREADS, MAX_QUEUED], ids=["busy_threads", "full_queue"])
def test_liveness_probe_is_answered_under_overload(overloaded, queued):
    server, locked, _ = overloaded
    with connections(server, queued) as waiting, connections(server, 3) as probes:
        with locked():
            ask_order(waiting)
            for probe in probes:
                probe.sendall(WHOLE + b"\r\n")
            # The lock is still held: no thread is free.
            answers = [read_all(probe) for probe in probes]
            assert [each.split(b"\r\n")[0] for each in answers] == [b"HTTP/1.1 200 OK"] * 3
            assert [each for each in answers if not each.endswith(b'{"status":"alive"}')] == []
        assert {status_of(sock) for sock in waiting} <= {404, 503}


def test_late_and_abandoned_requests_are_shed(overloaded):
    server, locked, metric = overloaded
    with connections(server, THREADS) as served, connections(server, 10) as late:
        with locked():
            ask_order(served)
            with connections(server, 100) as leaving:
                ask_order(leaving)
            ask_order(late)
            # The lock is still held: no thread has come free.
            assert [status_of(sock) for sock in late] == [503] * 10
        assert [status_of(sock) for sock in served] == [404] * THREADS
    assert metric("isthmus_requests_shed_total") == {("client_gone",): 100, ("too_late",): 10}
    assert metric("isthmus_requests_total") == {
        ("GET", "/api/v1/intents/<order_id>", "404"): THREADS
    }
