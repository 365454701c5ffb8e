"""Drops requests that waited too long for a thread, before anything is computed for them.

The proxy says in `X-Request-Start` when it had the whole request (`deploy/nginx.conf`; Heroku, Puma
and New Relic use the same header). Under overload most clients have given up by the time that a
thread is free. A late answer costs as much as a timely one, so every answer would be late.
"""

import re
import socket
import time
from collections.abc import Callable, Iterable
from typing import Literal, TypeAlias
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from api.errors import RETRY_AFTER_SECONDS, error_body

MAX_QUEUE_SECONDS = 3.0
"""A request may wait for a thread. Clocks of proxy and API must agree better than that."""
GONE_AFTER_SECONDS = 0.25
"""Wait after which a closed connection means that the client has left. Before that it may only have
closed its sending side, which is legal, and still read the response."""

ShedReason: TypeAlias = Literal["too_late", "client_gone"]

_LIVENESS = "/healthz"
"""Never shed: an orchestrator would kill a server that is only busy."""
_START = re.compile(r"t=(\d{1,12}(?:\.\d{1,6})?)")


class LoadShedder:
    """WSGI middleware. Only for an API behind a proxy that sets the header: clients can send it."""

    def __init__(self, app: WSGIApplication, on_shed: Callable[[ShedReason], None]) -> None:
        self._app = app
        self._on_shed = on_shed

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Pass the request on, or answer 503."""
        reason = shed_reason(environ, time.time())
        if reason is None:
            return self._app(environ, start_response)
        self._on_shed(reason)
        body = error_body(503)
        start_response(
            "503 Service Unavailable",
            [
                ("Content-Type", "application/json"),
                ("Content-Length", str(len(body))),
                ("Retry-After", str(RETRY_AFTER_SECONDS)),
                ("X-Content-Type-Options", "nosniff"),
            ],
        )
        return [body]


def shed_reason(environ: WSGIEnvironment, now: float) -> ShedReason | None:
    """Why a request is dropped; None when it is not, or when the proxy gave no time."""
    if environ.get("PATH_INFO") == _LIVENESS:
        return None
    start = _START.fullmatch(environ.get("HTTP_X_REQUEST_START", ""))
    waited = 0.0 if start is None else now - float(start[1])
    if waited > MAX_QUEUE_SECONDS:
        return "too_late"
    connection = environ.get("gunicorn.socket")
    if waited > GONE_AFTER_SECONDS and connection is not None and _is_closed(connection):
        return "client_gone"
    return None


def _is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
