"""Limits and timeouts of one process's stream."""

import threading
from collections import Counter
from dataclasses import dataclass

from api.errors import TooManyRequests, Unavailable
from api.rate_limits import client_network

MAX_STREAMS, MAX_STREAMS_PER_ADDRESS = 2_000, 50


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """Each holds for one process. Bytes and seconds."""

    clients: int = MAX_STREAMS
    clients_per_address: int = MAX_STREAMS_PER_ADDRESS
    queued_bytes: int = 1 << 20
    """Messages that a client's socket did not take yet, beyond its greeting."""
    socket_bytes: int = 128 << 10
    """Send buffer of a socket (SO_SNDBUF); the kernel allocates twice that."""
    message_bytes: int = 4 << 10
    """Of one message from a client, in any number of frames."""
    burst: int = 20
    """Frames that a client may send at once."""
    frames_per_second: float = 2.0
    """Rate at which a client may send more than the burst."""
    ping_seconds: float = 30.0
    pong_seconds: float = 10.0
    """From a ping to its pong."""
    close_seconds: float = 1.0
    """From our close frame to the end of the connection, answered or not."""
    resumed_messages: int = 10_000
    """Missed messages that are sent again; a client that missed more gets a snapshot."""


@dataclass
class StreamSlot:
    """A client's place in the limits."""

    slots: "StreamSlots"
    network: str
    released: bool = False

    def release(self) -> None:
        """Give the slot back; idempotent."""
        if not self.released:
            self.released = True
            self.slots.free(self.network)


class StreamSlots:
    """Counts open streams by client address. Threads share it."""

    def __init__(self, limits: StreamLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()

    def take(self, address: str) -> StreamSlot:
        """A slot for a client. Raises `Unavailable` or `TooManyRequests` without a free one."""
        if not self._limits.clients:
            raise Unavailable("this process serves no stream", code="STREAM_NOT_SERVED")
        network = client_network(address)
        with self._lock:
            if self._taken.total() >= self._limits.clients:
                raise Unavailable("all places of the stream are taken", code="STREAM_FULL")
            if self._taken[network] >= self._limits.clients_per_address:
                raise TooManyRequests(
                    f"{self._limits.clients_per_address} streams are open from your address",
                    code="TOO_MANY_STREAMS",
                )
            self._taken[network] += 1
        return StreamSlot(self, network)

    def free(self, network: str) -> None:
        """Count one stream of the network less."""
        with self._lock:
            self._taken[network] -= 1
            if not self._taken[network]:
                del self._taken[network]

    def __len__(self) -> int:
        with self._lock:
            return self._taken.total()
