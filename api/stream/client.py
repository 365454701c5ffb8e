"""One connection: what is to be sent, what comes in, and whether anybody is still there.

Only the hub's thread touches a client, so no two threads write one socket, and a frame that was
begun is always finished before the next. Nothing here waits: what the socket does not take now is
queued, up to a limit.
"""

import logging
import socket
from collections import deque
from dataclasses import dataclass

from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Event, Ping, Pong, TextMessage
from wsproto.frame_protocol import CloseReason

from api.stream import frames
from api.stream.limits import StreamLimits, StreamSlot

logger = logging.getLogger(__name__)

_RECEIVED_AT_ONCE = 4096


@dataclass(frozen=True, slots=True)
class Ending:
    """A close code (RFC 6455 §7.4) and the reason that goes with it. Clients may match on both."""

    code: int
    reason: str


STOPPING = Ending(1001, "server is stopping")
UNFIT = Ending(1008, "too many messages")
SILENT = Ending(1008, "no pong")
TOO_BIG = Ending(1009, "message too big")
BROKEN = Ending(1011, "internal error")
REVISED = Ending(1012, "order book read anew")
REFUSED = Ending(1008, "token refused")
EXPIRED = Ending(1008, "token expired")
REVOKED = Ending(1008, "token revoked")
OTHER = Ending(1008, "token of another account")
UNCHECKED = Ending(1013, "token not checked")
SLOW = Ending(1013, "slow reader")
FOREIGN = Ending(1002, "bad frame")
"""1007 with the same reason where it is text that is none."""
CLOSE_REASONS = (
    *(STOPPING, FOREIGN, UNFIT, SILENT, REFUSED, EXPIRED, REVOKED, OTHER),
    *(TOO_BIG, BROKEN, REVISED, SLOW, UNCHECKED),
)
"""What a client may be told."""
GONE = Ending(1006, "connection lost")
"""Never sent: there is nobody to send it to."""


