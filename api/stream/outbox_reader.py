"""Thread that reads the book's outbox after each commit: the hub never waits for Postgres."""

import logging
import threading
from collections.abc import Callable

from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as NoFreeConnection

from api.deps import read_snapshot
from api.errors import OrderBookNotReady
from api.notifications import Committed, Notification, NotificationListener, Resync
from api.stream import outbox
from api.stream.outbox import BookMessages, BookSnapshot, ReadPosition
from warehouse_schema.identifiers import ChainId

logger = logging.getLogger(__name__)

_POLL_SECONDS = 2.0
"""Without a notification: one can be lost with its connection, and a connection unnoticed."""
_RETRY_SECONDS = 0.5
"""After the warehouse did not answer."""


class OutboxReader:
    """One thread, which calls `on_messages` and `on_snapshot` in the order of the outbox."""

    def __init__(
        self,
        engine: Engine,
        chain: ChainId,
        listener: NotificationListener | None,
        since: ReadPosition,
        *,
        on_messages: Callable[[BookMessages], None],
        on_snapshot: Callable[[BookSnapshot], None],
        on_end: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._chain = chain
        self._listener = listener
        self._since = since
        self._on_messages = on_messages
        self._on_snapshot = on_snapshot
        self._on_end = on_end
        self._wake = threading.Event()
        self._stopped = threading.Event()
        self.thread = threading.Thread(target=self._run, name="stream-outbox", daemon=True)

    def wake(self) -> None:
        """Read now. Any thread."""
        self._wake.set()

    def stop(self) -> None:
        """Begin no further read. Does not wait, so a signal handler may call it."""
        self._stopped.set()
        self._wake.set()

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
                except (OperationalError, NoFreeConnection, OrderBookNotReady) as error:
                    # Not the error as a whole: it would quote the statement.
                    reason = getattr(error, "orig", None) or error.args[0]
                    logger.warning("stream waits for the warehouse: %s", reason)
                    self._stopped.wait(_RETRY_SECONDS)
                    self._wake.set()
        finally:
            if unsubscribe is not None:
                unsubscribe()
            self._on_end()

    def _on_notification(self, event: Notification) -> None:
        if isinstance(event, Resync) or (
            isinstance(event, Committed) and event.chain == self._chain
        ):
            self._wake.set()

    def _read(self) -> None:
        with read_snapshot(self._engine) as connection:
            messages = outbox.read_since(connection, self._chain, self._since)
        if messages is not None:
            self._on_messages(messages)
            self._since = messages.at
        if messages is None or any(batch.revised for batch in messages.batches):
            with read_snapshot(self._engine) as connection:
                snapshot = outbox.read_book_snapshot(connection, self._chain)
            logger.warning("stream restarts from a snapshot at ledger=%d", snapshot.at.ledger)
            self._on_snapshot(snapshot)
            self._since = snapshot.at
