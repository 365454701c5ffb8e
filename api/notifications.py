"""What the indexer commits, told to this process as it commits: one thread on Postgres's NOTIFY.

A subscriber hears, in this order and from this thread alone:

    Unsure(connected=True)     listening since just now: what committed before was not heard
    Committed(chain, height)   a transaction that moved the chain committed
    TransfersTold(owner)       a transaction with news of an owner's transfers committed
    Unsure(connected=False)    no longer listening: what commits from here on is not heard

so that whoever keeps what it read never goes on without having been told. The channel says that
something committed, not what: read it from the warehouse. A host that vanishes without a word is
noticed by the engine's keepalives, within half a minute; until then nothing is heard, and whoever
must not be late by that much asks the warehouse now and then.

LISTEN belongs to a session: behind a pooler it needs session mode.
"""

import logging
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import psycopg
from psycopg import Notify, sql
from sqlalchemy import Engine

from warehouse_schema import channels
from warehouse_schema.identifiers import ChainId, Height, StellarAddress

logger = logging.getLogger(__name__)

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0
"""Seconds from one attempt to connect to the next; they double and are jittered."""
_STOP_CHECK = 0.2
"""Seconds within which an idle listener notices that it is to stop."""


@dataclass(frozen=True, slots=True)
class Committed:
    """A transaction that moved the chain to this height committed; also down, by a reorg."""

    chain: ChainId
    height: Height


@dataclass(frozen=True, slots=True)
class Resync:
    """Anything may have changed."""

    connected: bool
    """Whether what changes from now on will be told."""


@dataclass(frozen=True, slots=True)
class TransfersChanged:
    """A transaction after which this owner is to be told something of its transfers committed."""

    owner: StellarAddress


Notification: TypeAlias = Committed | TransfersChanged | Resync
Subscriber: TypeAlias = Callable[[Notification], None]
"""Called in the listener's thread: it neither waits nor raises, or nobody hears the next one."""
ListenSession: TypeAlias = psycopg.Connection[tuple[object, ...]]


class NotificationListener:
    """The process's one listener.

    `engine` is its own, under the role of the room: a listener does not queue with requests.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._subscribers: tuple[Subscriber, ...] = ()
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._connected = False
        self._thread = threading.Thread(target=self._run, name="changes", daemon=True)

    @property
    def connected(self) -> bool:
        """Whether what commits now will be told.

        False before `start`, after `stop`, and in a process that was forked off this one: threads
        do not come along.
        """
        return self._connected and self._thread.is_alive()

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Tell `subscriber` from now on; the answer is what ends it.

        It is not told that the listener is connected already: subscribe, then read.
        """
        with self._lock:
            self._subscribers = (*self._subscribers, subscriber)

        def unsubscribe() -> None:
            with self._lock:
                self._subscribers = tuple(s for s in self._subscribers if s is not subscriber)

        return unsubscribe

    def start(self) -> None:
        """Begin to listen, without waiting for it."""
        self._thread.start()

    def stop(self) -> None:
        """Stop listening, and wait for that."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        pause = _FIRST_PAUSE
        while not self._over.is_set():
            try:
                with self._listening() as session:
                    pause = _FIRST_PAUSE
                    self._hear(session)
            except psycopg.OperationalError as error:
                logger.warning(
                    "not listening to %s: %s", channels.INGESTED, " ".join(str(error).split())
                )
                # Workers that lost the same server do not all come back at once.
                self._over.wait(pause * random.SystemRandom().uniform(0.5, 1.0))
                pause = min(_LONGEST_PAUSE, pause * 2)

    @contextmanager
    def _listening(self) -> Iterator[ListenSession]:
        pooled = self._engine.raw_connection()
        session: ListenSession = pooled.driver_connection  # type: ignore[assignment]
        # A session that listens is closed, never handed on to whoever asks the pool next.
        pooled.detach()
        with closing(session):
            session.autocommit = True
            session.execute("SET application_name = 'isthmus-api-changes'")
            for channel in (channels.TRANSFERS, channels.INGESTED):
                session.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
            try:
                self._connected = True
                self._tell(Resync(connected=True))
                yield session
            finally:
                self._connected = False
                self._tell(Resync(connected=False))

    def _hear(self, session: ListenSession) -> None:
        while not self._over.is_set():
            for notice in session.notifies(timeout=_STOP_CHECK):
                self._tell(_read(notice))

    def _tell(self, told: Notification) -> None:
        for subscriber in self._subscribers:
            subscriber(told)


def _read(notice: Notify) -> Notification:
    """Any user of the database may write to a channel: what is not ours may mean anything."""
    if notice.channel == channels.TRANSFERS:
        return TransfersChanged(StellarAddress(notice.payload))
    chain, _, height = notice.payload.rpartition(":")
    if chain and height.isdecimal():
        return Committed(ChainId(chain), Height(int(height)))
    return Resync(connected=True)
