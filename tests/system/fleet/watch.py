"""Watches the primary from outside: when cursors moved, and which process has which lease.

Times are of `time.monotonic`, to about 50 ms.
"""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

import psycopg

_POLL_SECONDS = 0.05
_RETRY_SECONDS = 0.2
_TIMEOUT_MS = 1_000
_CURSORS = "SELECT chain, height FROM facts.cursors"
_LEASES = """
    SELECT kind, name, term, pid FROM locks.leases WHERE expires_at > clock_timestamp()
    UNION ALL
    SELECT kind, name, term, pid FROM relay.leases WHERE expires_at > clock_timestamp()
"""


@dataclass(frozen=True)
class Taken:
    """A lease as a process took it."""

    at: float
    term: int
    pid: int


class Watch(threading.Thread):
    """Polls until `stop`, whichever server is the primary."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self._url = url
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._moves: dict[str, list[tuple[float, int]]] = {}
        self._taken: dict[tuple[int, str], list[Taken]] = {}
        self._current: dict[tuple[int, str], int] = {}

    def run(self) -> None:
        """Poll."""
        while not self._over.is_set():
            try:
                with psycopg.connect(
                    self._url, autocommit=True, connect_timeout=2, tcp_user_timeout=_TIMEOUT_MS
                ) as connection:
                    while not self._over.wait(_POLL_SECONDS):
                        self._poll(connection)
            except psycopg.OperationalError:
                self._over.wait(_RETRY_SECONDS)

    def stop(self) -> None:
        """End it."""
        self._over.set()
        self.join()

    def moves(self, chain: str) -> list[float]:
        """When the cursor of a chain moved."""
        with self._lock:
            return [at for at, _ in self._moves.get(chain, [])]

    def height(self, chain: str) -> int:
        """Of a chain's cursor; -1 without one."""
        with self._lock:
            moves = self._moves.get(chain)
            return moves[-1][1] if moves else -1

    def holders(self) -> Mapping[tuple[int, str], int]:
        """Process of each lease that one has now."""
        with self._lock:
            return dict(self._current)

    def taken_after(self, lease: tuple[int, str], since: float) -> float | None:
        """When a process took the lease after that; None: none did."""
        with self._lock:
            for taken in self._taken.get(lease, []):
                if taken.at > since:
                    return taken.at
        return None

    def _poll(self, connection: psycopg.Connection) -> None:
        cursors = connection.execute(_CURSORS).fetchall()
        leases = connection.execute(_LEASES).fetchall()
        now = time.monotonic()
        with self._lock:
            for chain, height in cursors:
                moves = self._moves.setdefault(chain, [])
                if not moves or moves[-1][1] != height:
                    moves.append((now, height))
            self._current = {(kind, name): pid for kind, name, _, pid in leases}
            for kind, name, term, pid in leases:
                known = self._taken.setdefault((kind, name), [])
                if not known or known[-1].term != term:
                    known.append(Taken(now, term, pid))
