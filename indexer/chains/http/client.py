"""HTTP requests whose responses are bounded in time and size.

What is not bounded as a whole: headers, and compressed bytes that hold nothing, of a server that
drips them. URLs often carry a key, so messages name the host alone.
"""

import base64
import re
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import unquote, urlencode, urlsplit

import certifi
import orjson
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection
from urllib3.exceptions import HTTPError, ProtocolError, ReadTimeoutError

from indexer.errors import ConfigurationError, NodeUnavailable
from indexer.metrics.catalogue import NODE_REQUESTS, NODE_SECONDS
from indexer.metrics.collectors import count, observe, waiting

MAX_RESPONSE_BYTES = 128 * 1024 * 1024
"""More than the receipts of the fullest block, and than a page of the largest ledgers' metas."""
_RESPONSE_TIMEOUT_FACTOR = 3
"""Timeouts that a whole response may take: each piece of one that drips in would be in time."""
_PIECE_BYTES = 256 * 1024
"""Read at a time: a large response costs a third more in pieces of 64 kB."""
_KEPT_CONNECTIONS = 20
"""For the threads that share an endpoint; further ones are closed after their request."""
_PROBE_SECONDS = 60
"""A connection without traffic is probed after this: gateways forget silent ones after some
minutes, and the next request would wait for its timeout."""
_SOCKET_OPTIONS = (
    *HTTPConnection.default_socket_options,
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _PROBE_SECONDS),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _PROBE_SECONDS),
)

# A text is taken whole, also one that does not end: nothing is matched twice.
_JSON_TOKENS = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)


class NodeTimeout(NodeUnavailable):
    """The response did not come in time: the node is slow, or too much was requested at once."""


class ResponseTooLarge(NodeUnavailable):
    """The response exceeds the limit of bytes; often too much was requested at once."""


class ConnectionLost(NodeUnavailable):
    """The connection was lost before the response was whole, as happens to keep-alive ones."""


def host_of(url: str) -> str:
    """Host and port, without credentials."""
    return urlsplit(url).netloc.rpartition("@")[2]


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A whole response, of any status."""

    status: int
    content: bytes
    """Decompressed."""
    retry_after: float | None = None
    """Seconds of a Retry-After header; None for a date in it."""

    @property
    def is_success(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300


@cache
def _certificates() -> ssl.SSLContext:
    """Cached: reading the certificates takes longer than a node's response."""
    return ssl.create_default_context(cafile=certifi.where())


