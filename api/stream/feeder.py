"""Reads on in the outbox whenever the indexer commits, in a thread that may wait for Postgres."""

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
from api.stream.outbox import BookMessages, ReadPosition, Start
from warehouse_schema.identifiers import ChainId

logger = logging.getLogger(__name__)

_UNPROMPTED_SECONDS = 2.0
"""From one look to the next when nobody says that anything changed: a notice can be lost with its
connection, and a connection without a word."""
_PAUSE_SECONDS = 0.5
"""Until a warehouse that did not answer is asked again."""


class Feeder:
    """One thread. `on_news` and `on_restart` are called in it, in the order of what they tell."""

    def __init__(
        self,
        engine: Engine,
        chain: ChainId,
        changes: NotificationListener | None,
        since: ReadPosition,
        *,
        on_news: Callable[[BookMessages], None],
        on_restart: Callable[[Start], None],
        on_end: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._chain = chain
        self._changes = changes
        self._since = since
        self._on_news = on_news
        self._on_restart = on_restart
        self._on_end = on_end
        self._look = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stream-feeder", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def look(self) -> None:
        """Read now. Any thread may ask."""
        self._look.set()

    def stop(self) -> None:
        """Begin no further read. Does not wait, so that a signal's handler can ask."""
        self._over.set()
        self._look.set()

    def wait(self, seconds: float) -> None:
        """Wait for the end of a read that was under way."""
        self._thread.join(seconds)

    def _run(self) -> None:
        unsubscribe = None if self._changes is None else self._changes.subscribe(self._hear)
        try:
            # What committed before the subscription was not heard of.
            self._look.set()
            while not self._over.is_set():
                self._look.wait(_UNPROMPTED_SECONDS)
                self._look.clear()
                self._read_patiently()
        finally:
            if unsubscribe is not None:
                unsubscribe()
            self._on_end()

    def _hear(self, told: Notification) -> None:
        if isinstance(told, Resync) or (isinstance(told, Committed) and told.chain == self._chain):
            self._look.set()

    def _read_patiently(self) -> None:
        try:
            self._read()
        except (OperationalError, NoFreeConnection, OrderBookNotReady) as error:
            # Not the error as a whole: it would quote the statement.
            reason = getattr(error, "orig", None) or error.args[0]
            logger.warning("stream waits for the warehouse: %s", reason)
            self._over.wait(_PAUSE_SECONDS)
            self._look.set()

    def _read(self) -> None:
        with read_snapshot(self._engine) as connection:
            news = outbox.read_on(connection, self._chain, self._since)
        if news is not None:
            self._on_news(news)
            self._since = news.standing
        if news is None or any(batch.revised for batch in news.batches):
            with read_snapshot(self._engine) as connection:
                start = outbox.read_start(connection, self._chain)
            logger.warning("stream begins anew at ledger=%d", start.standing.ledger)
            self._on_restart(start)
            self._since = start.standing
