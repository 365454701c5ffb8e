"""A worker of gunicorn that no client can hold up by being slow.

gunicorn's own reads each request in one of its few threads, waiting as long as the client likes,
and waits in its main loop for clients to close what was answered: a handful of half requests stop
it. Here a thread gets a request when it is whole, the loop closes without waiting, and what a
client does not take in time is cut off.

Under overload it sheds load: beyond `MAX_QUEUED` waiting requests each further one gets `503` with
`Retry-After` at once, a request that waited longer than `MAX_QUEUE_SECONDS` gets the same instead
of a late answer, and the request of a client that has closed its connection is dropped. A liveness
probe (`GET /healthz`) is never shed: while all threads are busy, the loop answers it.
"""

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from selectors import EVENT_READ
from types import FrameType
from typing import Any

from gunicorn.workers.gthread import ThreadWorker

from api.metrics import metrics_of
from api.server_errors import closing_response, refusal_response, reject_request
from api.stream.socket import Stream, stream_of

ARRIVING_SECONDS = 10.0
"""From the first look for a request to its last byte."""
ANSWER_SECONDS = 60.0
"""From a whole request to the last byte of its answer: the largest is 1.5 MB."""
LINGER_SECONDS = 2.0
"""For a client to close what was answered; then it is closed for it."""
MAX_QUEUED = 256
"""Requests of one worker that are being answered or wait for a thread."""
MAX_QUEUE_SECONDS = 3.0
"""That a request may wait for a thread: most clients have given up by then."""
GONE_AFTER_SECONDS = 0.25
"""Wait for a thread after which a closed connection means that the client has left. Before that, a
client that only closed its sending side, which is legal, gets its answer."""
MOST_HELD = 128 * 1024
"""Bytes of a request that is not whole: more than any that is served. A larger one is let through
to be refused."""

_PROBE = re.compile(rb"GET /healthz HTTP/1\.[01]\r\n")
_ALIVE = closing_response(HTTPStatus.OK, b'{"status":"alive"}')
"""Liveness as `api.health` says it: an orchestrator would kill a server that is busy only."""
_HEAD_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,9})[ \t]*(?=\r\n)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[^\r\n]*chunked[ \t]*\r\n", re.IGNORECASE)
_EXPECTS = re.compile(rb"\r\nexpect:[ \t]*100-continue[ \t]*\r\n", re.IGNORECASE)
_LINE_END = b"\r\n"
_SIZE = re.compile(rb"[0-9a-fA-F]{1,8}")


@dataclass
class Arriving:
    """A request that is not whole yet."""

    until: float
    held: bytearray = field(default_factory=bytearray)
    invited: bool = False
    """It was told to send its body."""
    _body: int = 0
    """Where the body begins; 0 before the head is whole."""
    _length: int | None = None
    """Of the body, by its own word."""
    _next_chunk: int | None = None
    """Where it begins; None for a body that has no chunks."""

    def add(self, data: bytes) -> None:
        """More of it."""
        looked_at = max(0, len(self.held) - len(_HEAD_END))
        self.held += data
        if not self._body and (end := self.held.find(_HEAD_END, looked_at)) >= 0:
            self._body = end + len(_HEAD_END)
            self._read_head(self.held[: self._body])

    def _read_head(self, head: bytearray) -> None:
        lengths = _LENGTH.findall(head)
        is_chunked = _CHUNKED.search(head) is not None
        # With more than one way to tell its end it is refused for that.
        if is_chunked and not lengths:
            self._next_chunk = self._body
        elif len(lengths) == 1 and not is_chunked:
            self._length = int(lengths[0])

    def is_whole(self) -> bool:
        """Whether a thread would not have to wait for more of it."""
        if not self._body:
            return False
        if self._next_chunk is not None:
            return self._has_last_chunk(self._next_chunk)
        return len(self.held) >= self._body + (self._length or 0)

    def is_too_much(self) -> bool:
        """Whether it is refused, whatever else there is of it."""
        return len(self.held) >= MOST_HELD or self.is_said_to_be_too_much()

    def is_said_to_be_too_much(self) -> bool:
        """And for what it says of itself, so that nobody reads on."""
        return self._length is not None and self._length > MOST_HELD

    def waits_for_an_invitation(self) -> bool:
        """Whether the client has sent a head alone, and sends the body when it is told to."""
        return (
            self._body == len(self.held) and not self.invited and bool(_EXPECTS.search(self.held))
        )

    def _has_last_chunk(self, at: int) -> bool:
        while (line := self.held.find(_LINE_END, at)) >= 0:
            size = _SIZE.match(self.held, at, line)
            if size is None:
                # Nonsense, to be refused.
                return True
            if int(size[0], 16) == 0:
                return self.held.find(_HEAD_END, line) >= 0
            at = line + int(size[0], 16) + 2 * len(_LINE_END)
            self._next_chunk = at
        return False


