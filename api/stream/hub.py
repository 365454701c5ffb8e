"""All clients of the stream, in one thread.

No other thread reads or writes the sockets, so there are no locks and no interleaved frames. It
never waits for one client, nor for Postgres, which other threads read. They post jobs to its inbox.
"""

import logging
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue

from sqlalchemy import Engine

from api.deps import read_snapshot
from api.metrics import Metrics
from api.notifications import Committed, NotificationListener
from api.stream import outbox
from api.stream.audience import Audience
from api.stream.client import (
    BOOK_REBUILT,
    CONNECTION_LOST,
    INTERNAL_ERROR,
    TOKEN_REFUSED,
    Client,
    Ending,
    stopping,
)
from api.stream.outbox import BookMessages, BookSnapshot, OutboxBatch, ReadPosition
from api.stream.outbox_session import OutboxSession
from api.stream.reading_thread import ReadingThread
from api.stream.requests import BadClientMessage, Filters, SubscribeRequest, parse_client_message
from api.stream.transfer_subscriptions import ClientAction, TokenAccess, TransferSubscriptions
from warehouse_schema.identifiers import ChainId

logger = logging.getLogger(__name__)

_TICK_SECONDS = 1.0
_STOPPING_TICK_SECONDS = 0.1
_RECENT_BATCHES = 64
"""Kept for clients that connect while their missed messages are read."""
_AHEAD_SECONDS = 5.0
"""How long a client that is ahead of this process waits for it to catch up."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A client that is ahead of this process."""

    client: Client
    request: SubscribeRequest
    missed: BookMessages
    until: float


