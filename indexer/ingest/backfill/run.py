"""Entry points: a whole backfill in this process, and its steps for an orchestrator."""

import itertools
import logging
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from pathlib import Path

from sqlalchemy import Connection, Engine

from indexer.chains.finality import final_by_depth
from indexer.chains.ports import ChainReader
from indexer.config.networks import Chain, Network
from indexer.errors import ConfigurationError, RangeRefused
from indexer.facts.backfills import Backfill, delete_backfill
from indexer.facts.cursors import read_cursor
from indexer.facts.watchlist import StoredWatchlist
from indexer.ingest.backfill.chunk_queue import ChunkQueue, open_queue
from indexer.ingest.backfill.chunks import Chunk
from indexer.ingest.backfill.commit import (
    backfill_lease,
    check_range,
    commit_chunk,
    fold_movements,
    read_progress,
)
from indexer.ingest.backfill.earlier_spans import EarlierSpans
from indexer.ingest.backfill.fetch import fetch_ahead, open_source
from indexer.ingest.backfill.progress import BackfillProgress, Meter
from indexer.ingest.rebuild import rebuild
from warehouse_schema.identifiers import ChainId, Height

logger = logging.getLogger(__name__)

MAX_SPANS = 200
"""Spans of a backfill: an orchestrator keeps a record of each, and passes the list to every
process."""
MIN_BLOCKS = 2_000
"""Size of a span: a process costs seconds to start."""
_LEASE_TIMEOUT = 120.0
"""Seconds to wait for the lease of the process that committed the span before, or of a swap."""

Report = Callable[[BackfillProgress], None]
Span = tuple[Height, Height]
"""First and last height, both included."""


def backfill(
    engine: Engine,
    reader: ChainReader,
    network: Network,
    first: Height,
    last: Height,
    on_progress: Report,
) -> None:
    """Read `first … last` and replace what is stored there.

    Continues an unfinished backfill of the same range. Movements are folded with their chunk, or
    after all facts where they are many. The order book is a fold in ledger order, so it is rebuilt
    once at the end when the range is the Stellar chain's.

    Raises `RangeRefused` for a range that the follower still writes, `FollowerConflict` beside
    another backfill of the chain, and the reader's errors; committed chunks stay.
    """
    chain = network.chain(reader.chain)
    reader.check_identity()
    watched = StoredWatchlist(chain, engine.begin)
    with backfill_lease(engine, chain.id) as conn:
        _check_final(conn, reader, chain, first, last)
        now = read_progress(conn, chain.id, first, last)
        meter = Meter(now)
        with open_source(reader, chain, watched) as source:
            chunks = fetch_ahead(source, Height(now.done + 1), last)
            now = _commit_all(conn, network, now, chunks, meter, on_progress)
        _finish(engine, conn, network, now, meter, on_progress)


# The same in steps: plan the spans, ingest each of them, finish.


