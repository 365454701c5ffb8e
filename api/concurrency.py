"""Sources that answer while somebody waits, and how many threads of a process may wait for one."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from api.errors import Unavailable
from indexer.errors import ConfigurationError, PermanentChainError, RetryableChainError

logger = logging.getLogger(__name__)

MAX_CONCURRENT = 4
"""Of a process's eight threads: a source that hangs must not stop what needs none."""
MAX_PER_CHAIN = 3
"""As `MOST_AT_ONCE`, of each EVM chain: with one that hangs, the others are still read."""
WAIT_SECONDS = 1.0
"""For one of those places."""


class ConcurrencyLimit:
    """Places for the threads that wait for one source. Threads share it."""

    def __init__(self, most: int = MAX_CONCURRENT) -> None:
        self._places = threading.BoundedSemaphore(most)

    @contextmanager
    def slot(self, *, busy: Unavailable, failed: Unavailable) -> Iterator[None]:
        """A place for as long as the block runs.

        Raises `busy` when none comes free in time, and `failed`, with a word in the log, for what a
        chain or service raises in the block.
        """
        if not self._places.acquire(timeout=WAIT_SECONDS):
            raise busy
        try:
            yield
        except (RetryableChainError, PermanentChainError, ConfigurationError) as error:
            logger.error("%s: %s", failed, error)
            raise failed from error
        finally:
            self._places.release()


class ConcurrencyLimits:
    """A `ConcurrencyLimit` for each of several sources. Threads share it."""

    def __init__(self, most: int = MAX_PER_CHAIN) -> None:
        self._most = most
        self._sources: dict[str, ConcurrencyLimit] = {}

    def of(self, source: str) -> ConcurrencyLimit:
        """The places of one source."""
        return self._sources.setdefault(source, ConcurrencyLimit(self._most))
