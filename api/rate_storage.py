"""Request counts in fixed windows.

A window begins with a key's first request; the count starts again when it is over. The storages of
the library `limits` are not used: its memory storage is unbounded, so that clients can fill it, and
walks all keys in a thread; it has none for Postgres.
"""

import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from sqlalchemy import Engine, Integer, bindparam, case, delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.sql.dml import ReturningInsert

from warehouse_schema.access import rate_counts

MAX_KEYS = 100_000
"""Of one process; about 20 MB."""
_SWEEP_SECONDS = 60.0
_SWEEP_ROWS = 10_000


class Hit(NamedTuple):
    """A window after a request was counted in it."""

    hits: int
    ends: float
    """Unix seconds by this process's clock."""


class RateStorage(Protocol):
    """Counts requests by key."""

    def hit(self, key: str, seconds: int) -> Hit:
        """Count one request in the key's window of that length."""


class MemoryRateStorage:
    """Counts of this process alone. The cost of a hit does not depend on the number of keys."""

    def __init__(self, clock: Callable[[], float] = time.time, max_keys: int = MAX_KEYS) -> None:
        self._clock = clock
        self._max_keys = max_keys
        self._lock = threading.Lock()
        # In the order in which their windows began.
        self._windows: dict[str, Hit] = {}

    def __len__(self) -> int:
        return len(self._windows)

    def hit(self, key: str, seconds: int) -> Hit:
        """Count one request."""
        now = self._clock()
        with self._lock:
            window = self._windows.get(key)
            if window is None or window.ends <= now:
                self._windows.pop(key, None)
                self._make_room(now)
                window = Hit(0, now + seconds)
            counted = self._windows[key] = Hit(window.hits + 1, window.ends)
        return counted

    def _make_room(self, now: float) -> None:
        """Remove up to two windows that are over, or the oldest when the storage is full."""
        for _ in range(2):
            first = next(iter(self._windows), None)
            if first is None:
                return
            if self._windows[first].ends > now and len(self._windows) < self._max_keys:
                return
            del self._windows[first]


def _count_statement() -> ReturningInsert[Any]:
    table = rate_counts.c
    is_over = table.ends_at <= func.now()
    seconds = bindparam("seconds", type_=Integer)
    first = insert(rate_counts).values(
        key=bindparam("counted_key"),
        hits=1,
        ends_at=func.now() + func.make_interval(0, 0, 0, 0, 0, 0, seconds),
    )
    return first.on_conflict_do_update(
        index_elements=[table.key],
        set_={
            "hits": case((is_over, first.excluded.hits), else_=table.hits + 1),
            "ends_at": case((is_over, first.excluded.ends_at), else_=table.ends_at),
        },
    ).returning(table.hits, func.extract("epoch", table.ends_at - func.now()))


_COUNT = _count_statement()
"""Built once: building it takes longer than running it."""


class PostgresRateStorage:
    """Counts that all processes share, by the database's clock; one statement a request.

    The table is UNLOGGED: counting waits for no disk, and a crash of the database resets the
    counts. Raises `SQLAlchemyError` when the database does not answer.
    """

    def __init__(self, engine: Engine, monotonic: Callable[[], float] = time.monotonic) -> None:
        # Autocommit: a transaction around each statement would cost two more round trips.
        self._engine = engine.execution_options(isolation_level="AUTOCOMMIT")
        self._monotonic = monotonic
        self._sweep_at = monotonic() + _SWEEP_SECONDS

    def hit(self, key: str, seconds: int) -> Hit:
        """Count one request: atomic across processes."""
        with self._engine.connect() as connection:
            given = {"counted_key": key, "seconds": seconds}
            hits, remaining = connection.execute(_COUNT, given).one()
        now = self._monotonic()
        if now >= self._sweep_at:
            self._sweep_at = now + _SWEEP_SECONDS
            self._sweep()
        return Hit(hits, time.time() + float(remaining))

    def _sweep(self) -> None:
        """Delete windows that are over; skip those that another process is deleting."""
        over = (
            select(rate_counts.c.key)
            .where(rate_counts.c.ends_at <= func.now())
            .limit(_SWEEP_ROWS)
            .with_for_update(skip_locked=True)
        )
        with self._engine.connect() as connection:
            connection.execute(delete(rate_counts).where(rate_counts.c.key.in_(over)))
