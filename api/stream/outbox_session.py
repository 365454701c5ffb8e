"""The session of Postgres that a process reads each commit's messages with."""

from typing import Any

import psycopg
from sqlalchemy import Engine

from api.stream import outbox
from api.stream.outbox import BookMessages, ReadPosition
from warehouse_schema.identifiers import ChainId


class OutboxSession:
    """Of one thread, open from its first read on: a read is one round trip.

    A session of the pool costs one more, which tests it. It is not one of the pool's, as requests
    would miss it there.
    """

    def __init__(self, engine: Engine, chain: ChainId) -> None:
        self._engine = engine
        self._chain = chain
        self._session: psycopg.Connection[Any] | None = None

    def read_since(self, since: ReadPosition) -> BookMessages | None:
        """`outbox.read_since`. Raises errors of SQLAlchemy where it connects, else the driver's."""
        if self._session is not None:
            try:
                return outbox.read_since(self._session, self._chain, since)
            except psycopg.OperationalError:
                if not self._session.closed:
                    raise
                # The server or the pooler was restarted since the last read.
                self.close()
        self._session = self._open()
        return outbox.read_since(self._session, self._chain, since)

    def close(self) -> None:
        """End the session; the next read opens another one."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _open(self) -> "psycopg.Connection[Any]":
        pooled = self._engine.raw_connection()
        session: psycopg.Connection[Any] = pooled.driver_connection  # type: ignore[assignment]
        pooled.detach()
        # Each statement is its own transaction, without BEGIN and COMMIT.
        session.autocommit = True
        return session
