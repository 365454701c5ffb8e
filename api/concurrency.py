"""Limits on the threads of a process that wait for one external source at a time."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from api.errors import Unavailable
from indexer.errors import ConfigurationError, PermanentChainError, RetryableChainError

logger = logging.getLogger(__name__)

MAX_CONCURRENT = 4
"""Of a process's eight threads: a source that hangs must not stop requests that need none."""
MAX_PER_CHAIN = 3
"""As `MAX_CONCURRENT`, for each EVM chain: one that hangs must not stop the others."""
WAIT_SECONDS = 1.0
"""For a free slot."""


class ConcurrencyLimits:
    """Concurrency limit per source. Thread-safe."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sources: dict[str, threading.BoundedSemaphore] = {}

    @contextmanager
    def slot(self, source: str, *, busy: Unavailable, failed: Unavailable) -> Iterator[None]:
        """A slot of a source while the block runs.

        Raises `busy` without a free slot, and `failed` for an error of a chain or service in the
        block, which is logged.
        """
        slots = self._sources.setdefault(source, threading.BoundedSemaphore(self._limit))
        if not slots.acquire(timeout=WAIT_SECONDS):
            raise busy
        try:
            yield
        except (RetryableChainError, PermanentChainError, ConfigurationError) as error:
            logger.error("%s: %s", failed, error)
            raise failed from error
        finally:
            slots.release()
