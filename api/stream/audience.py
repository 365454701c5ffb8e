"""Clients that are told the same, so that each message is made once for all of them.

`seq` has no gap on a connection, and `prevSeq` is the number before it. Where the numbers start
means nothing, and that is what lets frames be shared: an audience counts what it is told, and a
newcomer's greeting is numbered so that it ends where the audience is. From then on the same bytes
are right for everyone in it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from api.stream.client import Client
from api.stream.messages import (
    LAST,
    Listed,
    last_of_newest,
    ledger_body,
    number,
    offer_body,
    opening_body,
)
from api.stream.outbox import OutboxBatch, ReadPosition
from api.stream.requests import Filters
from warehouse_schema.identifiers import Height

_FIRST_SEQ = 1_000_000
"""Room below it for the numbers of greetings."""

AudienceFrame: TypeAlias = tuple[bytes, bytes]
"""A message without its number, and what marks it as the last of its ledger; empty if it is not."""


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """The frames of a whole book, and as of which ledger and `seq` they are right."""

    at: tuple[Height, int]
    frames: bytes
    size: int
    """Messages."""


class Audience:
    """Everyone with the same filters and the same wish for markers."""

    def __init__(self, filters: Filters, *, markers: bool) -> None:
        self.key = (filters, markers)
        self._filters = filters
        self._markers = markers
        self._seq = _FIRST_SEQ
        self._snapshot = _Snapshot((Height(-1), 0), b"", 0)
        self.members: set[Client] = set()

    @property
    def told(self) -> int:
        """Messages that all members were told so far."""
        return self._seq - _FIRST_SEQ

    def tell(self, batches: Sequence[OutboxBatch], now: ReadPosition) -> bytes:
        """What was folded since, as the members' next frames; b"" if nothing of it is theirs."""
        lines = self._lines(batches, now)
        self._seq += len(lines)
        return self._frames(lines)

    def greet(self, book: Iterable[Listed], now: ReadPosition, *, opening: bool) -> bytes:
        """The whole book as it is now; `opening`: behind the marker that says so."""
        end = last_of_newest(now.close_time)
        snapshot = self._snapshot_of(book, now)
        if opening:
            body = opening_body("snapshot", now.ledger)
            opened = number(body, self._seq - snapshot.size, b"" if snapshot.size else end)
            return opened + snapshot.frames
        if self._markers and not snapshot.size:
            return number(ledger_body(now.ledger), self._seq, end)
        return snapshot.frames

    def resume(self, batches: Sequence[OutboxBatch], after: Height, now: ReadPosition) -> bytes:
        """What came after a ledger, behind the marker that says so."""
        lines = self._lines(batches, now) if now.ledger > after else []
        end = b"" if lines else _end_of(after, now)
        return self._frames([(opening_body("resume", after), end), *lines])

    def _snapshot_of(self, book: Iterable[Listed], now: ReadPosition) -> _Snapshot:
        """A thousand clients may come back at once: they are told the same here too."""
        at = (now.ledger, self._seq)
        if self._snapshot.at != at:
            adds = [
                offer_body("add", offer, now.ledger)
                for offer in book
                if self._filters.admit(offer.topic)
            ]
            lines = _ended(adds, last_of_newest(now.close_time))
            self._snapshot = _Snapshot(at, self._frames(lines), len(lines))
        return self._snapshot

    def _lines(self, batches: Sequence[OutboxBatch], now: ReadPosition) -> list[AudienceFrame]:
        lines: list[AudienceFrame] = []
        told: Height | None = None
        for batch in batches:
            bodies = [change.body for change in batch.changes if self._filters.admit(change.topic)]
            if bodies:
                lines += _ended(bodies, _end_of(batch.ledger, now))
                told = batch.ledger
        if self._markers and told != now.ledger:
            lines.append((ledger_body(now.ledger), last_of_newest(now.close_time)))
        return lines

    def _frames(self, lines: Sequence[AudienceFrame]) -> bytes:
        """Numbered so that the last is `_seq`."""
        first = self._seq - len(lines) + 1
        return b"".join(number(body, seq, end) for seq, (body, end) in enumerate(lines, first))


def _end_of(ledger: Height, now: ReadPosition) -> bytes:
    return last_of_newest(now.close_time) if ledger == now.ledger else LAST


def _ended(bodies: Sequence[bytes], end: bytes) -> list[AudienceFrame]:
    """The messages of one ledger."""
    return [(body, b"") for body in bodies[:-1]] + [(body, end) for body in bodies[-1:]]
