"""HTTP on this machine, without the proxy of the environment."""

from __future__ import annotations

import ssl
from functools import cache

import httpx

from isthmus_client import Timeouts

HOST = "127.0.0.1"
"""Address of all local servers."""

TIMEOUTS = Timeouts(connect=60.0, response=120.0)
"""For clients of the API on a machine that is busy with a whole demo."""


def local_client(base_url: str = "", *, timeout: float) -> httpx.Client:
    """A client that keeps its connections; `timeout` is seconds to connect, and of each piece."""
    return httpx.Client(base_url=base_url, timeout=timeout, trust_env=False, verify=_certificates())


@cache
def _certificates() -> ssl.SSLContext:
    """Cached: reading the certificates takes longer than a local answer."""
    return httpx.create_ssl_context(trust_env=False)