class Hub:
    """Follows the book from a snapshot and sends it to every client. Ends once."""

    def __init__(
        self,
        engine: Engine,
        chain: ChainId,
        listener: NotificationListener | None,
        snapshot: BookSnapshot,
        metrics: Metrics,
        access: TokenAccess,
    ) -> None:
        self._metrics = metrics
        self._inbox: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._selector = selectors.DefaultSelector()
        self._wakes, self._waker = socket.socketpair()
        self._clients: dict[Client, Audience | None] = {}
        """None while a client waits for this process."""
        self._audiences: dict[tuple[Filters, bool], Audience] = {}
        self._waiting: list[_Waiting] = []
        self._tick_at = 0.0
        self._end_times: dict[Client, float] = {}
        """When clients end, by the monotonic clock, while the process is shutting down."""
        self._last_end: float | None = None
        self._stopping = False
        self._ended = False
        self._lock = threading.Lock()
        """Between `join` and the end: no client is posted to a thread that has ended."""
        self._start_from(snapshot)
        self._engine = engine
        self._chain = chain
        # Of the reading thread:
        self._outbox = OutboxSession(engine, chain)
        self._since = snapshot.at
        """The position up to which it has read."""
        self._reader = ReadingThread(
            "stream-outbox",
            listener,
            self._read_outbox,
            concerns=lambda event: isinstance(event, Committed) and event.chain == chain,
            on_end=self._end_reading,
        )
        self._transfers = TransferSubscriptions(
            engine,
            listener,
            access,
            post_to=lambda client, act: self._post(lambda: self._act_on(client, act)),
            on_end=lambda: self._post(lambda: self._shut_down(INTERNAL_ERROR)),
        )
        self._thread = threading.Thread(target=self._run, name="stream-hub", daemon=True)

    # For other threads

    @property
    def is_alive(self) -> bool:
        """Whether it takes clients."""
        return self._thread.is_alive() and not self._stopping

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()
        self._reader.start()

    def join(self, client: Client, request: SubscribeRequest, missed: BookMessages | None) -> None:
        """Add a client, which gets `missed` instead of a snapshot."""
        with self._lock:
            if not self._ended:
                self._post(lambda: self._add(client, request, missed))
                return
        client.close(time.monotonic())

    def end_within(self, seconds: float) -> None:
        """End clients one by one, in the last two thirds of that time: first load balancers notice.

        So clients do not connect again all at once, nor to this process. A signal handler may call
        it.
        """
        now = time.monotonic()
        self._post(lambda: self._plan_ends(now + seconds / 3, now + seconds))

    def stop(self) -> None:
        """End every client, then the threads. Does not wait: a signal handler may call it."""
        # In this order: the hub must not take the end of a reading thread for a failure.
        self._post(lambda: self._shut_down(None))
        self._reader.stop()
        self._transfers.stop()

    def wait(self, seconds: float) -> None:
        """Wait for the end, at most so long for each of the threads."""
        self._thread.join(seconds)
        self._reader.wait(seconds)
        self._transfers.wait(seconds)

    def _post(self, job: Callable[[], None]) -> None:
        self._inbox.put(job)
        try:
            self._waker.send(b"\0")
        except OSError:
            # The buffer is full of wake-ups, or the hub has ended.
            return

    # The thread that reads the outbox

    def _read_outbox(self) -> None:
        messages = self._outbox.read_since(self._since)
        if messages is not None:
            self._post(partial(self._broadcast, messages))
            self._since = messages.at
        if messages is None or any(batch.revised for batch in messages.batches):
            with read_snapshot(self._engine) as connection:
                snapshot = outbox.read_book_snapshot(connection, self._chain)
            logger.warning("stream restarts from a snapshot at ledger=%d", snapshot.at.ledger)
            self._post(partial(self._start_from, snapshot))
            self._since = snapshot.at

    def _end_reading(self) -> None:
        self._outbox.close()
        self._post(lambda: self._shut_down(INTERNAL_ERROR))

    # The hub's thread

    def _run(self) -> None:
        self._selector.register(self._wakes, selectors.EVENT_READ, None)
        try:
            while not self._stopping or self._clients:
                self._turn()
        finally:
            self._reader.stop()
            self._transfers.stop()
            with self._lock:
                self._ended = True
                # Clients may have been posted while the last one was closed.
                self._run_jobs()
            now = time.monotonic()
            for client in list(self._clients):
                self._remove(client, now)
            self._selector.close()
            self._wakes.close()
            self._waker.close()

    def _turn(self) -> None:
        ready = self._selector.select(max(0.0, self._tick_at - time.monotonic()))
        now = time.monotonic()
        for key, events in ready:
            if key.data is None:
                self._wakes.recv(4096)
                continue
            client: Client = key.data
            if events & selectors.EVENT_READ:
                for text in client.receive(now):
                    self._handle_message(client, text, now)
            if events & selectors.EVENT_WRITE:
                client.flush()
            self._settle(client, now)
        self._run_jobs()
        if now >= self._tick_at:
            is_ending = self._stopping or self._last_end is not None
            self._tick_at = now + (_STOPPING_TICK_SECONDS if is_ending else _TICK_SECONDS)
            for client in [each for each, at in self._end_times.items() if at <= now]:
                self._end_stopping(client, now)
            for client in list(self._clients):
                client.tick(now)
                self._settle(client, now)
            self._greet_waiting(now)

    def _run_jobs(self) -> None:
        while not self._inbox.empty():
            self._inbox.get()()

    def _handle_message(self, client: Client, text: str, now: float) -> None:
        if client.ending is not None:
            return
        try:
            request = parse_client_message(text)
        except BadClientMessage:
            client.end(TOKEN_REFUSED, now)
            return
        if request is not None:
            self._transfers.request(client, request)

    def _act_on(self, client: Client, act: ClientAction) -> None:
        if client not in self._clients:
            # It disconnected while its token was checked.
            self._transfers.forget(client)
            return
        now = time.monotonic()
        act(client, now)
        self._settle(client, now)

    def _add(self, client: Client, request: SubscribeRequest, missed: BookMessages | None) -> None:
        now = time.monotonic()
        self._clients[client] = None
        self._metrics.stream_opened()
        self._selector.register(client.socket, selectors.EVENT_READ, client)
        if self._last_end is not None:
            # It connected before its load balancer noticed.
            self._end_times[client] = self._last_end
        if self._stopping:
            client.end(stopping(request.after or 0), now)
        elif missed is not None and self._is_ahead(request, missed):
            self._waiting.append(_Waiting(client, request, missed, now + _AHEAD_SECONDS))
            self._reader.wake()
        else:
            self._greet(client, request, missed, now)
        self._settle(client, now)

    def _is_ahead(self, request: SubscribeRequest, missed: BookMessages) -> bool:
        """Whether another process sent the client more than this one has read.

        A ledger without changes has no outbox row: its number shows that it is ahead.
        """
        at = self._position
        return missed.at.position > at.position or (request.after or at.ledger) > at.ledger

    def _greet_waiting(self, now: float) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if each.client not in self._clients:
                continue
            is_ahead = self._is_ahead(each.request, each.missed)
            if is_ahead and now < each.until:
                self._waiting.append(each)
                continue
            self._greet(each.client, each.request, None if is_ahead else each.missed, now)
            self._settle(each.client, now)

    def _greet(
        self, client: Client, request: SubscribeRequest, missed: BookMessages | None, now: float
    ) -> None:
        key = (request.filters, request.markers)
        audience = self._audiences.get(key)
        if audience is None:
            audience = self._audiences[key] = Audience(request.filters, markers=request.markers)
        at, after = self._position, request.after
        if after is None or missed is None or missed.at.position < self._recent_from:
            data = audience.greet(self._book.values(), at, marked=after is not None)
        else:
            since = [batch for batch in self._recent if batch.position > missed.at.position]
            data = audience.resume([*missed.batches, *since], after, at)
        client.send(data, now, is_greeting=True)
        audience.members.add(client)
        self._clients[client] = audience

    def _settle(self, client: Client, now: float) -> None:
        """Remove a client that is over; watch for writability when its queue holds bytes."""
        if client.over:
            self._remove(client, now)
        elif client.is_behind != client.is_watched:
            client.is_watched = client.is_behind
            writes = selectors.EVENT_WRITE if client.is_behind else 0
            self._selector.modify(client.socket, selectors.EVENT_READ | writes, client)

    def _remove(self, client: Client, now: float) -> None:
        audience = self._clients.pop(client)
        self._end_times.pop(client, None)
        self._transfers.forget(client)
        self._metrics.stream_closed((client.ending or CONNECTION_LOST).code)
        self._selector.unregister(client.socket)
        client.close(now)
        if audience is not None:
            audience.members.discard(client)
            if not audience.members and self._audiences.get(audience.key) is audience:
                del self._audiences[audience.key]

    def _end_all(self, ending: Ending) -> None:
        now = time.monotonic()
        for client in list(self._clients):
            client.end(ending, now)
            self._settle(client, now)

    def _plan_ends(self, begin: float, end: float) -> None:
        clients = list(self._clients)
        step = (end - begin) / max(1, len(clients))
        self._end_times = {client: begin + step * at for at, client in enumerate(clients)}
        self._last_end = end
        self._tick_at = 0.0

    def _end_stopping(self, client: Client, now: float) -> None:
        """End a client behind all that it was sent, with the ledger to resume from."""
        self._end_times.pop(client, None)
        ledger: int = self._position.ledger
        if self._clients[client] is None:
            # It has what it came with.
            waiting = (each.request.after for each in self._waiting if each.client is client)
            ledger = next(waiting, None) or 0
        client.end(stopping(ledger), now, after_queue=True)
        self._settle(client, now)

    def _shut_down(self, ending: Ending | None) -> None:
        """End every client, None: as stopping; a new client needs another hub or process."""
        if ending is INTERNAL_ERROR:
            if self._stopping:
                return
            logger.error("stream ends: one of its reading threads ended")
        self._stopping = True
        self._tick_at = 0.0
        if ending is not None:
            self._end_all(ending)
        now = time.monotonic()
        for client in list(self._clients):
            self._end_stopping(client, now)

    def _start_from(self, snapshot: BookSnapshot) -> None:
        """Clients may have another book than the snapshot: they reconnect."""
        self._end_all(BOOK_REBUILT)
        self._audiences.clear()
        self._book = {offer.key: offer for offer in snapshot.offers}
        self._position: ReadPosition = snapshot.at
        self._recent: deque[OutboxBatch] = deque(maxlen=_RECENT_BATCHES)
        self._recent_from = snapshot.at.position
        """`_recent` holds every batch with a higher id."""

    def _broadcast(self, messages: BookMessages) -> None:
        is_later = messages.at.ledger > self._position.ledger
        self._position = messages.at
        for batch in messages.batches:
            batch.apply_to(self._book)
            if len(self._recent) == _RECENT_BATCHES:
                self._recent_from = self._recent[0].position
            self._recent.append(batch)
        now = time.monotonic()
        if is_later or messages.batches:
            # A copy: an audience is removed with its last client.
            for audience in list(self._audiences.values()):
                before = audience.seq
                data = audience.publish(messages.batches, messages.at)
                self._metrics.frames_sent((audience.seq - before) * len(audience.members))
                unsettled = []
                for client in audience.members if data else ():
                    client.send(data, now)
                    if client.over or client.is_behind != client.is_watched:
                        unsettled.append(client)
                for client in unsettled:
                    self._settle(client, now)
        self._greet_waiting(now)
