"""The process's listener on Postgres's NOTIFY: one thread that reports the indexer's commits.

A subscriber is called in that thread alone, in this order:

    Resync(connected=True)     just connected: earlier commits were not reported
    Committed(chain, height)   a transaction that moved the chain committed
    TransfersChanged(owner)    a transaction with events of an owner's transfers committed
    Resync(connected=False)    disconnected: commits from here on are not reported

A notification says that something committed, not what: read that from the warehouse. A server that
vanishes is noticed by the engine's keepalives, within half a minute. A subscriber that must not be
late by that much polls the warehouse too.

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

_MIN_BACKOFF = 0.1
_MAX_BACKOFF = 5.0
"""Seconds between attempts to connect: exponential, with jitter."""
_STOP_CHECK_SECONDS = 0.2
"""How soon an idle listener notices that it is to stop."""


@dataclass(frozen=True, slots=True)
class Committed:
    """A transaction that moved the chain to this height committed; also down, by a reorg."""

    chain: ChainId
    height: Height


@dataclass(frozen=True, slots=True)
class Resync:
    """Anything may have changed."""

    connected: bool
    """Whether further changes are reported."""


@dataclass(frozen=True, slots=True)
class TransfersChanged:
    """A transaction with events of this owner's transfers committed."""

    owner: StellarAddress


Notification: TypeAlias = Committed | TransfersChanged | Resync
Subscriber: TypeAlias = Callable[[Notification], None]
"""Called in the listener's thread: it must neither block nor raise."""
ListenSession: TypeAlias = psycopg.Connection[tuple[object, ...]]


class NotificationListener:
    """`engine` is its own, under the api's role: a listener does not queue with requests."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._subscribers: tuple[Subscriber, ...] = ()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._connected = False
        self._thread = threading.Thread(target=self._run, name="notifications", daemon=True)

    @property
    def connected(self) -> bool:
        """Whether commits are reported now.

        False before `start`, after `stop`, and in a forked process, which has no such thread.
        """
        return self._connected and self._thread.is_alive()

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call `subscriber` from now on; returns the function that unsubscribes it.

        It gets no `Resync` for a connection that exists already: subscribe first, then read.
        """
        with self._lock:
            self._subscribers = (*self._subscribers, subscriber)

        def unsubscribe() -> None:
            with self._lock:
                self._subscribers = tuple(s for s in self._subscribers if s is not subscriber)

        return unsubscribe

    def start(self) -> None:
        """Begin to listen, without waiting for the connection."""
        self._thread.start()

    def stop(self) -> None:
        """Stop listening, and wait for the thread."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        backoff = _MIN_BACKOFF
        while not self._stopped.is_set():
            try:
                with self._listening() as session:
                    backoff = _MIN_BACKOFF
                    while not self._stopped.is_set():
                        for notify in session.notifies(timeout=_STOP_CHECK_SECONDS):
                            self._publish(_parse(notify))
            except psycopg.OperationalError as error:
                logger.warning(
                    "not listening to %s: %s", channels.INGESTED, " ".join(str(error).split())
                )
                # Jitter: workers that lost the same server must not reconnect together.
                self._stopped.wait(backoff * random.SystemRandom().uniform(0.5, 1.0))
                backoff = min(_MAX_BACKOFF, backoff * 2)

    @contextmanager
    def _listening(self) -> Iterator[ListenSession]:
        pooled = self._engine.raw_connection()
        session: ListenSession = pooled.driver_connection  # type: ignore[assignment]
        # A session that listens is closed, never returned to the pool.
        pooled.detach()
        with closing(session):
            session.autocommit = True
            session.execute("SET application_name = 'isthmus-api-changes'")
            for channel in (channels.TRANSFERS, channels.INGESTED):
                session.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
            try:
                self._connected = True
                self._publish(Resync(connected=True))
                yield session
            finally:
                self._connected = False
                self._publish(Resync(connected=False))

    def _publish(self, notification: Notification) -> None:
        for subscriber in self._subscribers:
            subscriber(notification)


def _parse(notify: Notify) -> Notification:
    """Any database user may write to a channel: an unknown payload may mean anything."""
    if notify.channel == channels.TRANSFERS:
        return TransfersChanged(StellarAddress(notify.payload))
    chain, _, height = notify.payload.rpartition(":")
    if chain and height.isdecimal():
        return Committed(ChainId(chain), Height(int(height)))
    return Resync(connected=True)
