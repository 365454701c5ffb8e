"""One WebSocket connection: send queue, incoming messages, ping and close.

Only the hub's thread uses a client, so no two threads write to one socket and frames never
interleave. Nothing here blocks: bytes that the socket does not take are queued, up to a limit.
"""

import logging
import socket
from collections import deque
from dataclasses import dataclass

from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, Pong, TextMessage
from wsproto.frame_protocol import CloseReason

from api.stream import frames
from api.stream.limits import StreamLimits, StreamSlot

logger = logging.getLogger(__name__)

_RECEIVE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Ending:
    """A close code (RFC 6455 §7.4) and its reason. Clients may match on both."""

    code: int
    reason: str


STOPPING = Ending(1001, "server is stopping: resume with after=LEDGER")
"""With the ledger in place of its name."""
TOO_MANY_MESSAGES = Ending(1008, "too many messages")
NO_PONG = Ending(1008, "no pong")
TOO_BIG = Ending(1009, "message too big")
INTERNAL_ERROR = Ending(1011, "internal error")
BOOK_REBUILT = Ending(1012, "order book rebuilt")
TOKEN_REFUSED = Ending(1008, "token refused")
TOKEN_EXPIRED = Ending(1008, "token expired")
TOKEN_REVOKED = Ending(1008, "token revoked")
OTHER_ACCOUNT = Ending(1008, "token of another account")
TOKEN_UNCHECKED = Ending(1013, "token not checked")
SLOW_READER = Ending(1013, "slow reader")
BAD_FRAME = Ending(1002, "bad frame")
"""With code 1007 for a text message that is not UTF-8."""


def stopping(ledger: int) -> Ending:
    """`STOPPING` of a client that was sent everything up to a ledger."""
    return Ending(STOPPING.code, STOPPING.reason.replace("LEDGER", str(ledger)))


CLOSE_REASONS = (
    *(STOPPING, BAD_FRAME, TOO_MANY_MESSAGES, NO_PONG),
    *(TOKEN_REFUSED, TOKEN_EXPIRED, TOKEN_REVOKED, OTHER_ACCOUNT),
    *(TOO_BIG, INTERNAL_ERROR, BOOK_REBUILT, SLOW_READER, TOKEN_UNCHECKED),
)
"""Every close frame that the server sends."""
CONNECTION_LOST = Ending(1006, "connection lost")
"""Never sent."""


