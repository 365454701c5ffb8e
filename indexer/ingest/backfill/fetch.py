"""Chunks from nodes: how wide a range to ask for, how often to ask, and several ranges at once."""

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
from typing import Protocol

from indexer.chains.evm.history import EvmHistory
from indexer.chains.evm.reader import EvmReader
from indexer.chains.ports import ChainReader
from indexer.chains.watchlist import Watched
from indexer.config.networks import Chain, EvmChain
from indexer.errors import PermanentChainError, RangeTooWide, RetryableChainError
from indexer.ingest.backfill.chunks import Chunk, chunk_of_columns, chunk_of_range
from indexer.ingest.ranges import MAX_BLOCKS
from warehouse_schema.identifiers import Height

logger = logging.getLogger(__name__)

READERS = 2
"""Ranges that are asked for at once: one may be decoded while the other is on its way."""
CHUNK_EVENTS = 10_000
"""Raw events of a chunk that is neither too small for its transaction nor too large to hold."""
FIRST_BLOCKS = 32
"""Of the first chunk read as columns: a block may hold hundreds of logs, or none."""
MAX_BLOCKS_COLUMNAR = 1_000
"""Of a chunk read as columns: its headers are in memory at once."""
MAX_WAITING_BYTES = 64 * 1024 * 1024
"""Rows that wait for the writer, beyond which nothing more is asked for."""

_ATTEMPTS = 12
"""About four minutes of a node that does not answer: a restart of it is no reason to give up."""
_FIRST_PAUSE = 0.25
"""Seconds before the second attempt; twice as long before each further one."""
_LONGEST_PAUSE = 60.0
"""Seconds, whatever a node asks for."""


class FetchChunk(Protocol):
    """Reads one range into one chunk. Raises `RangeTooWide` and the reader's other errors."""

    def __call__(self, first: Height, last: Height) -> Chunk:
        """Blocks `first … last`, both included."""


@dataclass(frozen=True, slots=True)
class ChunkSource:
    """What chunks of a chain are fetched with."""

    fetchers: Sequence[FetchChunk]
    """Each for one thread."""
    first_blocks: int
    """Of the first chunk, which nothing is known about."""
    most_blocks: int
    """Of any chunk."""


@contextmanager
def open_source(
    reader: ChainReader, chain: Chain, watched: Watched, readers: int = READERS
) -> Iterator[ChunkSource]:
    """As columns, by several connections, where the reader has them; else by the reader alone."""
    if not (isinstance(reader, EvmReader) and isinstance(chain, EvmChain)):
        read = partial(_as_objects, reader, chain, watched)
        yield ChunkSource([read], first_blocks=MAX_BLOCKS, most_blocks=MAX_BLOCKS)
        return
    histories = [EvmHistory.for_reader(reader) for _ in range(readers)]
    try:
        yield ChunkSource(
            [partial(_columnar, each, chain, watched) for each in histories],
            first_blocks=FIRST_BLOCKS,
            most_blocks=MAX_BLOCKS_COLUMNAR,
        )
    finally:
        for each in histories:
            each.close()


def _as_objects(
    reader: ChainReader, chain: Chain, watched: Watched, first: Height, last: Height
) -> Chunk:
    return chunk_of_range(chain, reader.read(first, last, watched))


def _columnar(
    history: EvmHistory, chain: EvmChain, watched: Watched, first: Height, last: Height
) -> Chunk:
    return chunk_of_columns(chain, history.read_columns(first, last, watched))


def fetch_with_retries(
    fetch: FetchChunk, first: Height, last: Height, ended: threading.Event
) -> Chunk:
    """FetchChunk; again after a growing pause while the node says that may help.

    Raises `RangeTooWide` at once, and the last error when it has been tried often enough, or when
    nobody wants the chunk any more.
    """
    for attempt in range(1, _ATTEMPTS):
        try:
            return fetch(first, last)
        except RangeTooWide:
            raise
        except RetryableChainError as error:
            pause = _FIRST_PAUSE * 2 ** (attempt - 1) * random.SystemRandom().uniform(0.5, 1.0)
            logger.warning("node blocks=%d-%d attempt=%d: %s", first, last, attempt, error)
            asked = pause if error.retry_after is None else error.retry_after
            if ended.wait(min(asked, _LONGEST_PAUSE)):
                raise
    return fetch(first, last)


