"""`GET /api/v1/stream`, upgraded to a WebSocket: who may come in, and the way to the hub.

Whatever can be refused is refused before the upgrade, as an error of the API. flask-sock shakes
hands; then the socket goes to the hub and the server's thread is free again, so that open streams
take no thread from other requests.
"""

import base64
import binascii
import os
import socket
import threading
import time
from typing import Any, NoReturn

from flask import Blueprint, Flask, current_app, g, request
from flask_sock import Sock

from api.auth.authenticator import Authenticator
from api.auth.claims import AuthSession
from api.auth.owner import get_authenticator, public
from api.deps import Deps, deps, read_snapshot
from api.errors import BadRequest, Forbidden, Unavailable, UpgradeRequired
from api.parsing import read_query
from api.rate_limits import OWNER
from api.stream import outbox
from api.stream.client import Client
from api.stream.hub import Hub
from api.stream.limits import StreamSlots
from api.stream.outbox import Missed
from api.stream.owners import Access
from api.stream.requests import WISHES, SubscribeRequest, parse_subscribe_request

_KEY = "isthmus_stream"

stream = Blueprint("stream", __name__, url_prefix="/api/v1")
stream.before_request(public)


class Stream:
    """An app's stream: its doors, and the hub that serves whoever is in."""

    def __init__(self, deps: Deps, gate: Authenticator) -> None:
        self._deps = deps
        self._gate = gate
        self._lock = threading.Lock()
        self._hub: Hub | None = None
        self.doors = StreamSlots(deps.stream)

    def hub(self) -> Hub:
        """A hub at work. The first client of a process has it read the book.

        Raises `OrderBookNotReady`, and what a lost database raises.
        """
        with self._lock:
            if self._hub is None or not self._hub.is_alive:
                self._hub = self._start()
            return self._hub

    def stop(self) -> None:
        """Say goodbye to everyone. Takes no lock: a signal's handler may ask."""
        if self._hub is not None:
            self._hub.stop()

    def wait(self, seconds: float) -> None:
        """Wait for the end of a stream that was stopped."""
        if self._hub is not None:
            self._hub.wait(seconds)

    def _start(self) -> Hub:
        given = self._deps
        chain = given.network.stellar.id
        with read_snapshot(given.engine) as connection:
            start = outbox.read_start(connection, chain)
        access = Access(self._admit, given.network, given.clock)
        hub = Hub(given.engine, chain, given.listener, start, given.metrics, access)
        hub.start()
        return hub

    def _admit(self, token: str) -> AuthSession:
        """As a request with the token is let in, and counted."""
        session = self._gate.admit(f"Bearer {token}")
        self._deps.limiter.count(OWNER, session.account)
        return session


def register_stream(app: Flask, deps: Deps) -> None:
    """Give an app its stream."""
    app.extensions[_KEY] = Stream(deps, get_authenticator(app))
    app.config["SOCK_SERVER_OPTIONS"] = {"thread_class": _NoThread}


def stream_of(app: object) -> Stream | None:
    """The stream of an app, if it is one that has one."""
    return app.extensions.get(_KEY) if isinstance(app, Flask) else None


def _stream() -> Stream:
    held: Stream = current_app.extensions[_KEY]
    return held


@stream.get("/stream")
def ask_to_upgrade() -> NoReturn:
    """The path without a WebSocket."""
    raise UpgradeRequired("this path speaks WebSocket: connect with ws:// or wss://")


@stream.before_request
def admit() -> None:
    """Refuse what cannot be served, while there is still a way to say why."""
    if request.endpoint != "stream.open_stream":
        return
    _check_handshake()
    _check_origin(request.headers.get("Origin"))
    wish = parse_subscribe_request(read_query(WISHES, others=True))
    g.stream_wish = wish
    g.stream_place = _stream().doors.enter(request.remote_addr or "")
    g.stream_hub = _stream().hub()
    g.stream_missed = _missed(wish)


@stream.teardown_request
def leave(_: BaseException | None) -> None:
    """A client that did not get as far as the hub has no place any more."""
    place = g.pop("stream_place", None)
    if place is not None:
        place.leave()


def open_stream(handshaken: Any) -> None:
    """Hand the connection to the hub."""
    now = time.monotonic()
    limits = deps().stream
    sock = _taken(handshaken, limits.socket_bytes)
    client = Client(sock, g.request_id, g.pop("stream_place"), limits, now)
    g.stream_hub.join(client, g.stream_wish, g.stream_missed)


Sock().route("/stream", bp=stream)(open_stream)


def _check_handshake() -> None:
    """What the library behind flask-sock would answer with a 500."""
    if request.headers.get("Sec-WebSocket-Version") != "13":
        raise UpgradeRequired("Sec-WebSocket-Version must be 13")
    try:
        key = base64.b64decode(request.headers.get("Sec-WebSocket-Key", ""), validate=True)
    except binascii.Error:
        key = b""
    if len(key) != 16:
        raise BadRequest("Sec-WebSocket-Key must be 16 bytes in base64", code="BAD_HANDSHAKE")
    if not {"gunicorn.socket", "werkzeug.socket"} & request.environ.keys():
        raise Unavailable("this server cannot upgrade a connection", code="STREAM_NOT_SERVED")
    # Frames are made once for all, so none is compressed; and what a client sends need not be able
    # to grow a thousandfold here.
    request.environ.pop("HTTP_SEC_WEBSOCKET_EXTENSIONS", None)


def _check_origin(origin: str | None) -> None:
    """A browser asks nobody before it opens a socket, so that it is for us to refuse a page.

    What is no page names no origin, and may come in. No cookie is looked at, and
    a token that is said afterwards is one that the page holds.
    """
    if not deps().web.allows(origin):
        raise Forbidden("pages of your origin may not open the stream", code="ORIGIN_NOT_ALLOWED")


def _missed(wish: SubscribeRequest) -> Missed | None:
    if wish.after is None:
        return None
    given = deps()
    with read_snapshot(given.engine) as connection:
        return outbox.read_missed(
            connection,
            given.network.stellar.id,
            wish.after,
            most=given.stream.resumed_messages,
        )


def _taken(handshaken: Any, socket_bytes: int) -> socket.socket:
    """The connection as a socket of ours alone.

    The server will shut down and close what it knows as the connection, as soon as the request has
    been answered: that is put in the place of a socket whose other end is gone.
    """
    theirs = handshaken.sock
    ours = socket.socket(fileno=os.dup(theirs.fileno()))
    ours.setblocking(False)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, socket_bytes)
    stand_in, other = socket.socketpair()
    with stand_in, other:
        os.dup2(stand_in.fileno(), theirs.fileno(), inheritable=False)
    # flask-sock would say goodbye in our name.
    handshaken.connected = False
    return ours


class _NoThread:
    """In the place of the thread that would read the socket: the hub does."""

    name = "none"

    def __init__(self, target: Any) -> None:
        """`target` would have been run."""

    def start(self) -> None:
        """Nothing to do."""