class Client:
    """A socket after its WebSocket handshake."""

    def __init__(
        self, sock: socket.socket, name: str, slot: StreamSlot, limits: StreamLimits, now: float
    ) -> None:
        self.socket = sock
        self.name = name
        """Id of the request that opened it, for the log."""
        self.over = False
        """Nothing more is sent or read: the hub closes the socket."""
        self.ending: Ending | None = None
        """Why the connection ends or ended."""
        self.is_watched = False
        """The hub's selector waits until the socket is writable."""
        self._slot = slot
        self._limits = limits
        self._protocol = Connection(ConnectionType.SERVER)
        self._queue: deque[bytes] = deque()
        self._head_sent = 0
        """Bytes sent of the queue's first entry."""
        self._queued = 0
        self._max_queued = limits.queued_bytes
        self._sent = 0
        self._opened = now
        self._ping_at = now + limits.ping_seconds
        self._deadline: float | None = None
        """For a pong, or for the end after a close frame."""
        self._credit = float(limits.burst)
        self._credited = now
        self._incoming_bytes = 0
        """Of the message that is arriving."""
        self._incoming_text: list[str] = []
        self._discards_input = False
        """Incoming data is read and discarded."""

    @property
    def is_behind(self) -> bool:
        """Whether the queue holds bytes for the socket."""
        return bool(self._queue)

    def send(self, data: bytes, now: float, *, is_greeting: bool = False) -> None:
        """Queue whole frames. A greeting, of any size, does not count towards the queue's limit."""
        if self.ending is not None:
            return
        if is_greeting:
            self._max_queued += len(data)
        elif self._queued > self._max_queued:
            self.end(SLOW_READER, now)
            return
        self._push(data)

    def end(self, ending: Ending, now: float, *, after_queue: bool = False) -> None:
        """Send a close frame; of the queue, only the frame that was begun is still sent.

        `after_queue`: what is queued is sent first, as far as the client takes it.
        """
        if self.ending is not None:
            return
        self.ending = ending
        self._deadline = now + self._limits.close_seconds
        if not after_queue:
            self._drop_unsent_frames()
        self._push(frames.close(ending.code, ending.reason))

    def flush(self) -> None:
        """Send what the socket takes."""
        while self._queue and not self.over:
            head = self._queue[0]
            try:
                taken = self.socket.send(
                    memoryview(head)[self._head_sent :] if self._head_sent else head
                )
            except BlockingIOError:
                return
            except OSError:
                self._lose()
                return
            self._sent += taken
            self._queued -= taken
            self._head_sent += taken
            if self._head_sent < len(head):
                return
            self._queue.popleft()
            self._head_sent = 0
        if self.ending is not None and self._protocol.state is ConnectionState.REMOTE_CLOSING:
            self.over = True

    def _push(self, data: bytes) -> None:
        if not data:
            return
        taken = 0
        if not self._queue and not self.over:
            # Most sockets take all of it: nothing is queued.
            try:
                taken = self.socket.send(data)
            except BlockingIOError:
                pass
            except OSError:
                self._lose()
                return
            self._sent += taken
            if taken == len(data):
                return
            self._head_sent = taken
        self._queue.append(data)
        self._queued += len(data) - taken

    def _drop_unsent_frames(self) -> None:
        if not self._queue:
            return
        head = self._queue[0]
        rest = head[self._head_sent : frames.end_of_frame(head, self._head_sent)]
        self._queue.clear()
        self._head_sent = 0
        self._queued = len(rest)
        if rest:
            self._queue.append(rest)

    def receive(self, now: float) -> list[str]:
        """Read once from the socket; returns the text messages that are complete."""
        messages: list[str] = []
        try:
            data = self.socket.recv(_RECEIVE_BYTES)
        except BlockingIOError:
            return messages
        except OSError:
            data = b""
        if not data:
            self._lose()
            return messages
        if self._discards_input:
            return messages
        self._protocol.receive_data(data)
        for event in self._protocol.events():
            if isinstance(event, CloseConnection):
                self._handle_close(event, now)
            elif self.ending is not None:
                # The close frame is sent: only the client's own is of interest.
                pass
            elif isinstance(event, Pong) and self._deadline is not None:
                self._deadline = None
            elif not self._spend_frame_credit(now):
                self._refuse(TOO_MANY_MESSAGES, now)
            elif isinstance(event, Ping):
                self._push(frames.pong(bytes(event.payload)))
            elif isinstance(event, TextMessage | BytesMessage):
                self._incoming_bytes += len(event.data)
                if self._incoming_bytes > self._limits.message_bytes:
                    self._refuse(TOO_BIG, now)
                    break
                if isinstance(event, TextMessage):
                    self._incoming_text.append(event.data)
                if event.message_finished:
                    if self._incoming_text:
                        messages.append("".join(self._incoming_text))
                    self._incoming_text.clear()
                    self._incoming_bytes = 0
            if self.over or self._discards_input:
                break
        return messages

    def _spend_frame_credit(self, now: float) -> bool:
        """Token bucket; each frame of a message counts."""
        earned = (now - self._credited) * self._limits.frames_per_second
        self._credit = min(float(self._limits.burst), self._credit + earned) - 1
        self._credited = now
        return self._credit >= 0

    def _handle_close(self, event: CloseConnection, now: float) -> None:
        """The client's close frame, its answer to ours, or a protocol error."""
        if self._protocol.state is not ConnectionState.REMOTE_CLOSING:
            self._refuse(Ending(int(event.code), BAD_FRAME.reason), now)
            return
        if self.ending is None:
            self.ending = Ending(int(event.code), "closed by client")
            self._deadline = now + self._limits.close_seconds
            self._drop_unsent_frames()
            has_code = event.code != CloseReason.NO_STATUS_RCVD
            self._push(frames.close(int(event.code) if has_code else None))
        self.over = self.over or not self._queue

    def _refuse(self, ending: Ending, now: float) -> None:
        """End the connection, and read and discard what the client still sends.

        A socket that is closed with unread data is reset, and our close frame may be lost.
        """
        self.end(ending, now)
        self._discards_input = True

    def _lose(self) -> None:
        self.ending = self.ending or CONNECTION_LOST
        self.over = True

    def tick(self, now: float) -> None:
        """Ping at intervals; end the connection when the deadline has passed."""
        if self._deadline is not None:
            if now < self._deadline:
                return
            if self.ending is None:
                self.end(NO_PONG, now)
            else:
                self.over = True
        elif now >= self._ping_at:
            self._ping_at = now + self._limits.ping_seconds
            self._deadline = now + self._limits.pong_seconds
            self._push(frames.PING)

    def close(self, now: float) -> None:
        """Release the slot and close the socket."""
        # In this order: when the client sees the end, its slot is free again.
        self._slot.release()
        self.socket.close()
        ending = self.ending or CONNECTION_LOST
        logger.info(
            "stream closed id=%s address=%s code=%d reason=%r seconds=%.1f bytes=%d",
            self.name,
            self._slot.network,
            ending.code,
            ending.reason,
            now - self._opened,
            self._sent,
        )