class Client:
    """A socket that a handshake made a WebSocket."""

    def __init__(
        self, sock: socket.socket, name: str, place: StreamSlot, limits: StreamLimits, now: float
    ) -> None:
        self.socket = sock
        self.name = name
        self.over = False
        """Nothing more will be sent or read; whoever sees it closes the socket."""
        self.ending: Ending | None = None
        """Why it ends, or ended."""
        self.is_watched = False
        """Whether the hub waits for room to write."""
        self._place = place
        self._limits = limits
        self._protocol = Connection(ConnectionType.SERVER)
        self._queue: deque[bytes] = deque()
        self._begun = 0
        """Bytes of the queue's head that are sent."""
        self._queued = 0
        self._room = limits.queued_bytes
        self._sent = 0
        self._opened = now
        self._ping_at = now + limits.ping_seconds
        self._give_up_at: float | None = None
        """When a pong, or the end, must have come."""
        self._credit = float(limits.burst)
        self._credited = now
        self._incoming = 0
        """Bytes of the message that is coming in."""
        self._text: list[str] = []
        """Of the message that is coming in."""
        self._heard: list[str] = []
        self._is_deaf = False

    @property
    def is_behind(self) -> bool:
        """Whether something waits for the socket to take it."""
        return bool(self._queue)

    # Out

    def greet(self, data: bytes) -> None:
        """The first frames: however many, they do not count as lagging behind."""
        if self.ending is not None:
            return
        self._room += len(data)
        self._push(data)

    def tell(self, data: bytes, now: float) -> None:
        """Whole frames that others are told too."""
        if self.ending is not None:
            return
        if self._queued > self._room:
            self.end(SLOW, now)
        else:
            self._push(data)

    def end(self, ending: Ending, now: float) -> None:
        """Say why it ends; of what is queued, only the frame that was begun is still sent."""
        if self.ending is not None:
            return
        self.ending = ending
        self._give_up_at = now + self._limits.close_seconds
        self._drop_unbegun()
        self._push(frames.close(ending.code, ending.reason))

    def flush(self) -> None:
        """Send what the socket takes."""
        while self._queue and not self.over:
            head = self._queue[0]
            taken = self._send(memoryview(head)[self._begun :] if self._begun else head)
            self._queued -= taken
            self._begun += taken
            if self._begun < len(head):
                return
            self._queue.popleft()
            self._begun = 0
        if self.ending is not None and self._protocol.state is ConnectionState.REMOTE_CLOSING:
            self.over = True

    def _push(self, data: bytes) -> None:
        if not data:
            return
        self._queue.append(data)
        self._queued += len(data)
        if len(self._queue) == 1:
            self.flush()

    def _send(self, data: bytes | memoryview) -> int:
        try:
            taken = self.socket.send(data)
        except BlockingIOError:
            return 0
        except OSError:
            self._lose()
            return 0
        self._sent += taken
        return taken

    def _drop_unbegun(self) -> None:
        if not self._queue:
            return
        head = self._queue[0]
        rest = head[self._begun : frames.end_of_frame(head, self._begun)]
        self._queue.clear()
        self._begun = 0
        self._queued = len(rest)
        if rest:
            self._queue.append(rest)

    # In

    def receive(self, now: float) -> None:
        """Read what has come, once."""
        try:
            data = self.socket.recv(_RECEIVED_AT_ONCE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lose()
            return
        if self._is_deaf:
            return
        self._protocol.receive_data(data)
        for event in self._protocol.events():
            self._take(event, now)
            if self.over or self._is_deaf:
                return

    def _take(self, event: Event, now: float) -> None:
        if isinstance(event, CloseConnection):
            self._take_close(event, now)
        elif self.ending is not None:
            # It is on its way out: what it says meanwhile is of no interest.
            return
        elif isinstance(event, Pong) and self._give_up_at is not None:
            self._give_up_at = None
        elif not self._may_speak(now):
            self._refuse(UNFIT, now)
        elif isinstance(event, Ping):
            self._push(frames.pong(bytes(event.payload)))
        elif isinstance(event, TextMessage | BytesMessage):
            self._take_message(event, now)

    def _take_message(self, event: TextMessage | BytesMessage, now: float) -> None:
        self._incoming += len(event.data)
        if self._incoming > self._limits.message_bytes:
            self._refuse(TOO_BIG, now)
            return
        if isinstance(event, TextMessage):
            self._text.append(event.data)
        if event.message_finished:
            if self._text:
                self._heard.append("".join(self._text))
            self._text.clear()
            self._incoming = 0

    def heard(self) -> list[str]:
        """What the client said since this was asked last, message by message."""
        heard, self._heard = self._heard, []
        return heard

    def _may_speak(self, now: float) -> bool:
        """Whether the client may send one more frame; it counts in parts of a message, too."""
        earned = (now - self._credited) * self._limits.frames_per_second
        self._credit = min(float(self._limits.burst), self._credit + earned) - 1
        self._credited = now
        return self._credit >= 0

    def _take_close(self, event: CloseConnection, now: float) -> None:
        """Its own close, the answer to ours, or a frame that is none."""
        if self._protocol.state is not ConnectionState.REMOTE_CLOSING:
            self._refuse(Ending(int(event.code), FOREIGN.reason), now)
            return
        if self.ending is None:
            self.ending = Ending(int(event.code), "closed by client")
            self._give_up_at = now + self._limits.close_seconds
            self._drop_unbegun()
            has_code = event.code != CloseReason.NO_STATUS_RCVD
            self._push(frames.close(int(event.code) if has_code else None))
        self.over = self.over or not self._queue

    def _refuse(self, ending: Ending, now: float) -> None:
        """End it and take no more notice of it, though what it sends is still fetched.

        A socket that is closed with something unread in it is reset, and our reason may be lost.
        """
        self.end(ending, now)
        self._is_deaf = True

    # Time

    def tick(self, now: float) -> None:
        """Ask whether the client is there, now and then; end it when nobody answers."""
        if self._give_up_at is not None:
            if now < self._give_up_at:
                return
            if self.ending is None:
                self.end(SILENT, now)
            else:
                self.over = True
        elif now >= self._ping_at:
            self._ping_at = now + self._limits.ping_seconds
            self._give_up_at = now + self._limits.pong_seconds
            self._push(frames.PING)

    def _lose(self) -> None:
        self.ending = self.ending or GONE
        self.over = True

    def leave(self, now: float) -> None:
        """Give back the socket and the place."""
        # In this order: once the other side sees the end, there is a place for it again.
        self._place.leave()
        self.socket.close()
        ending = self.ending or GONE
        logger.info(
            "stream closed id=%s address=%s code=%d reason=%r seconds=%.1f bytes=%d",
            self.name,
            self._place.who,
            ending.code,
            ending.reason,
            now - self._opened,
            self._sent,
        )
