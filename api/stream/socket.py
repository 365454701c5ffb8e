"""`GET /api/v1/stream`, upgraded to a WebSocket and handed to the hub.

Every refusal comes before the upgrade, as an error of the API. flask-sock does the handshake; then
the socket goes to the hub and the server's thread is free: open streams occupy no request thread.
"""

import base64
import binascii
import os
import socket
import threading
import time
from typing import Any, NoReturn

from flask import Blueprint, Flask, Response, current_app, g, request
from flask_sock import Sock

from api.auth.authenticator import Authenticator
from api.auth.claims import AuthSession
from api.auth.owner import get_authenticator, public
from api.deps import Deps, deps, read_snapshot
from api.errors import BadRequest, Forbidden, Unavailable, UpgradeRequired, error_response
from api.operation import HeaderDoc, Parameter, operation
from api.parsing import read_query
from api.rate_limits import OWNER
from api.stream import outbox
from api.stream.client import Client
from api.stream.hub import Hub
from api.stream.limits import StreamSlots
from api.stream.requests import PARAMETERS, QUERY, parse_subscribe_request
from api.stream.transfer_subscriptions import TokenAccess

_KEY = "isthmus_stream"

stream = Blueprint("stream", __name__, url_prefix="/api/v1")
stream.before_request(public)


_HANDSHAKE = (
    Parameter("Upgrade", "`websocket`", place="header"),
    Parameter("Connection", "`Upgrade`", place="header"),
    Parameter("Sec-WebSocket-Version", "`13`", place="header"),
    Parameter("Sec-WebSocket-Key", "16 bytes in base64.", place="header"),
)
_UPGRADE = (HeaderDoc("Upgrade", "`websocket`"), HeaderDoc("Sec-WebSocket-Version", "`13`"))


class Stream:
    """An app's stream: its slots, and the hub."""

    def __init__(self, deps: Deps, authenticator: Authenticator) -> None:
        self._deps = deps
        self._authenticator = authenticator
        self._lock = threading.Lock()
        self._hub: Hub | None = None
        self.slots = StreamSlots(deps.stream)

    def hub(self) -> Hub:
        """The running hub. The first client of a process starts it.

        Raises `OrderBookNotReady`, and SQLAlchemy's errors while the database is away.
        """
        with self._lock:
            if self._hub is None or not self._hub.is_alive:
                given = self._deps
                chain = given.network.stellar.id
                with read_snapshot(given.engine) as connection:
                    snapshot = outbox.read_book_snapshot(connection, chain)
                access = TokenAccess(self._authenticate, given.network, given.clock)
                self._hub = Hub(
                    given.engine, chain, given.listener, snapshot, given.metrics, access
                )
                self._hub.start()
            return self._hub

    def end_within(self, seconds: float) -> None:
        """End clients one by one over that time. Takes no lock: a signal handler may call it."""
        if self._hub is not None:
            self._hub.end_within(seconds)

    def stop(self) -> None:
        """End every client. Takes no lock: a signal handler may call it."""
        if self._hub is not None:
            self._hub.stop()

    def wait(self, seconds: float) -> None:
        """Wait for the end of a stopped hub."""
        if self._hub is not None:
            self._hub.wait(seconds)

    def _authenticate(self, token: str) -> AuthSession:
        """As a request with the token: also counted towards the owner's rate limit."""
        session = self._authenticator.admit(f"Bearer {token}")
        self._deps.limiter.count(OWNER, session.account)
        return session


def register_stream(app: Flask, deps: Deps) -> None:
    """Give an app its stream."""
    app.extensions[_KEY] = Stream(deps, get_authenticator(app))
    app.config["SOCK_SERVER_OPTIONS"] = {"thread_class": _NoThread}


def stream_of(app: object) -> Stream | None:
    """The stream of an app; None if it has none."""
    return app.extensions.get(_KEY) if isinstance(app, Flask) else None