@dataclass(frozen=True, slots=True)
class Queued:
    """A whole request, handed to the threads."""

    since: float
    future: "Future[Any]"


class PatientWorker(ThreadWorker):  # type: ignore[misc]
    """gunicorn's threaded worker, as above. All but `handle` runs in its main loop."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._arriving: dict[Any, Arriving] = {}
        """By connection, the oldest first."""
        self._cut: set[Any] = set()
        """Whose request a thread has that is not whole."""
        self._lingering: dict[Any, float] = {}
        """Until when, by connection, the oldest first."""
        self._answers = Answers()
        self._queued: dict[Any, Queued] = {}
        """Requests that a thread answers or will answer, by connection, the oldest first."""
        self._look_at_queue_at = 0.0

    def on_shed(self, reason: str) -> None:
        """Called for each request that is shed: `queue_full`, `too_late` or `client_gone`."""

    def enqueue_req(self, conn: Any) -> None:
        """Instead of to a thread, which would wait for the request."""
        conn.sock.setblocking(False)
        arriving = Arriving(time.monotonic() + ARRIVING_SECONDS)
        if conn.parser is not None:
            arriving.add(conn.parser.unreader.take_buffered())
        if arriving.is_whole():
            self._hand_over(conn, arriving)
            return
        self._arriving[conn] = arriving
        self.poller.register(conn.sock, EVENT_READ, partial(self._receive, conn))
        # Most have sent all of it before they were looked at.
        self._receive(conn, conn.sock)

    def _receive(self, conn: Any, sock: socket.socket) -> None:
        arriving = self._arriving[conn]
        data = _read(sock)
        if data is None:
            return
        arriving.add(data)
        if not data and not arriving.held:
            self._forget(conn)
            self._close(conn)
        elif not data or arriving.is_whole() or arriving.is_too_much():
            self._forget(conn)
            self._hand_over(conn, arriving)
        elif arriving.waits_for_an_invitation():
            arriving.invited = True
            _send(sock, b"HTTP/1.1 100 Continue\r\n\r\n")

    def _forget(self, conn: Any) -> None:
        del self._arriving[conn]
        self.poller.unregister(conn.sock)

    def _hand_over(self, conn: Any, arriving: Arriving) -> None:
        if not arriving.is_whole():
            self._cut.add(conn)
            if not arriving.is_said_to_be_too_much():
                _shut(conn.sock, socket.SHUT_RD)
        if len(self._queued) >= self.cfg.threads and _PROBE.match(arriving.held):
            self._cut.discard(conn)
            self._answer(conn, _ALIVE)
            return
        if len(self._queued) >= MAX_QUEUED:
            self.on_shed("queue_full")
            self._cut.discard(conn)
            self._refuse(conn, HTTPStatus.SERVICE_UNAVAILABLE)
            return
        conn.init()
        conn.parser.unreader.unread(bytes(arriving.held))
        future = self.tpool.submit(self.handle, conn)
        self._queued[conn] = Queued(time.monotonic(), future)
        future.add_done_callback(
            lambda done: self.method_queue.defer(self.finish_request, conn, done)
        )

    def handle(self, conn: Any) -> Any:
        """Answer a request that is whole; in a thread."""
        with self._answers.one(conn.sock):
            return super().handle(conn)

    def _shed_queued(self, now: float) -> None:
        """Drop what waited too long for a thread, and requests of clients that have left."""
        for conn, queued in list(self._queued.items()):
            waited = now - queued.since
            if waited > MAX_QUEUE_SECONDS:
                self._drop(conn, queued, "too_late")
            elif waited > GONE_AFTER_SECONDS and conn not in self._cut and _is_closed(conn.sock):
                self._drop(conn, queued, "client_gone")

    def _drop(self, conn: Any, queued: Queued, reason: str) -> None:
        # False: a thread has just begun to answer it.
        if queued.future.cancel():
            self.on_shed(reason)
            self._refuse(conn, HTTPStatus.SERVICE_UNAVAILABLE)

    def _refuse(self, conn: Any, status: HTTPStatus) -> None:
        self._answer(conn, refusal_response(status))

    def _answer(self, conn: Any, response: bytes) -> None:
        """Answer from the loop, which never waits, and close."""
        conn.sock.setblocking(False)
        _send(conn.sock, response)
        self._close_gently(conn)

    def _keepalive_after(self, conn: Any, keepalive: bool) -> bool:
        """Never after a request of which there was more: gunicorn would wait for it."""
        return conn not in self._cut and bool(super()._keepalive_after(conn, keepalive))

    def finish_request(self, conn: Any, fs: "Future[Any]") -> None:
        """As gunicorn, which would wait for the client to close."""
        self._queued.pop(conn, None)
        self._cut.discard(conn)
        if fs.cancelled():
            # It was refused when it was cancelled.
            return
        if fs.exception() is not None or fs.result():
            super().finish_request(conn, fs)
        else:
            self._close_gently(conn)

    def _close_gently(self, conn: Any) -> None:
        """Close once the client has read the answer: closing at once could destroy it."""
        if _send_end(conn.sock):
            self._lingering[conn] = time.monotonic() + LINGER_SECONDS
            self.poller.register(conn.sock, EVENT_READ, partial(self._drain, conn))
        else:
            self._close(conn)

    def _drain(self, conn: Any, sock: socket.socket) -> None:
        if _read(sock) == b"":
            self._end_lingering(conn)

    def _end_lingering(self, conn: Any) -> None:
        del self._lingering[conn]
        self.poller.unregister(conn.sock)
        self._close(conn)

    def _close(self, conn: Any) -> None:
        self.nr_conns -= 1
        conn.close()

    def murder_pending(self) -> None:
        """At each turn of the loop, once a second at least: whose time is over."""
        super().murder_pending()
        now = time.monotonic()
        # A stopping worker waits for none that has not begun.
        spared = 0.0 if self.alive else ARRIVING_SECONDS - LINGER_SECONDS
        for conn in _over(self._arriving, now, lambda arriving: arriving.until - spared):
            has_begun = bool(self._arriving[conn].held)
            self._forget(conn)
            if has_begun:
                self._refuse(conn, HTTPStatus.REQUEST_TIMEOUT)
            else:
                self._close(conn)
        for conn in _over(self._lingering, now, lambda until: until):
            self._end_lingering(conn)
        self._answers.cut_off(now)
        if now >= self._look_at_queue_at:
            self._look_at_queue_at = now + GONE_AFTER_SECONDS
            self._shed_queued(now)


class Answers:
    """Connections whose requests are being answered. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._until: dict[socket.socket, float] = {}

    @contextmanager
    def one(self, sock: socket.socket) -> Iterator[None]:
        """While a request of that connection is answered."""
        with self._lock:
            self._until[sock] = time.monotonic() + ANSWER_SECONDS
        try:
            yield
        finally:
            with self._lock:
                del self._until[sock]

    def cut_off(self, now: float) -> None:
        """End the connections that take too long: a thread that waits for one wakes up."""
        with self._lock:
            for sock in _over(self._until, now, lambda until: until):
                _shut(sock, socket.SHUT_RDWR)
                # Once is enough.
                self._until[sock] = float("inf")


