"""Reads the book's outbox after each commit, and hands what is new to the hub."""

import logging
from collections.abc import Callable

from sqlalchemy import Engine

from api.deps import read_snapshot
from api.notifications import Committed, NotificationListener
from api.stream import outbox
from api.stream.outbox import BookMessages, BookSnapshot, ReadPosition
from api.stream.reading_thread import ReadingThread
from warehouse_schema.identifiers import ChainId

logger = logging.getLogger(__name__)


class OutboxReader:
    """Calls `on_messages` and `on_snapshot` in the order of the outbox, in its thread."""

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
        self._since = since
        self._on_messages = on_messages
        self._on_snapshot = on_snapshot
        self.thread = ReadingThread(
            "stream-outbox",
            listener,
            self._read,
            concerns=lambda event: isinstance(event, Committed) and event.chain == chain,
            on_end=on_end,
        )

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