def plan_spans(
    engine: Engine,
    reader: ChainReader,
    network: Network,
    first: Height,
    last: Height,
    blocks: int | None = None,
) -> list[Span]:
    """The part of `first … last` that is not committed, in spans of so many blocks.

    Empty when only movements remain. By default at most `MAX_SPANS` of at least `MIN_BLOCKS`.
    Raises as `backfill` does.
    """
    chain = network.chain(reader.chain)
    reader.check_identity()
    with backfill_lease(engine, chain.id) as conn:
        _check_final(conn, reader, chain, first, last)
        begin = read_progress(conn, chain.id, first, last).done + 1
    size = blocks or max(MIN_BLOCKS, -((begin - last - 1) // MAX_SPANS))
    return [(Height(at), Height(min(at + size - 1, last))) for at in range(begin, last + 1, size)]


def ingest_span(
    engine: Engine,
    reader: ChainReader,
    network: Network,
    whole: Span,
    span: Span,
    queue_folder: Path,
    on_progress: Report,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Read and commit one span of the backfill of `whole`.

    Any process on any machine may do it, in parallel with those of other spans. It reads at once,
    and commits when all earlier spans are committed; until then its chunks wait in the folder
    `queue_folder`, up to a limit at which it stops reading.

    Each earlier span must be running in another process, or committed. `check` is called regularly:
    raise from it to give up. Raises as `backfill` does, and `FollowerConflict` when earlier spans
    stall.
    """
    chain = network.chain(reader.chain)
    reader.check_identity()
    watched = StoredWatchlist(chain, engine.begin)
    with engine.connect() as conn:
        start = read_progress(conn, chain.id, *whole)
    # From here on: the rate is that of all processes, while this one waits as well.
    meter = Meter(start)
    first, last = Height(max(span[0], start.done + 1)), span[1]
    if first > last:
        return
    earlier = EarlierSpans(engine, chain.id, whole, first, check)
    with (
        open_source(reader, chain, watched) as source,
        open_queue(queue_folder) as queue,
        closing(_after_earlier(fetch_ahead(source, first, last), earlier, queue, check)) as chunks,
    ):
        earliest = next(chunks)
        with backfill_lease(engine, chain.id, timeout=_LEASE_TIMEOUT) as conn:
            check_range(conn, chain, *whole)
            now = read_progress(conn, chain.id, *whole)
            _commit_all(conn, network, now, itertools.chain([earliest], chunks), meter, on_progress)


def finish_backfill(
    engine: Engine, network: Network, chain: ChainId, whole: Span, on_progress: Report
) -> None:
    """Fold the remaining movements and the order book, once all spans are committed.

    Raises `ConfigurationError` when blocks are missing, and `FollowerConflict`.
    """
    with backfill_lease(engine, chain, timeout=_LEASE_TIMEOUT) as conn:
        now = read_progress(conn, chain, *whole)
        _finish(engine, conn, network, now, Meter(now), on_progress)


def _after_earlier(
    chunks: Iterator[Chunk], earlier: EarlierSpans, queue: ChunkQueue, check: Callable[[], None]
) -> Generator[Chunk]:
    """The chunks in order, queued until all earlier spans are committed."""
    for chunk in chunks:
        check()
        if earlier.are_committed():
            yield from queue.drain()
            yield chunk
            continue
        queue.put(chunk)
        while queue.is_full and not earlier.are_committed():
            earlier.pause()
    earlier.wait()
    yield from queue.drain()


def _check_final(
    conn: Connection, reader: ChainReader, chain: Chain, first: Height, last: Height
) -> None:
    """As `check_range`; without a follower, `last` must be final by the node's head."""
    check_range(conn, chain, first, last)
    with conn.begin():
        is_followed = read_cursor(conn, chain.id) is not None
    final = last if is_followed else final_by_depth(chain, reader.head().height)
    if last > final:
        raise RangeRefused(
            f"{chain.id}: what lies above {final} may still be taken back; a backfill may reach up"
            f" to {final}, not {last}"
        )


def _commit_all(
    conn: Connection,
    network: Network,
    now: Backfill,
    chunks: Iterable[Chunk],
    meter: Meter,
    on_progress: Report,
) -> Backfill:
    """Commit chunks in order, except those that another process committed meanwhile."""
    for chunk in chunks:
        if chunk.last > now.done:
            now = commit_chunk(conn, network, now, chunk)
            on_progress(meter.progress(now))
    return now


def _finish(
    engine: Engine,
    conn: Connection,
    network: Network,
    now: Backfill,
    meter: Meter,
    on_progress: Report,
) -> None:
    if now.done < now.last:
        raise ConfigurationError(
            f"{now.chain} {now.first} to {now.last}: blocks from {now.done + 1} on are missing"
        )
    for progress in fold_movements(conn, network, now):
        now = progress
        on_progress(meter.progress(now))
    if now.chain == network.stellar.id:
        rebuild(engine, network)
    with conn.begin():
        delete_backfill(conn, now)
