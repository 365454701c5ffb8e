"""Where requests are counted: storages for the library `limits`, whose windows are fixed.

A window begins with the first request of a key, and the count starts anew when it is over.
`MemoryStorage` of the library itself walks all keys in a thread of its own, up to a hundred times a
second, and has no bound; neither is for a hot path that anyone can fill with keys.
"""

import threading
import time
from collections.abc import Callable
from typing import Any

from limits.storage import Storage
from sqlalchemy import Engine, case, delete, func, literal, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import SQLAlchemyError

from warehouse_schema.access import rate_counts

MOST_KEYS = 100_000
"""That a process remembers; about 20 MB."""
_SWEEP_SECONDS = 60.0
_SWEPT_AT_ONCE = 10_000


class Memory(Storage):
    """Counts of this process alone. Costs no more when there are many keys."""

    STORAGE_SCHEME = None

    def __init__(self, clock: Callable[[], float] = time.time, most: int = MOST_KEYS) -> None:
        super().__init__()
        self._clock = clock
        self._most = most
        self._lock = threading.Lock()
        # In the order in which their windows began.
        self._counts: dict[str, tuple[int, float]] = {}

    @property
    def base_exceptions(self) -> tuple[type[Exception], ...]:
        """Nothing can go wrong."""
        return ()

    def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        """The count of the key's window, with this."""
        now = self._clock()
        with self._lock:
            count, ends = self._counts.get(key, (0, 0.0))
            if ends <= now:
                self._counts.pop(key, None)
                self._make_room(now)
                count, ends = 0, now + expiry
            self._counts[key] = count + amount, ends
        return count + amount

    def _make_room(self, now: float) -> None:
        """Two leave for each that comes, if they are over; the oldest must, if there is no room."""
        for _ in range(2):
            first = next(iter(self._counts), None)
            if first is None:
                return
            if self._counts[first][1] > now and len(self._counts) < self._most:
                return
            del self._counts[first]

    def get(self, key: str) -> int:
        """The count so far."""
        count, ends = self._counts.get(key, (0, 0.0))
        return count if ends > self._clock() else 0

    def get_expiry(self, key: str) -> float:
        """When the key's window ends, in Unix seconds."""
        return max(self._clock(), self._counts.get(key, (0, 0.0))[1])

    def check(self) -> bool:
        """Memory is there."""
        return True

    def reset(self) -> int:
        """Forget all; how many there were."""
        with self._lock:
            forgotten = len(self._counts)
            self._counts.clear()
        return forgotten

    def clear(self, key: str) -> None:
        """Forget one."""
        with self._lock:
            self._counts.pop(key, None)


class Postgres(Storage):
    """Counts that all processes share, by the database's clock; one statement a request.

    The table is not logged: counting waits for no disk, and a crash of the database forgives.
    Raises `limits.errors.StorageError` when the database does not answer.
    """

    STORAGE_SCHEME = None

    def __init__(self, engine: Engine, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__(wrap_exceptions=True)
        # One statement at a time: a transaction around it would cost two more round trips.
        self._engine = engine.execution_options(isolation_level="AUTOCOMMIT")
        self._monotonic = monotonic
        self._sweep_at = monotonic() + _SWEEP_SECONDS

    @property
    def base_exceptions(self) -> type[Exception]:
        """A lost database, or none of its connections free."""
        return SQLAlchemyError

    def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        """The count of the key's window, with this: atomic, whoever else counts."""
        table = rate_counts.c
        is_over = table.ends_at <= func.now()
        first = insert(rate_counts).values(
            key=key, hits=amount, ends_at=func.now() + func.make_interval(0, 0, 0, 0, 0, 0, expiry)
        )
        count = first.on_conflict_do_update(
            index_elements=[table.key],
            set_={
                "hits": case((is_over, first.excluded.hits), else_=table.hits + literal(amount)),
                "ends_at": case((is_over, first.excluded.ends_at), else_=table.ends_at),
            },
        ).returning(table.hits)
        with self._engine.connect() as connection:
            hits: int = connection.execute(count).scalar_one()
        self._sweep_now_and_then()
        return hits

    def _sweep_now_and_then(self) -> None:
        now = self._monotonic()
        if now >= self._sweep_at:
            self._sweep_at = now + _SWEEP_SECONDS
            self.sweep()

    def sweep(self) -> int:
        """Delete windows that are over; how many. Those that another sweeps are left to it."""
        over = (
            select(rate_counts.c.key)
            .where(rate_counts.c.ends_at <= func.now())
            .limit(_SWEPT_AT_ONCE)
            .with_for_update(skip_locked=True)
        )
        return self._run(delete(rate_counts).where(rate_counts.c.key.in_(over)))

    def get(self, key: str) -> int:
        """The count so far."""
        return self._ask(select(rate_counts.c.hits), key) or 0

    def get_expiry(self, key: str) -> float:
        """When the key's window ends, in Unix seconds of this process's clock."""
        left = func.extract("epoch", rate_counts.c.ends_at - func.now())
        return time.time() + float(self._ask(select(left), key) or 0)

    def _ask(self, what: Any, key: str) -> Any:
        this = what.where(rate_counts.c.key == key, rate_counts.c.ends_at > func.now())
        with self._engine.connect() as connection:
            return connection.execute(this).scalar()

    def check(self) -> bool:
        """Whether the database answers."""
        with self._engine.connect() as connection:
            return bool(connection.scalar(select(literal(1))))

    def reset(self) -> int:
        """Forget all; how many there were."""
        return self._run(delete(rate_counts))

    def clear(self, key: str) -> None:
        """Forget one."""
        self._run(delete(rate_counts).where(rate_counts.c.key == key))

    def _run(self, statement: Any) -> int:
        with self._engine.connect() as connection:
            return int(connection.execute(statement).rowcount)
