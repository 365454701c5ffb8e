"""What one process gives to the stream's clients, and how long it waits for them."""

import threading
from collections import Counter
from dataclasses import dataclass

from api.errors import TooManyRequests, Unavailable
from api.rate_limits import client_network


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """Each holds for one process. Bytes and seconds."""

    clients: int = 2_000
    clients_per_address: int = 50
    queued_bytes: int = 1 << 20
    """Of messages that a client's socket did not take yet, beyond what it was greeted with."""
    socket_bytes: int = 128 << 10
    """Of messages that the kernel holds for a client; it takes twice that for its own needs."""
    message_bytes: int = 4 << 10
    """Of one message from a client, in as many frames as it likes."""
    burst: int = 20
    """Frames that a client may send at once …"""
    frames_per_second: float = 2.0
    """… and how fast it may send more."""
    ping_seconds: float = 30.0
    pong_seconds: float = 10.0
    """From a ping to its pong."""
    close_seconds: float = 1.0
    """From our word that a connection ends to its end, whether or not the client answers."""
    resumed_messages: int = 10_000
    """That a client may have missed; one that missed more is given the book anew."""


class StreamSlots:
    """Counts who is in, by address. Any thread may ask."""

    def __init__(self, limits: StreamLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._inside: Counter[str] = Counter()

    def enter(self, address: str) -> "StreamSlot":
        """A place for a client. Raises `Unavailable` or `TooMany` when there is none."""
        if not self._limits.clients:
            raise Unavailable("this process serves no stream", code="STREAM_NOT_SERVED")
        who = client_network(address)
        with self._lock:
            if self._inside.total() >= self._limits.clients:
                raise Unavailable("all places of the stream are taken", code="STREAM_FULL")
            if self._inside[who] >= self._limits.clients_per_address:
                raise TooManyRequests(
                    f"{self._limits.clients_per_address} streams are open from your address",
                    code="TOO_MANY_STREAMS",
                )
            self._inside[who] += 1
        return StreamSlot(self, who)

    def leave(self, who: str) -> None:
        """Free a place."""
        with self._lock:
            self._inside[who] -= 1
            if not self._inside[who]:
                del self._inside[who]

    def __len__(self) -> int:
        with self._lock:
            return self._inside.total()


class StreamSlot:
    """A client's place, until it is left; leaving twice is leaving once."""

    def __init__(self, doors: StreamSlots, who: str) -> None:
        self._doors: StreamSlots | None = doors
        self.who = who

    def leave(self) -> None:
        """Give the place back."""
        doors, self._doors = self._doors, None
        if doors is not None:
            doors.leave(self.who)
