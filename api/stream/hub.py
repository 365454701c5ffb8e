"""Everybody who listens, in one thread.

The thread owns the sockets: it alone reads and writes them, so that no lock is needed and no frame
is ever broken by another. It never waits for one client, nor for Postgres, which is the feeder's
business. What other threads have for it, they leave in its inbox.
"""

import logging
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from sqlalchemy import Engine

from api.metrics import Metrics
from api.notifications import NotificationListener
from api.stream.audience import Audience
from api.stream.book import LiveBook
from api.stream.client import BROKEN, GONE, REFUSED, REVISED, STOPPING, Client, Ending
from api.stream.client_messages import Unclear, read_speech
from api.stream.feeder import Feeder
from api.stream.outbox import BookMessages, Missed, OutboxBatch, ReadPosition, Start
from api.stream.owners import Access, Owners
from api.stream.requests import Filters, SubscribeRequest
from warehouse_schema.identifiers import ChainId

logger = logging.getLogger(__name__)

_TICK_SECONDS = 1.0
_LAST_TICK_SECONDS = 0.1
"""While it stops."""
_RECENT_BATCHES = 64
"""Kept for clients whose missed messages were read while these came."""
_AHEAD_SECONDS = 5.0
"""How long a client who knows more than this process waits for it to catch up."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A client whose missed messages reach further than this process has read."""

    client: Client
    wish: SubscribeRequest
    missed: Missed
    until: float