def _connections(url: str, timeout: float) -> HTTPConnectionPool:
    """Connections to the server of a URL, without a proxy of the environment."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    options: dict[str, Any] = {
        "port": parts.port,
        "timeout": timeout,
        "maxsize": _KEPT_CONNECTIONS,
        "socket_options": _SOCKET_OPTIONS,
    }
    if parts.scheme == "https":
        return HTTPSConnectionPool(host, ssl_context=_certificates(), **options)
    return HTTPConnectionPool(host, **options)


def _headers_for(url: str) -> dict[str, str]:
    """What every request to a URL says, its user and password included."""
    headers = {"accept-encoding": "gzip, deflate", "user-agent": "isthmus"}
    credentials, at, _ = urlsplit(url).netloc.rpartition("@")
    if at:
        basic = base64.b64encode(unquote(credentials).encode()).decode()
        headers["authorization"] = f"Basic {basic}"
    return headers


class HttpEndpoint:
    """A server behind one URL, with connections that are kept alive. Threads may share it."""

    def __init__(
        self,
        url: str,
        *,
        timeout: float,
        seconds: float | None = None,
        max_bytes: int = MAX_RESPONSE_BYTES,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """`timeout` is seconds to connect, and for each piece of a response.

        A whole response must be there after `seconds`, three times as long by default,
        decompressed in at most `max_bytes`. Raises `ConfigurationError` for a URL without a server.
        """
        self.url = url
        self.host = host_of(url)
        self.max_bytes = max_bytes
        self.counted_as: tuple[str, str] | None = None
        """Chain and place of a node in metrics; None: not counted."""
        self._seconds = timeout * _RESPONSE_TIMEOUT_FACTOR if seconds is None else seconds
        try:
            self._connections = _connections(url, timeout)
        except ValueError:
            # Without a word of it: what is taken for the port may be half of a password.
            raise ConfigurationError("the URL of a node or service has no host or port") from None
        self._headers = _headers_for(url) | dict(headers or {})

    def send(
        self,
        method: str,
        path: str = "",
        *,
        where: str | None = None,
        params: Mapping[str, str] | None = None,
        json: object = None,
    ) -> HttpResponse:
        """The whole response, of any status: a redirect is not followed. `json` is the body.

        Raises `NodeTimeout`, `ResponseTooLarge`, `ConnectionLost` or another `NodeUnavailable`;
        messages begin with `where`, or with the host.
        """
        if self.counted_as is None:
            return self._send(method, path, where=where, params=params, json=json)
        began, outcome = time.monotonic(), "failed"
        try:
            with waiting("node"):
                response = self._send(method, path, where=where, params=params, json=json)
            outcome = "answered"
            return response
        finally:
            count(NODE_REQUESTS, *self.counted_as, outcome)
            observe(NODE_SECONDS, *self.counted_as, value=time.monotonic() - began)

    def _send(
        self,
        method: str,
        path: str,
        *,
        where: str | None,
        params: Mapping[str, str] | None,
        json: object,
    ) -> HttpResponse:
        where = where or self.host
        deadline = time.monotonic() + self._seconds
        url = urlsplit(self.url + path)
        query = urlencode(params) if params else url.query
        body, headers = None, self._headers
        if json is not None:
            body = orjson.dumps(json)
            headers = {**headers, "content-type": "application/json"}
        pieces, size = [], 0
        try:
            response = self._connections.urlopen(
                method,
                f"{url.path or '/'}?{query}" if query else url.path or "/",
                body=body,
                headers=headers,
                retries=False,
                redirect=False,
                preload_content=False,
            )
            try:
                # At most one read of the socket each: what drips in is noticed.
                while piece := response.read1(_PIECE_BYTES):
                    pieces.append(piece)
                    size += len(piece)
                    if size > self.max_bytes:
                        raise ResponseTooLarge(f"{where}: over {self.max_bytes} bytes")
                    if time.monotonic() > deadline:
                        raise NodeTimeout(
                            f"{where}: the answer takes more than {self._seconds:g} s"
                        )
            except NodeUnavailable:
                # The rest of the response is on its way.
                response.close()
                raise
        except HTTPError as error:
            kind = NodeUnavailable
            if isinstance(error, ReadTimeoutError):
                kind = NodeTimeout
            elif isinstance(error, ProtocolError):
                kind = ConnectionLost
            # A cause leaves out what the message begins with: the host once more.
            raise kind(f"{where}: {type(error).__name__} {error.__cause__ or error}") from error
        seconds = response.headers.get("retry-after", "")
        return HttpResponse(
            response.status,
            b"".join(pieces),
            retry_after=float(seconds) if seconds.isdecimal() else None,
        )

    def close(self) -> None:
        """Close the connections."""
        self._connections.close()


def exceeds_json_depth(text: str, limit: int) -> bool:
    """Whether more than `limit` objects and arrays are nested. Scans without recursion.

    The standard library's reader recurses in C and is stopped by Python's recursion limit alone,
    which any library may raise (py_ecc does, to 100,000): the C stack ends first, and the process.
    For text that is no JSON the result is never False where a reader would go deeper.
    """
    depth = 0
    for token in _JSON_TOKENS.finditer(text):
        match text[token.start()]:
            case "[" | "{":
                depth += 1
                if depth > limit:
                    return True
            case "]" | "}":
                depth -= 1
    return False
