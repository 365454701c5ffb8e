"""GET of a public address as a wallet's page asks for it, over TLS with this machine's roots."""

import http.client
import ssl
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from api.auth.stellar_toml import MAX_BYTES

REQUEST_SECONDS = 5.0
_DAY_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class PublicAnswer:
    """What a public address answers."""

    status: int
    headers: Mapping[str, str]
    """Names in small letters."""
    body: bytes
    certificate_days: float | None
    """Days for which the server's certificate is valid; None over plain HTTP."""


def fetch(url: str) -> PublicAnswer:
    """GET, without redirects, of at most `MAX_BYTES` and a byte.

    Raises `OSError`, of which TLS errors are, and `http.client.HTTPException`.
    """
    parts = urlsplit(url)
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        context = ssl.create_default_context()
        connection = http.client.HTTPSConnection(
            parts.netloc, timeout=REQUEST_SECONDS, context=context
        )
    else:
        connection = http.client.HTTPConnection(parts.netloc, timeout=REQUEST_SECONDS)
    with closing(connection):
        target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        connection.connect()
        days = _days_left(connection.sock)
        # As a wallet's page asks.
        connection.request("GET", target, headers={"Origin": "https://wallet.example.com"})
        response = connection.getresponse()
        headers = {name.lower(): text for name, text in response.getheaders()}
        return PublicAnswer(response.status, headers, response.read(MAX_BYTES + 1), days)


def _days_left(sock: object) -> float | None:
    if not isinstance(sock, ssl.SSLSocket):
        return None
    certificate: Any = sock.getpeercert()
    return (ssl.cert_time_to_seconds(certificate["notAfter"]) - time.time()) / _DAY_SECONDS
