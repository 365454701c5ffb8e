"""HTTP requests with bounded time and size, whatever the server does.

URLs often carry a key, so messages name the host alone.
"""

import re
import ssl
import time
from collections.abc import Mapping
from functools import cache
from urllib.parse import urlsplit

import httpx
import orjson

from indexer.errors import NodeUnavailable
from indexer.metrics.catalogue import NODE_REQUESTS, NODE_SECONDS
from indexer.metrics.collectors import count, observe, waiting

MAX_RESPONSE_BYTES = 128 * 1024 * 1024
"""More than the receipts of the fullest block, and than a page of the largest ledgers' metas."""
_RESPONSE_TIMEOUT_FACTOR = 3
"""Timeouts that a whole response may take: each piece of one that drips in would be in time."""
_KEEP_ALIVE_SECONDS = 300
"""Longer than any chain's block time: a new connection per block costs more than the call."""

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


def new_client(*, timeout: float, headers: Mapping[str, str] | None = None) -> httpx.Client:
    """Client with keep-alive; `timeout` is seconds to connect, and for each piece of a response."""
    return httpx.Client(
        timeout=timeout,
        # No proxies and certificates from the environment.
        trust_env=False,
        verify=_certificates(),
        limits=httpx.Limits(keepalive_expiry=_KEEP_ALIVE_SECONDS),
        headers=headers,
    )


def retry_after(response: httpx.Response) -> float | None:
    """Seconds of a Retry-After header; None for a date in it."""
    text = response.headers.get("retry-after", "")
    return float(text) if text.isdecimal() else None


@cache
def _certificates() -> ssl.SSLContext:
    """Cached: reading the certificates takes longer than a node's response."""
    return httpx.create_ssl_context(trust_env=False)


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
        decompressed in at most `max_bytes`.
        """
        self.url = url
        self.host = host_of(url)
        self.max_bytes = max_bytes
        self.counted_as: tuple[str, str] | None = None
        """Chain and place of a node in metrics; None: not counted."""
        self._seconds = timeout * _RESPONSE_TIMEOUT_FACTOR if seconds is None else seconds
        self._client = new_client(timeout=timeout, headers=headers)

    def send(
        self,
        method: str,
        path: str = "",
        *,
        where: str | None = None,
        params: Mapping[str, str] | None = None,
        json: object = None,
    ) -> httpx.Response:
        """The whole response, of any status; of its headers, Retry-After alone. `json` is the body.

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
    ) -> httpx.Response:
        where = where or self.host
        deadline = time.monotonic() + self._seconds
        content, headers = None, None
        if json is not None:
            content, headers = orjson.dumps(json), {"content-type": "application/json"}
        pieces, size = [], 0
        try:
            with self._client.stream(
                method, self.url + path, params=params, content=content, headers=headers
            ) as response:
                for piece in response.iter_bytes():
                    pieces.append(piece)
                    size += len(piece)
                    if size > self.max_bytes:
                        raise ResponseTooLarge(f"{where}: over {self.max_bytes} bytes")
                    if time.monotonic() > deadline:
                        raise NodeTimeout(
                            f"{where}: the answer takes more than {self._seconds:g} s"
                        )
        except httpx.HTTPError as error:
            kind = NodeUnavailable
            if isinstance(error, httpx.ReadTimeout):
                kind = NodeTimeout
            elif isinstance(error, httpx.RemoteProtocolError | httpx.ReadError | httpx.WriteError):
                kind = ConnectionLost
            raise kind(f"{where}: {type(error).__name__} {error}".rstrip()) from error
        kept = {name: text for name, text in response.headers.items() if name == "retry-after"}
        return httpx.Response(response.status_code, headers=kept, content=b"".join(pieces))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


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
