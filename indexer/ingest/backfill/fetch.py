"""Fetching of chunks from nodes: range size, retries, several ranges at once."""

import logging
import queue
import random
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from indexer.chains.evm.history import EvmHistory
from indexer.chains.evm.reader import EvmReader
from indexer.chains.polars_errors import polars_errors_as_value_errors
from indexer.chains.ports import ChainReader
from indexer.chains.watchlist import Watched
from indexer.config.networks import EvmChain, Network
from indexer.errors import PermanentChainError, RangeTooWide, RetryableChainError
from indexer.ingest.backfill.chunks import Chunk, chunk_of_columns, chunk_of_range
from indexer.ingest.ranges import MAX_BLOCKS
from warehouse_schema.identifiers import Height

logger = logging.getLogger(__name__)

READERS = 2
"""Parallel requests: one range is decoded while the other is on its way."""
CHUNK_EVENTS = 6_000
"""Target number of raw events in a chunk: enough for a transaction."""
CHUNK_BYTES = 7_600_000
"""Target of `Chunk.size`, which counts movements of sends twice: 6,000 sends would be 10.5 MB."""
FIRST_BLOCKS = 20
"""Size of the first chunk read as columns: a block may hold hundreds of logs, or none."""
MAX_BLOCKS_COLUMNAR = 1_000
"""Maximum size of a chunk read as columns: its headers are in memory at once."""
MAX_WAITING_BYTES = 64 * 1024 * 1024
"""Rows that wait for the writer, beyond which nothing more is requested."""

_ATTEMPTS = 12
"""About four minutes: the restart of a node is no reason to give up."""
_FIRST_PAUSE = 0.25
"""Seconds before the second attempt; doubled before each further one."""
_MAX_PAUSE = 60.0
"""Seconds, also for a node's `Retry-After`."""


FetchChunk: TypeAlias = Callable[[Height, Height], Chunk]
"""Reads `first … last` into one chunk. Raises `RangeTooWide` and the reader's other errors."""


@dataclass(frozen=True, slots=True)
class ChunkSource:
    """Fetch functions of a chain, and the sizes of their chunks."""

    fetchers: Sequence[FetchChunk]
    """Each for one thread."""
    first_blocks: int
    """Size of the first chunk, before anything is known."""
    max_blocks: int


@contextmanager
def open_source(reader: ChainReader, network: Network, watched: Watched) -> Iterator[ChunkSource]:
    """Columnar readers with connections of their own for EVM chains, else the reader alone."""
    chain = network.chain(reader.chain)
    if not (isinstance(reader, EvmReader) and isinstance(chain, EvmChain)):

        def fetch(first: Height, last: Height) -> Chunk:
            return chunk_of_range(network, chain, reader.read(first, last, watched))

        yield ChunkSource([fetch], first_blocks=MAX_BLOCKS, max_blocks=MAX_BLOCKS)
        return
    histories = [EvmHistory.for_reader(reader) for _ in range(READERS)]
    fetchers = [partial(_fetch_columns, each, network, chain, watched) for each in histories]
    try:
        yield ChunkSource(fetchers, first_blocks=FIRST_BLOCKS, max_blocks=MAX_BLOCKS_COLUMNAR)
    finally:
        for each in histories:
            each.close()


@polars_errors_as_value_errors()
def _fetch_columns(
    history: EvmHistory,
    network: Network,
    chain: EvmChain,
    watched: Watched,
    first: Height,
    last: Height,
) -> Chunk:
    return chunk_of_columns(network, chain, history.read_columns(first, last, watched))


def fetch_with_retries(
    fetch: FetchChunk,
    first: Height,
    last: Height,
    ended: threading.Event,
    attempts: int | None = None,
) -> Chunk:
    """Fetch, with exponential backoff after retryable errors.

    Raises `RangeTooWide` at once, and the last error after all attempts or once `ended` is set.
    """
    for attempt in range(1, attempts or _ATTEMPTS):
        try:
            return fetch(first, last)
        except RangeTooWide:
            raise
        except RetryableChainError as error:
            pause = _FIRST_PAUSE * 2 ** (attempt - 1) * random.SystemRandom().uniform(0.5, 1.0)
            logger.warning("node blocks=%d-%d attempt=%d: %s", first, last, attempt, error)
            seconds = pause if error.retry_after is None else error.retry_after
            if ended.wait(min(seconds, _MAX_PAUSE)):
                raise
    return fetch(first, last)


