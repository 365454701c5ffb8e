"""One POST to a URL that an owner chose: https, public addresses only, no redirect, a deadline.

The name is resolved once, by the connection itself, and the checked address is the one that is
connected to, so a change of DNS in between has no effect. Of the response only the status is read.
"""

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TypeAlias
from urllib.parse import urlsplit

IpAddress: TypeAlias = IPv4Address | IPv6Address

CONNECT_SECONDS = 5.0
WHOLE_SECONDS = 10.0
"""From the connection to the status: a response that drips in would pass each read timeout."""
PROMPT_SECONDS = 3.0
"""The same for the first event of a URL, and the limit of the prompt lane."""
_MAX_ADDRESSES = 2

_CARRY_IPV4 = (ip_network("64:ff9b::/96"), ip_network("64:ff9b:1::/48"), ip_network("2002::/16"))
"""IPv6 that a gateway translates to IPv4, which may be private."""
_SPECIAL = tuple(
    map(ip_network, ("192.0.0.0/24", "192.88.99.0/24", "fec0::/10", "3fff::/20", "5f00::/16"))
)
"""Of IANA's special-purpose registries, what some versions of Python's `ipaddress` lack."""


@dataclass(frozen=True, slots=True)
class WebhookResponse:
    """Status, or the reason why there is none."""

    status: int | None
    error: str | None
    seconds: float = field(default=0.0, compare=False)
    """Duration of the attempt."""

    @property
    def is_prompt(self) -> bool:
        """True when the event was taken within `PROMPT_SECONDS`."""
        return self.is_taken and self.seconds < PROMPT_SECONDS

    @property
    def is_taken(self) -> bool:
        """True for a status of 2xx."""
        return self.status is not None and 200 <= self.status < 300


class _NotPublic(OSError):
    """The name resolves to an address that is not public."""


def is_public(address: IpAddress) -> bool:
    """True for an address of the internet, and false for private and special ones."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None or address.scope_id is not None:
            return False
        if any(address in network for network in _CARRY_IPV4):
            return False
    if any(address in network for network in _SPECIAL):
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def post(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    context: ssl.SSLContext,
    admits: Callable[[IpAddress], bool] = is_public,
    whole_seconds: float = WHOLE_SECONDS,
) -> WebhookResponse:
    """Send a POST once. Raises no error of the network or of the URL.

    `url` is https with a host. Only the devnet and tests pass another `admits` than `is_public`.
    """
    began = time.monotonic()
    deadline = _Deadline(whole_seconds)
    try:
        parts = urlsplit(url)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection = _Connection(parts.hostname or "", parts.port or 443, context, admits, deadline)
        with closing(connection), deadline:
            connection.request("POST", path, body, dict(headers))
            status = connection.getresponse().status
            return WebhookResponse(status, None, time.monotonic() - began)
    except (OSError, http.client.HTTPException, ValueError) as error:
        # Includes errors of the URL, so that one owner's URL does not stop all webhooks. Owners see
        # the error: it must not contain anything that the server sent.
        return WebhookResponse(None, type(error).__name__.lstrip("_"), time.monotonic() - began)


class _Deadline:
    """Shuts its socket down when the time is over, in any state of the connection."""

    def __init__(self, seconds: float) -> None:
        self._lock = threading.Lock()
        self._sock: socket.socket | None = None
        self._is_over = False
        self._timer = threading.Timer(seconds, self._cut)
        self._timer.daemon = True

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def watch(self, sock: socket.socket) -> None:
        """Set the socket. Raises `TimeoutError` when the time is over: DNS has no timeout."""
        with self._lock:
            if self._is_over:
                raise TimeoutError
            self._sock = sock

    def _cut(self) -> None:
        with self._lock:
            self._is_over = True
            # The socket may be closed already.
            with suppress(OSError):
                if self._sock is not None:
                    # The base method: TLS's own would drop state that the reading thread uses.
                    socket.socket.shutdown(self._sock, socket.SHUT_RDWR)


class _Connection(http.client.HTTPSConnection):
    def __init__(
        self,
        host: str,
        port: int,
        context: ssl.SSLContext,
        admits: Callable[[IpAddress], bool],
        deadline: _Deadline,
    ) -> None:
        super().__init__(host, port, timeout=CONNECT_SECONDS, context=context)
        self._admits = admits
        self._tls = context
        self._deadline = deadline

    def connect(self) -> None:
        """Connect to one of the name's addresses, all of which must be admitted."""
        found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        addresses = [ip_address(each[4][0]) for each in found]
        if not addresses or not all(map(self._admits, addresses)):
            raise _NotPublic(f"{self.host} is not public")
        tried = addresses[:_MAX_ADDRESSES]
        for number, address in enumerate(tried, 1):
            try:
                plain = socket.create_connection((str(address), self.port), CONNECT_SECONDS)
                break
            except OSError:
                # Of IPv4 and IPv6 one may be unreachable.
                if number == len(tried):
                    raise
        try:
            sock = self._tls.wrap_socket(
                plain, server_hostname=self.host, do_handshake_on_connect=False
            )
        except BaseException:
            plain.close()
            raise
        self.sock = sock
        # Before the handshake, which may drip, too.
        self._deadline.watch(sock)
        sock.do_handshake()
