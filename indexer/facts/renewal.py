"""Renewal of a process's leases: threads of each engine, over connections of their own.

Their own, because the sessions that hold the leases are busy with long transactions. A stopped
process, a dead machine and a cut link end the renewals with everything else.

Two connections take turns: TCP sends a lost packet again after 0.3 s, then 0.6 s, then 1.2 s, and
holds back all that follows on that connection.
"""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.exc import OperationalError

from warehouse_schema.leases import RENEW_SECONDS, Lease, renew_leases

logger = logging.getLogger(__name__)

CONNECTIONS = 2
_ROUND_SECONDS = RENEW_SECONDS * CONNECTIONS
_CONNECT_SECONDS = 10.0


class LeaseRenewer:
    """Renews an engine's leases while a session of it wants one."""

    def __init__(self, engine: Engine) -> None:
        # A pool of its own: the engine's may be used up by those that need the renewals.
        self._engine = create_engine(engine.url, pool=engine.pool.recreate())
        self._changed = threading.Condition()
        self._leases: set[Lease] = set()
        self._sessions = 0
        self._running: set[int] = set()
        self._connected: set[int] = set()

    @contextmanager
    def started(self) -> Iterator[None]:
        """With open connections, before a lease is taken: over a slow link they take a second."""
        with self._changed:
            self._sessions += 1
            for number in {*range(CONNECTIONS)} - self._running:
                self._running.add(number)
                threading.Thread(
                    target=self._run, args=(number,), name=f"leases-{number}", daemon=True
                ).start()
            self._changed.wait_for(lambda: self._connected, _CONNECT_SECONDS)
        try:
            yield
        finally:
            with self._changed:
                self._sessions -= 1
                self._changed.notify_all()

    def add(self, lease: Lease) -> None:
        """Renew a lease from now on."""
        with self._changed:
            self._leases.add(lease)

    def remove(self, lease: Lease) -> None:
        """Renew it no more; a renewal on its way may still arrive."""
        with self._changed:
            self._leases.discard(lease)

    def _run(self, number: int) -> None:
        while self._wait_until(number, 0.0):
            try:
                with self._engine.connect() as conn:
                    try:
                        self._renew(conn, number)
                    finally:
                        # Not kept in the pool.
                        conn.invalidate()
            except OperationalError as error:
                logger.warning("leases not renewed: %s", " ".join(str(error.orig).split()))
                with self._changed:
                    self._connected.discard(number)
                self._wait_until(number, time.monotonic() + RENEW_SECONDS)

    def _renew(self, conn: Connection, number: int) -> None:
        conn.execution_options(isolation_level="AUTOCOMMIT")
        # A renewal that a crash of the server forgets is a lease that expires early.
        conn.execute(text("SET synchronous_commit = off"))
        with self._changed:
            self._connected.add(number)
            self._changed.notify_all()
        due, offset = 0.0, number * RENEW_SECONDS
        while self._wait_until(number, due):
            with self._changed:
                leases = frozenset(self._leases)
            renew_leases(conn, leases)
            rounds = (time.monotonic() - offset) // _ROUND_SECONDS
            due = (rounds + 1) * _ROUND_SECONDS + offset

    def _wait_until(self, number: int, due: float) -> bool:
        """Wait; False, and the thread is over, as soon as no session wants a lease."""
        with self._changed:
            while self._sessions and (remaining := due - time.monotonic()) > 0:
                self._changed.wait(remaining)
            if not self._sessions:
                self._running.discard(number)
                self._connected.discard(number)
            return bool(self._sessions)


_renewers: WeakKeyDictionary[Engine, LeaseRenewer] = WeakKeyDictionary()
_creating = threading.Lock()


def renewer_of(engine: Engine) -> LeaseRenewer:
    """The one renewer of an engine in this process."""
    with _creating:
        if engine not in _renewers:
            _renewers[engine] = LeaseRenewer(engine)
        return _renewers[engine]