@stream.get("/stream")
@operation(
    "openStream",
    "Stream",
    {101: "The connection is a WebSocket."},
    parameters=(*QUERY, *_HANDSHAKE),
    refusals=(
        *("BAD_FILTER", "BAD_ADDRESS", "BAD_AFTER", "BAD_HANDSHAKE"),
        *("ORIGIN_NOT_ALLOWED", "UPGRADE_REQUIRED", "TOO_MANY_STREAMS"),
        *("STREAM_FULL", "STREAM_NOT_SERVED", "ORDER_BOOK_NOT_READY", "DATABASE_UNAVAILABLE"),
    ),
    refusal_headers={426: _UPGRADE},
)
def ask_to_upgrade() -> NoReturn:
    """Offers and orders as they change (WebSocket).

    The messages are described in [/asyncapi.json](/asyncapi.json). Errors of the query are answered
    before the upgrade.
    """
    raise UpgradeRequired("this path speaks WebSocket: connect with ws:// or wss://")


@stream.before_request
def admit() -> None:
    """Refuse what cannot be served, while the answer is still HTTP."""
    if request.endpoint != "stream.open_stream":
        return
    _check_handshake()
    if deps().shutdown.has_begun:
        # A load balancer sends it to another process.
        raise Unavailable("this process is shutting down", code="STREAM_NOT_SERVED")
    # Browsers send no preflight for a WebSocket, so the server checks the origin. Other programs
    # send none. Cookies are not used, and a page that sends a token holds it.
    if not deps().web.allows(request.headers.get("Origin")):
        raise Forbidden("pages of your origin may not open the stream", code="ORIGIN_NOT_ALLOWED")
    wanted = parse_subscribe_request(read_query(PARAMETERS, others=True))
    served: Stream = current_app.extensions[_KEY]
    g.stream_request, g.stream_missed = wanted, None
    g.stream_slot = served.slots.take(request.remote_addr or "")
    g.stream_hub = served.hub()
    if wanted.after is not None:
        given = deps()
        with read_snapshot(given.engine) as connection:
            g.stream_missed = outbox.read_missed(
                connection,
                given.network.stellar.id,
                wanted.after,
                limit=given.stream.resumed_messages,
            )


@stream.teardown_request
def leave(_: BaseException | None) -> None:
    """Release the slot of a client that did not reach the hub."""
    slot = g.pop("stream_slot", None)
    if slot is not None:
        slot.release()


@stream.errorhandler(ConnectionError)
def leave_handshake(_: ConnectionError) -> Response:
    """The client closed its connection before the handshake was sent: nothing failed here."""
    return error_response(BadRequest("the connection was closed", code="BAD_HANDSHAKE"))


def open_stream(connection: Any) -> None:
    """Hand the connection to the hub."""
    limits = deps().stream
    sock = _detach_socket(connection, limits.socket_bytes)
    client = Client(sock, g.request_id, g.pop("stream_slot"), limits, time.monotonic())
    g.stream_hub.join(client, g.stream_request, g.stream_missed)


Sock().route("/stream", bp=stream)(open_stream)


def _check_handshake() -> None:
    """simple-websocket, behind flask-sock, would answer these with a 500."""
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
    # No compression: frames are encoded once for all clients, and a compressed message could grow
    # a thousandfold here.
    request.environ.pop("HTTP_SEC_WEBSOCKET_EXTENSIONS", None)


def _detach_socket(connection: Any, socket_bytes: int) -> socket.socket:
    """The connection as a socket of the hub.

    The server shuts down and closes its socket after the request: its file descriptor is replaced
    by one whose other end is closed.
    """
    theirs = connection.sock
    ours = socket.socket(fileno=os.dup(theirs.fileno()))
    ours.setblocking(False)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, socket_bytes)
    stand_in, other = socket.socketpair()
    with stand_in, other:
        os.dup2(stand_in.fileno(), theirs.fileno(), inheritable=False)
    # Else flask-sock sends a close frame.
    connection.connected = False
    return ours


class _NoThread:
    """In place of simple-websocket's reading thread: the hub reads the socket."""

    name = "none"

    def __init__(self, target: Any) -> None:
        """`target` is not run."""

    def start(self) -> None:
        """Nothing to do."""