class Hub:
    """Follows the book from a start, and tells every client. Ends once, for good."""

    def __init__(
        self,
        engine: Engine,
        chain: ChainId,
        changes: NotificationListener | None,
        start: Start,
        metrics: Metrics | None = None,
        access: Access | None = None,
    ) -> None:
        self._metrics = metrics or Metrics()
        self._inbox: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._selector = selectors.DefaultSelector()
        self._wakes, self._waker = socket.socketpair()
        self._clients: dict[Client, Audience | None] = {}
        self._audiences: dict[tuple[Filters, bool], Audience] = {}
        self._waiting: list[_Waiting] = []
        self._tick_at = 0.0
        self._stopping = False
        self._ended = False
        self._gate = threading.Lock()
        """Between `join` and the end: whoever comes is taken in by a thread that lives."""
        self._begin(start)
        self._feeder = Feeder(
            engine,
            chain,
            changes,
            start.standing,
            on_news=lambda news: self._post(lambda: self._spread(news)),
            on_restart=lambda start: self._post(lambda: self._restart(start)),
            on_end=lambda: self._post(self._lose_feeder),
        )
        self._owners = None if access is None else Owners(engine, changes, access, self)
        self._thread = threading.Thread(target=self._run, name="stream-hub", daemon=True)

    def _begin(self, start: Start) -> None:
        self._book = LiveBook(start.offers)
        self._standing: ReadPosition = start.standing
        self._recent: deque[OutboxBatch] = deque(maxlen=_RECENT_BATCHES)
        self._recent_from = start.standing.position
        """Of everything with a higher id, `_recent` holds all."""

    # For other threads

    @property
    def is_alive(self) -> bool:
        """Whether it takes clients."""
        return self._thread.is_alive() and not self._stopping

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()
        self._feeder.start()

    def join(self, client: Client, wish: SubscribeRequest, missed: Missed | None) -> None:
        """Take a client in; `missed` is what it gets instead of a snapshot."""
        with self._gate:
            if not self._ended:
                self._post(lambda: self._welcome(client, wish, missed))
                return
        client.leave(time.monotonic())

    def stop(self) -> None:
        """Tell everyone goodbye and end soon. Does not wait: a signal's handler may ask."""
        self._stop_threads()
        self._post(lambda: self._send_away(STOPPING))

    def wait(self, seconds: float) -> None:
        """Wait for the end, at most so long for each of the threads."""
        self._thread.join(seconds)
        self._feeder.wait(seconds)
        if self._owners is not None:
            self._owners.wait(seconds)

    def tell_one(self, client: Client, data: bytes, *, greeting: bool) -> None:
        """What is for this client alone."""
        self._post(lambda: self._tell_one(client, data, greeting=greeting))

    def end_one(self, client: Client, ending: Ending) -> None:
        """End a client by what was found out about it."""
        self._post(lambda: self._end_one(client, ending))

    def lose_owners(self) -> None:
        """Whoever listens to transfers would wait for ever."""
        self._post(self._lose_feeder)

    def _stop_threads(self) -> None:
        self._feeder.stop()
        if self._owners is not None:
            self._owners.stop()

    def _post(self, job: Callable[[], None]) -> None:
        self._inbox.put(job)
        try:
            self._waker.send(b"\0")
        except OSError:
            # It has been woken often enough already, or has ended.
            return

    # The thread

    def _run(self) -> None:
        self._selector.register(self._wakes, selectors.EVENT_READ, None)
        try:
            while not self._stopping or self._clients:
                self._turn()
        finally:
            self._stop_threads()
            self._end()

    def _turn(self) -> None:
        wait = max(0.0, self._tick_at - time.monotonic())
        ready = self._selector.select(wait)
        now = time.monotonic()
        for key, events in ready:
            if key.data is None:
                self._wakes.recv(4096)
            else:
                self._serve(key.data, events, now)
        self._do_jobs()
        if now >= self._tick_at:
            self._tick_at = now + (_LAST_TICK_SECONDS if self._stopping else _TICK_SECONDS)
            self._tick(now)

    def _do_jobs(self) -> None:
        while True:
            try:
                job = self._inbox.get_nowait()
            except Empty:
                return
            job()

    def _serve(self, client: Client, events: int, now: float) -> None:
        if events & selectors.EVENT_READ:
            client.receive(now)
            for said in client.heard():
                self._hear(client, said, now)
        if events & selectors.EVENT_WRITE:
            client.flush()
        self._settle(client, now)

    def _hear(self, client: Client, said: str, now: float) -> None:
        if self._owners is None or client.ending is not None:
            return
        try:
            asked = read_speech(said)
        except Unclear:
            client.end(REFUSED, now)
            return
        if asked is not None:
            self._owners.hear(client, asked)

    def _tell_one(self, client: Client, data: bytes, *, greeting: bool) -> None:
        now = time.monotonic()
        if client not in self._clients:
            # It left while its token was looked at.
            self._forget_owner(client)
            return
        if greeting:
            client.greet(data)
        else:
            client.tell(data, now)
        self._settle(client, now)

    def _end_one(self, client: Client, ending: Ending) -> None:
        now = time.monotonic()
        if client in self._clients:
            client.end(ending, now)
            self._settle(client, now)

    def _forget_owner(self, client: Client) -> None:
        if self._owners is not None:
            self._owners.forget(client)

    def _tick(self, now: float) -> None:
        for client in list(self._clients):
            client.tick(now)
            self._settle(client, now)
        self._admit_waiting(now)

    def _end(self) -> None:
        with self._gate:
            self._ended = True
            # Clients may have come while the last was leaving.
            self._do_jobs()
        now = time.monotonic()
        for client in list(self._clients):
            self._forget(client, now)
        self._selector.close()
        self._wakes.close()
        self._waker.close()

    # Clients

    def _welcome(self, client: Client, wish: SubscribeRequest, missed: Missed | None) -> None:
        now = time.monotonic()
        self._clients[client] = None
        self._metrics.stream_opened()
        self._selector.register(client.socket, selectors.EVENT_READ, client)
        if self._stopping:
            client.end(STOPPING, now)
        elif missed is not None and self._is_ahead(wish, missed):
            self._waiting.append(_Waiting(client, wish, missed, now + _AHEAD_SECONDS))
            self._feeder.look()
        else:
            self._greet(client, wish, missed)
        self._settle(client, now)

    def _greet(self, client: Client, wish: SubscribeRequest, missed: Missed | None) -> None:
        key = (wish.filters, wish.markers)
        audience = self._audiences.get(key)
        if audience is None:
            audience = self._audiences[key] = Audience(wish.filters, markers=wish.markers)
        now = self._standing
        if wish.after is None or missed is None or missed.position < self._recent_from:
            client.greet(audience.greet(self._book, now, opening=wish.after is not None))
        else:
            since = [batch for batch in self._recent if batch.position > missed.position]
            client.greet(audience.resume([*missed.batches, *since], wish.after, now))
        audience.members.add(client)
        self._clients[client] = audience

    def _is_ahead(self, wish: SubscribeRequest, missed: Missed) -> bool:
        """Whether another process told the client more than this one has read.

        A ledger that changed nothing has no message: its number says it.
        """
        known = self._standing
        return missed.position > known.position or (wish.after or known.ledger) > known.ledger

    def _admit_waiting(self, now: float) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if each.client not in self._clients:
                continue
            if not self._is_ahead(each.wish, each.missed):
                self._greet(each.client, each.wish, each.missed)
            elif now >= each.until:
                self._greet(each.client, each.wish, None)
            else:
                self._waiting.append(each)
                continue
            self._settle(each.client, now)

    def _settle(self, client: Client, now: float) -> None:
        """Let go of a client that is over; watch for room to write if one lags behind."""
        if client.over:
            self._forget(client, now)
        elif client.is_behind != client.is_watched:
            client.is_watched = client.is_behind
            writes = selectors.EVENT_WRITE if client.is_behind else 0
            self._selector.modify(client.socket, selectors.EVENT_READ | writes, client)

    def _forget(self, client: Client, now: float) -> None:
        audience = self._clients.pop(client)
        self._forget_owner(client)
        self._metrics.stream_closed((client.ending or GONE).code)
        self._selector.unregister(client.socket)
        client.leave(now)
        if audience is not None:
            audience.members.discard(client)
            if not audience.members and self._audiences.get(audience.key) is audience:
                del self._audiences[audience.key]

    def _send_away(self, ending: Ending) -> None:
        """For good: whoever comes later finds another hub, or another process."""
        self._stopping = True
        self._tick_at = 0.0
        self._end_all(ending)

    def _end_all(self, ending: Ending) -> None:
        now = time.monotonic()
        for client in list(self._clients):
            client.end(ending, now)
            self._settle(client, now)

    # News

    def _spread(self, news: BookMessages) -> None:
        is_later = news.standing.ledger > self._standing.ledger
        self._standing = news.standing
        for batch in news.batches:
            self._keep(batch)
        if is_later or news.batches:
            for audience in self._audiences.values():
                told = audience.told
                self._tell(audience, audience.tell(news.batches, news.standing))
                self._metrics.frames_told((audience.told - told) * len(audience.members))
        self._admit_waiting(time.monotonic())

    def _keep(self, batch: OutboxBatch) -> None:
        self._book.apply(batch)
        if len(self._recent) == _RECENT_BATCHES:
            self._recent_from = self._recent[0].position
        self._recent.append(batch)

    def _tell(self, audience: Audience, data: bytes) -> None:
        if not data:
            return
        now = time.monotonic()
        unsettled = []
        for client in audience.members:
            client.tell(data, now)
            if client.over or client.is_behind != client.is_watched:
                unsettled.append(client)
        for client in unsettled:
            self._settle(client, now)

    def _restart(self, start: Start) -> None:
        """What clients have may not be what is so: they come back and read it anew."""
        self._end_all(REVISED)
        self._audiences.clear()
        self._begin(start)

    def _lose_feeder(self) -> None:
        if not self._stopping:
            logger.error("stream ends: a thread that reads for it did")
            self._send_away(BROKEN)
