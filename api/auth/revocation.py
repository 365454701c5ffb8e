"""Revoked tokens of ours, stored until they have expired by every clock.

Each process keeps their ids in memory. It accepts a token only if it read them less than
`FRESH_SECONDS` ago; otherwise the request waits for a read, and fails with it. A read fetches what
was added since the one before.
"""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from sqlalchemy import Engine, delete, func, text
from sqlalchemy.dialects.postgresql import insert

from api.errors import Unavailable
from warehouse_schema.access import revoked_tokens
from warehouse_schema.identifiers import UnixSeconds

FRESH_SECONDS = 0.5
"""After it a logout holds in every process; in the one that was asked it holds at once."""
_FORGET_SECONDS = 3600.0
"""How often all ids are read again, without those that were deleted."""
_READ_TIMEOUT_SECONDS = 5.0
"""For another thread's read."""
_RETENTION = timedelta(hours=1)
"""After expiry: far more than `LEEWAY_SECONDS` and the difference of clocks."""

# What a later read may see and this one does not is of a transaction from `oldest` on.
_ADDED = text("""
    SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS oldest,
           ARRAY(SELECT jti FROM access.revoked_tokens WHERE revoked_by >= :since) AS ids
""")


class Revocations:
    """The revoked tokens in Postgres, shared by all processes. Threads share it."""

    def __init__(self, engine: Engine, monotonic: Callable[[], float] = time.monotonic) -> None:
        # Single statements: a transaction would cost two more round trips.
        self._engine = engine.execution_options(isolation_level="AUTOCOMMIT")
        self._monotonic = monotonic
        self._lock = threading.Lock()
        """Held while one thread reads."""
        self._ids: frozenset[str] = frozenset()
        self._since = 0
        """The transaction from which on the next read looks; 0: all."""
        self._read_at = self._all_read_at = float("-inf")
        """When the last read, and the last one of all, began."""

    def contains(self, jti: str) -> bool:
        """Whether the token is revoked.

        Raises `Unavailable` when another thread's read takes too long, and errors of the database.
        """
        asked_at = self._monotonic()
        if asked_at - self._read_at >= FRESH_SECONDS:
            if not self._lock.acquire(timeout=_READ_TIMEOUT_SECONDS):
                raise Unavailable("the database is slow right now", code="DATABASE_UNAVAILABLE")
            try:
                # Another thread may have read meanwhile.
                if asked_at - self._read_at >= FRESH_SECONDS:
                    self._read()
            finally:
                self._lock.release()
        return jti in self._ids

    def add(self, jti: str, expires_at: UnixSeconds, now: UnixSeconds) -> None:
        """Revoke a token, idempotent, and delete old rows. `now`: by the clock of verification."""
        row = {"jti": jti, "expires_at": datetime.fromtimestamp(expires_at, UTC)}
        # The earlier of two clocks: one that is ahead deletes nothing that others still accept.
        oldest = func.least(func.now(), datetime.fromtimestamp(now, UTC)) - _RETENTION
        with self._engine.connect() as connection:
            connection.execute(insert(revoked_tokens).values(row).on_conflict_do_nothing())
            connection.execute(delete(revoked_tokens).where(revoked_tokens.c.expires_at < oldest))
        # After a read that is under way: the next request reads again.
        with self._lock:
            self._read_at = float("-inf")

    def _read(self) -> None:
        began = self._monotonic()
        # After an error this may be another server, where numbers of transactions mean nothing.
        since, self._since = self._since, 0
        if began - self._all_read_at >= _FORGET_SECONDS:
            since = 0
        with self._engine.connect() as connection:
            found = connection.execute(_ADDED, {"since": since}).one()
        self._ids = frozenset(found.ids) if since == 0 else self._ids.union(found.ids)
        self._since, self._read_at = found.oldest, began
        if since == 0:
            self._all_read_at = began
