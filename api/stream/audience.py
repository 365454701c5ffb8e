"""Clients with equal subscriptions, so that each message is encoded once for all of them.

`seq` has no gap on a connection, and `prevSeq` is the number before it. The first number is
arbitrary: an audience counts its messages, and a new client's greeting is numbered so that it ends
where the audience is. From then on the same bytes are right for every member.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from api.responses import iso_time
from api.stream.client import Client
from api.stream.messages import LAST, ListedOffer, Mode, marker_body, number, offer_body
from api.stream.outbox import OutboxBatch, ReadPosition
from api.stream.requests import Filters
from warehouse_schema.identifiers import Height

_FIRST_SEQ = 1_000_000
"""Leaves numbers below it for greetings."""

AudienceMessage: TypeAlias = tuple[bytes, bytes]
"""A body, and the members that end its ledger; empty if it is not the last."""


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """The frames of a whole book, valid as of a ledger and `seq`."""

    at: tuple[Height, int]
    frames: bytes
    messages: int


class Audience:
    """Every client with these filters and this choice of markers."""

    def __init__(self, filters: Filters, *, markers: bool) -> None:
        self.key = (filters, markers)
        self._filters = filters
        self._markers = markers
        self.seq = _FIRST_SEQ
        """Number of the last message that all members were sent."""
        self._snapshot = _Snapshot((Height(-1), 0), b"", 0)
        self.members: set[Client] = set()

    def publish(self, batches: Sequence[OutboxBatch], now: ReadPosition) -> bytes:
        """The members' next frames; b"" if the batches hold nothing for them."""
        messages = self._messages(batches, now)
        self.seq += len(messages)
        return self._frames(messages)

    def greet(self, book: Iterable[ListedOffer], now: ReadPosition, *, marked: bool) -> bytes:
        """The whole book; `marked`: behind the marker of a snapshot."""
        at = (now.ledger, self.seq)
        if self._snapshot.at != at:
            # Cached: a thousand clients may reconnect at once.
            adds = [
                offer_body("add", offer, now.ledger)
                for offer in book
                if self._filters.admit(offer.topic)
            ]
            messages = _ledger_messages(adds, now.ledger, now)
            self._snapshot = _Snapshot(at, self._frames(messages), len(messages))
        snapshot = self._snapshot
        mode: Mode | None = "snapshot" if marked else None
        if marked or (self._markers and not snapshot.messages):
            end = b"" if snapshot.messages else end_of_ledger(now.ledger, now)
            body = marker_body(now.ledger, mode)
            return number(body, self.seq - snapshot.messages, end) + snapshot.frames
        return snapshot.frames

    def resume(self, batches: Sequence[OutboxBatch], after: Height, now: ReadPosition) -> bytes:
        """The messages after a ledger, behind the marker of a resume."""
        messages = self._messages(batches, now) if now.ledger > after else []
        end = b"" if messages else end_of_ledger(after, now)
        return self._frames([(marker_body(after, "resume"), end), *messages])

    def _messages(self, batches: Sequence[OutboxBatch], now: ReadPosition) -> list[AudienceMessage]:
        messages: list[AudienceMessage] = []
        last_ledger: Height | None = None
        for batch in batches:
            bodies = [change.body for change in batch.changes if self._filters.admit(change.topic)]
            if bodies:
                messages += _ledger_messages(bodies, batch.ledger, now)
                last_ledger = batch.ledger
        if self._markers and last_ledger != now.ledger:
            messages.append((marker_body(now.ledger), end_of_ledger(now.ledger, now)))
        return messages

    def _frames(self, messages: Sequence[AudienceMessage]) -> bytes:
        """Numbered so that the last is `seq`."""
        first = self.seq - len(messages) + 1
        return b"".join(number(body, seq, end) for seq, (body, end) in enumerate(messages, first))


def end_of_ledger(ledger: Height, now: ReadPosition) -> bytes:
    """Members that end a ledger; only the newest has its close time."""
    if ledger != now.ledger:
        return LAST
    return b'%b,"closedAt":"%b"' % (LAST, iso_time(now.close_time).encode())


def _ledger_messages(
    bodies: Sequence[bytes], ledger: Height, now: ReadPosition
) -> list[AudienceMessage]:
    end = end_of_ledger(ledger, now)
    return [(body, b"") for body in bodies[:-1]] + [(body, end) for body in bodies[-1:]]
