"""Loops that run until they are stopped, and outlast an outage of the warehouse."""

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
from sqlalchemy.exc import DBAPIError, OperationalError

from indexer.errors import LeaseLost
from indexer.metrics.collectors import waiting

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.2

_TRANSIENT_STATES = ("08", "40", "53300", "55P03", "57P")
"""SQLSTATEs: connection, rollback, too many connections, lock timeout, operator intervention."""


def stop_requested() -> Callable[[], bool]:
    """Install handlers of SIGINT and SIGTERM; the result says if one came. Main thread only."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop.is_set


def pause(seconds: float, should_stop: Callable[[], bool]) -> None:
    """Sleep, but return early once `should_stop`."""
    deadline = time.monotonic() + seconds
    while not should_stop() and (remaining := deadline - time.monotonic()) > 0:
        time.sleep(min(remaining, _POLL_SECONDS))


def is_transient(error: DBAPIError) -> bool:
    """True for a lost server, a lock or a deadlock; False for a full disk or an invalid row."""
    if error.connection_invalidated:
        return True
    state = getattr(error.orig, "sqlstate", None)
    is_operational = isinstance(error, OperationalError)
    return is_operational and (state is None or state.startswith(_TRANSIENT_STATES))


@contextmanager
def pause_on_outage(loop: str, wait: Callable[[], None]) -> Iterator[None]:
    """Log a transient database error and wait; the caller then opens a new session.

    The session's locks are gone with it. After a lost lease there is no wait: the caller goes on as
    a standby. Re-raises permanent errors.
    """
    try:
        yield
    except LeaseLost as error:
        logger.warning("lease lost loop=%s: %s", loop, error)
    except (DBAPIError, psycopg.OperationalError) as error:
        # A listening session raises the driver's own error, and only when it is lost.
        if isinstance(error, DBAPIError) and not is_transient(error):
            raise
        logger.warning("warehouse lost loop=%s: %s", loop, " ".join(str(error).split()))
        with waiting("postgres"):
            wait()
