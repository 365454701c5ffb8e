"""Small HTTP servers on this machine, base of the stand-ins for external services.

Standard library only. They have no authentication, and are for local chains and tests.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import MappingProxyType
from typing import Any

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 0.01
"""Interval at which a server checks whether it was shut down."""
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Handler(BaseHTTPRequestHandler):
    """A connection, kept alive for several requests."""

    protocol_version = "HTTP/1.1"
    # Answers go out in one packet: a body held back by Nagle would cost 40 ms a call.
    disable_nagle_algorithm = True
    wbufsize = -1

    def announced(self) -> int:
        """Length of the request's body by its header, bytes."""
        return int(self.headers.get("Content-Length") or 0)

    def body(self) -> bytes:
        """The whole body. Raises `ConnectionResetError` when the client went before its end."""
        announced = self.announced()
        body = self.rfile.read(announced)
        if len(body) < announced:
            raise ConnectionResetError("the client was gone before it had asked")
        return body

    def answer(
        self, status: int, body: bytes = b"", headers: Mapping[str, str] = _NO_HEADERS
    ) -> None:
        """Send this; a `Content-Length` among the headers stands, true or not."""
        self.send_response(status)
        for name, value in {"content-length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as http.server names it
        """The request, at debug level."""
        logger.debug(format, *args)


class Server(ThreadingHTTPServer):
    """A thread per connection. It does not log clients that gave up or were killed."""

    daemon_threads = True

    def handle_error(self, *request: Any) -> None:
        """Logs other errors."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(*request)


@contextmanager
def answering(server: Server) -> Iterator[str]:
    """Its base URL while it serves, in a thread of its own."""
    thread = Thread(target=server.serve_forever, args=(_LOOK_SECONDS,), daemon=True)
    thread.start()
    try:
        yield f"http://{server.server_address[0]!s}:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