def halves(first: Height, last: Height, error: RangeTooWide) -> tuple[tuple[Height, Height], ...]:
    """Two ranges in the place of one that is too wide. Raises `PermanentChainError` for a block."""
    if first == last:
        raise PermanentChainError(f"one block, {first}, is too much: {error}") from error
    logger.info("range halved blocks=%d-%d: %s", first, last, error)
    middle = (first + last) // 2
    return (first, Height(middle)), (Height(middle + 1), last)


class RangePlanner:
    """Which range comes next, as wide as the chunks before it make seem right."""

    def __init__(self, first: Height, last: Height, *, first_blocks: int, most_blocks: int) -> None:
        self._next, self._last, self._most = first, last, most_blocks
        self._blocks = first_blocks

    def take(self) -> tuple[Height, Height] | None:
        """The next range; None when there is no more."""
        if self._next > self._last:
            return None
        first, last = self._next, Height(min(self._next + self._blocks - 1, self._last))
        self._next = Height(last + 1)
        return first, last

    def learn(self, chunk: Chunk) -> None:
        """Aim at `CHUNK_EVENTS`, in steps of no more than twice or half as many blocks."""
        blocks = chunk.last - chunk.first + 1
        aim = blocks * CHUNK_EVENTS // max(chunk.read, 1)
        self._blocks = max(1, min(max(aim, blocks // 2), blocks * 2, self._most))

    def narrow(self, first: Height, last: Height) -> None:
        """A range of these blocks was too wide."""
        self._blocks = max(1, min(self._blocks, (last - first + 1) // 2))


def fetch_ahead(source: ChunkSource, first: Height, last: Height) -> Generator[Chunk]:
    """The range's chunks in order, while the next ones are being fetched.

    What waits is bounded: by one chunk more than there are fetchers, and by `HELD_BYTES`.
    """
    plan = RangePlanner(
        first, last, first_blocks=source.first_blocks, most_blocks=source.most_blocks
    )
    idle: queue.SimpleQueue[FetchChunk] = queue.SimpleQueue()
    for fetch in source.fetchers:
        idle.put(fetch)
    pending: deque[_Pending] = deque()
    pool = ThreadPoolExecutor(len(source.fetchers), thread_name_prefix="backfill")
    ended = threading.Event()
    start = partial(_start, pool, partial(_fetched, idle, ended))
    try:
        while True:
            while len(pending) <= len(source.fetchers) and _held(pending) < MAX_WAITING_BYTES:
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
                plan.narrow(head.first, head.last)
                parts = halves(head.first, head.last, error)
                pending.extendleft(start(*part) for part in reversed(parts))
                continue
            plan.learn(chunk)
            yield chunk
    finally:
        ended.set()
        pool.shutdown(cancel_futures=True)


@dataclass(frozen=True, slots=True)
class _Pending:
    first: Height
    last: Height
    chunk: "Future[Chunk]"

    @property
    def held(self) -> int:
        """Bytes of a chunk that has come and waits."""
        has_come = self.chunk.done() and not self.chunk.cancelled()
        return self.chunk.result().size if has_come and self.chunk.exception() is None else 0


def _held(pending: deque[_Pending]) -> int:
    return sum(each.held for each in pending)


def _start(
    pool: ThreadPoolExecutor,
    fetched: Callable[[Height, Height], Chunk],
    first: Height,
    last: Height,
) -> _Pending:
    return _Pending(first, last, pool.submit(fetched, first, last))


def _fetched(
    idle: "queue.SimpleQueue[FetchChunk]", ended: threading.Event, first: Height, last: Height
) -> Chunk:
    fetch = idle.get()
    try:
        return fetch_with_retries(fetch, first, last, ended)
    finally:
        idle.put(fetch)