class RangePlanner:
    """Plans the next range, with a size learned from earlier chunks."""

    def __init__(self, first: Height, last: Height, *, first_blocks: int, max_blocks: int) -> None:
        self._next, self._last, self._max = first, last, max_blocks
        self._blocks = first_blocks

    def take(self) -> tuple[Height, Height] | None:
        """The next range; None at the end."""
        if self._next > self._last:
            return None
        first, last = self._next, Height(min(self._next + self._blocks - 1, self._last))
        self._next = Height(last + 1)
        return first, last

    def learn(self, chunk: Chunk) -> None:
        """Aim at `CHUNK_EVENTS` or `CHUNK_BYTES`, whichever is reached first.

        In steps of at most twice or half as many blocks.
        """
        blocks = chunk.last - chunk.first + 1
        target = min(
            blocks * CHUNK_EVENTS // max(chunk.read, 1),
            blocks * CHUNK_BYTES // max(chunk.size, 1),
        )
        self._blocks = max(1, min(max(target, blocks // 2), blocks * 2, self._max))

    def halve(
        self, first: Height, last: Height, error: RangeTooWide
    ) -> tuple[tuple[Height, Height], ...]:
        """The halves of a range that is too wide; plans no larger ranges after it.

        Raises `PermanentChainError` for one block.
        """
        self._blocks = max(1, min(self._blocks, (last - first + 1) // 2))
        if first == last:
            raise PermanentChainError(f"one block, {first}, is too much: {error}") from error
        logger.info("range halved blocks=%d-%d: %s", first, last, error)
        middle = (first + last) // 2
        return (first, Height(middle)), (Height(middle + 1), last)


@dataclass(frozen=True, slots=True)
class _Pending:
    first: Height
    last: Height
    chunk: "Future[Chunk]"

    @property
    def waiting_bytes(self) -> int:
        """Size of a fetched chunk that waits for the writer."""
        is_fetched = self.chunk.done() and not self.chunk.cancelled()
        return self.chunk.result().size if is_fetched and self.chunk.exception() is None else 0


def fetch_ahead(
    source: ChunkSource, first: Height, last: Height, *, attempts: int | None = None
) -> Generator[Chunk]:
    """The range's chunks in order, while the next ones are being fetched.

    At most one chunk more than there are fetchers waits, and about `MAX_WAITING_BYTES`. A range is
    requested so many times before its error is raised; None: for about four minutes.
    """
    plan = RangePlanner(first, last, first_blocks=source.first_blocks, max_blocks=source.max_blocks)
    idle: queue.SimpleQueue[FetchChunk] = queue.SimpleQueue()
    for each in source.fetchers:
        idle.put(each)
    pending: deque[_Pending] = deque()
    pool = ThreadPoolExecutor(len(source.fetchers), thread_name_prefix="backfill")
    ended = threading.Event()

    def fetch(first: Height, last: Height) -> Chunk:
        fetcher = idle.get()
        try:
            return fetch_with_retries(fetcher, first, last, ended, attempts)
        finally:
            idle.put(fetcher)

    def start(first: Height, last: Height) -> _Pending:
        return _Pending(first, last, pool.submit(fetch, first, last))

    try:
        while True:
            while (
                len(pending) <= len(source.fetchers)
                and sum(each.waiting_bytes for each in pending) < MAX_WAITING_BYTES
            ):
                planned = plan.take()
                if planned is None:
                    break
                pending.append(start(*planned))
            if not pending:
                return
            head = pending.popleft()
            try:
                chunk = head.chunk.result()
            except RangeTooWide as error:
                parts = plan.halve(head.first, head.last, error)
                pending.extendleft(start(*part) for part in reversed(parts))
                continue
            plan.learn(chunk)
            yield chunk
    finally:
        ended.set()
        pool.shutdown(cancel_futures=True)
