"""A warehouse that is lost for a while, and loops that outlast it."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
from sqlalchemy.exc import OperationalError

from indexer.stopping import pause

logger = logging.getLogger(__name__)

_PASSING_STATES = ("08", "40", "53300", "55P03", "57P")
"""SQLSTATEs: connection, rollback, too many connections, lock time-out, operator intervention."""


def passes(error: OperationalError) -> bool:
    """Whether the warehouse can be well again by itself: a lost server, a lock, a deadlock.

    A full disk or a row that Postgres will never take is for a person.
    """
    state = getattr(error.orig, "sqlstate", None)
    return error.connection_invalidated or state is None or state.startswith(_PASSING_STATES)


@contextmanager
def outlasting(loop: str, seconds: float, should_stop: Callable[[], bool]) -> Iterator[None]:
    """A session's work: if the warehouse is lost in it, log that and pause, for the next session.

    Whatever lock the session had went with it. Raises what does not pass by itself.
    """
    try:
        yield
    except (OperationalError, psycopg.OperationalError) as error:
        # The driver's own is of a session that listens, and it was lost.
        if isinstance(error, OperationalError) and not passes(error):
            raise
        logger.warning("warehouse lost loop=%s: %s", loop, " ".join(str(error).split()))
        pause(seconds, should_stop)
