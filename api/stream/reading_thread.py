"""Thread that reads Postgres for the stream: the hub never waits for it."""

import logging
import threading
from collections.abc import Callable

import psycopg
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as NoFreeConnection

from api.errors import OrderBookNotReady
from api.notifications import Notification, NotificationListener, Resync

logger = logging.getLogger(__name__)

_POLL_SECONDS = 2.0
"""Without a notification: one can be lost with its connection, and a connection unnoticed. Logouts
and expiries of tokens send none."""
_RETRY_SECONDS = 0.5
"""After the warehouse did not answer."""
_OUTAGES = (OperationalError, psycopg.OperationalError, NoFreeConnection, OrderBookNotReady)


class ReadingThread:
    """Calls `read` at its start, when woken, after notifications that concern it, and at intervals.

    Ends once. `on_end` is called in the thread, also after an error.
    """

    def __init__(
        self,
        name: str,
        listener: NotificationListener | None,
        read: Callable[[], None],
        *,
        concerns: Callable[[Notification], bool],
        on_end: Callable[[], None],
    ) -> None:
        self._name = name
        self._listener = listener
        self._read = read
        self._concerns = concerns
        self._on_end = on_end
        self._wake = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def wake(self) -> None:
        """Read now. Any thread."""
        self._wake.set()

    def stop(self) -> None:
        """Begin no further read. Does not wait, so a signal handler may call it."""
        self._stopped.set()
        self._wake.set()

    def wait(self, seconds: float) -> None:
        """Wait for the end of a thread that was started."""
        self._thread.join(seconds)

    def _run(self) -> None:
        unsubscribe = None
        if self._listener is not None:
            unsubscribe = self._listener.subscribe(self._on_notification)
        try:
            # Commits before the subscription sent no notification.
            self._wake.set()
            while not self._stopped.is_set():
                self._wake.wait(_POLL_SECONDS)
                self._wake.clear()
                try:
                    self._read()
                except _OUTAGES as error:
                    # Not the error as a whole: it would quote the statement.
                    reason = getattr(error, "orig", None) or error.args[0]
                    logger.warning("%s waits for the warehouse: %s", self._name, reason)
                    self._stopped.wait(_RETRY_SECONDS)
                    self._wake.set()
        finally:
            if unsubscribe is not None:
                unsubscribe()
            self._on_end()

    def _on_notification(self, event: Notification) -> None:
        if isinstance(event, Resync) or self._concerns(event):
            self._wake.set()
