"""One POST to a place that a stranger named: https, public addresses alone, no redirect, an end.

What a name means is asked once, at the connection itself: the address that was looked at is the one
that is connected to, so that a name which means something else a moment later gains nothing. What
the place answers is not read but for its status.
"""

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TypeAlias
from urllib.parse import urlsplit

IpAddress: TypeAlias = IPv4Address | IPv6Address

CONNECT_SECONDS = 5.0
WHOLE_SECONDS = 10.0
"""From the connection to the status: each piece of an answer that drips in would be in time."""
PROMPT_SECONDS = 3.0
"""The same for the first attempt at a place; a place that takes longer waits among its like."""
_MOST_ADDRESSES = 2

_CARRY_IPV4 = (ip_network("64:ff9b::/96"), ip_network("64:ff9b:1::/48"), ip_network("2002::/16"))
"""IPv6 that a gateway turns into IPv4, which may be anybody's inside."""
_MORE = tuple(
    map(ip_network, ("192.0.0.0/24", "192.88.99.0/24", "fec0::/10", "3fff::/20", "5f00::/16"))
)
"""Of IANA's special-purpose registries, what Python's own tables lack in one version or another."""


@dataclass(frozen=True, slots=True)
class WebhookResponse:
    """What came of it: a status, or why there is none."""

    status: int | None
    error: str | None
    seconds: float = field(default=0.0, compare=False)
    """From the start of the attempt to its end."""

    @property
    def is_prompt(self) -> bool:
        """Whether the event was taken, within `PROMPT_SECONDS`."""
        return self.is_taken and self.seconds < PROMPT_SECONDS

    @property
    def is_taken(self) -> bool:
        """Whether the other side says that it has it."""
        return self.status is not None and 200 <= self.status < 300


class _NotPublic(OSError):
    """The name means an address that is not the internet's."""


def is_public(address: IpAddress) -> bool:
    """Whether an address is one of the internet, and of nothing that lies inside of a network."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None or address.scope_id is not None:
            return False
        if any(address in network for network in _CARRY_IPV4):
            return False
    if any(address in network for network in _MORE):
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
    """Send it once. `url` is https with a host, as it was registered. Raises nothing of the net's
    or the name's.

    `admits` is another than `is_public` on the local chains and in tests alone.
    """
    began = time.monotonic()
    deadline = _Deadline(whole_seconds)
    try:
        parts = urlsplit(url)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        where = (parts.hostname or "", parts.port or 443)
        connection = _Connection(*where, context, admits, deadline)
        with closing(connection), deadline:
            connection.request("POST", path, body, dict(headers))
            status = connection.getresponse().status
            return WebhookResponse(status, None, time.monotonic() - began)
    except (OSError, http.client.HTTPException, ValueError) as error:
        # Of the name as well, which a stranger chose: no place of one owner stops those of all.
        # Never what the other side wrote: it is shown to whoever registered the place.
        return WebhookResponse(None, type(error).__name__.lstrip("_"), time.monotonic() - began)


class _Deadline:
    """Ends what its socket waits for once the time is over, wherever the other side has come to."""

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

    def holds_for(self, sock: socket.socket) -> None:
        """From now on it is about this one. Raises `TimeoutError` when it is over: looking a name
        up has no end of its own."""
        with self._lock:
            if self._is_over:
                raise TimeoutError
            self._sock = sock

    def _cut(self) -> None:
        with self._lock:
            self._is_over = True
            # Closed by itself at that very moment.
            with suppress(OSError):
                if self._sock is not None:
                    # The base's: TLS's own would pull its state away under the thread that reads.
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
        """Of several addresses all have to be public: who mixes in another means no good."""
        found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        addresses = [ip_address(each[4][0]) for each in found]
        if not addresses or not all(map(self._admits, addresses)):
            raise _NotPublic(f"{self.host} is not public")
        plain = self._open(addresses[:_MOST_ADDRESSES])
        try:
            sock = self._tls.wrap_socket(
                plain, server_hostname=self.host, do_handshake_on_connect=False
            )
        except BaseException:
            plain.close()
            raise
        self.sock = sock
        # Before the handshake, which may drip as well.
        self._deadline.holds_for(sock)
        sock.do_handshake()

    def _open(self, addresses: Sequence[IpAddress]) -> socket.socket:
        """To the first that lets us in: of both families, one may lead nowhere."""
        *others, last = addresses
        for address in others:
            with suppress(OSError):
                return self._open_one(address)
        return self._open_one(last)

    def _open_one(self, address: IpAddress) -> socket.socket:
        return socket.create_connection((str(address), self.port), CONNECT_SECONDS)