def _over(waiting: dict[Any, Any], now: float, end: Callable[[Any], float]) -> list[Any]:
    return [each for each, what in waiting.items() if end(what) <= now]


def _read(sock: socket.socket) -> bytes | None:
    """What there is; b"" at the end, also at a broken one; None: nothing yet."""
    try:
        return sock.recv(64 * 1024)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _is_closed(sock: socket.socket) -> bool:
    """Whether the client has closed its connection, or at least its sending side."""
    try:
        return sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def _send(sock: socket.socket, data: bytes) -> None:
    """A few bytes, to whoever is still there."""
    try:
        sock.send(data)
    except OSError:
        # Gone: what it sends next, or its end, shows that.
        return


def _send_end(sock: socket.socket) -> bool:
    """Say that nothing more comes; whether there is anybody to say it to."""
    sock.setblocking(False)
    return _shut(sock, socket.SHUT_WR)


def _shut(sock: socket.socket, how: int) -> bool:
    try:
        sock.shutdown(how)
    except OSError:
        return False
    return True


_GOODBYE_SECONDS = 3.0


class Worker(PatientWorker):
    """`--worker-class api.worker.Worker`."""

    wsgi: Any = None
    """The app, once it is loaded."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """SIGTERM: streams end while requests under way are still answered."""
        super().handle_exit(sig, frame)
        self._say_goodbye()

    def run(self) -> None:
        """Serve until told to stop, and until the last client has heard of it."""
        super().run()
        # If it was not told, its parent is gone.
        stream = self._say_goodbye()
        if stream is not None:
            stream.wait(_GOODBYE_SECONDS)

    def handle_error(
        self, req: Any, client: socket.socket, addr: tuple[str, int] | None, exc: Exception
    ) -> None:
        """A request that could not be read, or failed outside of the app."""
        # A Unix socket has no address.
        reject_request(client, addr[0] if addr else "", exc)

    def on_shed(self, reason: str) -> None:
        """Count it."""
        metrics = metrics_of(self.wsgi)
        if metrics is not None:
            metrics.shed(reason)

    def _say_goodbye(self) -> Stream | None:
        stream = stream_of(self.wsgi)
        if stream is not None:
            stream.stop()
        return stream
