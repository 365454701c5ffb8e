"""The ways in: a whole backfill in this process, and its steps for an orchestrator."""

import itertools
import logging
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from pathlib import Path

from sqlalchemy import Connection, Engine

from indexer.chains.ports import ChainReader
from indexer.config.networks import Chain, Network
from indexer.errors import ConfigurationError, RangeRefused
from indexer.facts.backfills import Backfill
from indexer.facts.cursors import read_cursor
from indexer.facts.watchlist import StoredWatchlist
from indexer.ingest.backfill.chunk_queue import ChunkQueue, open_queue
from indexer.ingest.backfill.chunks import Chunk
from indexer.ingest.backfill.commit import (
    backfill_lease,
    check_range,
    commit_chunk,
    finish,
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
"""Of a backfill: an orchestrator keeps a record of each, and hands the list to every process."""
MIN_BLOCKS = 2_000
"""Of a span: a process costs seconds to start."""
_HANDED_OVER = 120.0
"""Seconds to wait for the lock of whoever committed the span before, or of a swap."""

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
    """Read `first … last` and put it in the place of what is stored there.

    A backfill of this range that was begun before goes on where it was. Movements are folded with
    their chunk, or after all facts where they are many. The order book is a fold in ledger order,
    so it is rebuilt once at the end when the range is the Stellar chain's.

    Raises `RangeRefused` for a range that the follower still writes, `FollowerConflict` beside
    another backfill of the chain, and the reader's errors; chunks committed before stay.
    """
    chain = network.chain(reader.chain)
    reader.check_identity()
    watched = StoredWatchlist.of(engine, chain)
    with backfill_lease(engine, chain.id) as conn:
        _refuse(conn, reader, chain, first, last)
        now = read_progress(conn, chain.id, first, last)
        meter = Meter(now)
        with open_source(reader, chain, watched) as fetchers:
            chunks = fetch_ahead(fetchers, Height(now.done + 1), last)
            now = _commit_all(conn, network, now, chunks, meter, on_progress)
        _finish(engine, conn, network, now, meter, on_progress)


# The same in steps: plan the spans, bring each of them in, finish.


def plan_spans(
    engine: Engine,
    reader: ChainReader,
    network: Network,
    first: Height,
    last: Height,
    blocks: int | None = None,
) -> list[Span]:
    """What of `first … last` is still to be brought in, in spans of so many blocks.

    None where only the movements are left. By default there are at most `MOST_SPANS`, of at least
    `LEAST_BLOCKS`. Raises as `backfill` does.
    """
    chain = network.chain(reader.chain)
    reader.check_identity()
    with backfill_lease(engine, chain.id) as conn:
        _refuse(conn, reader, chain, first, last)
        begin = read_progress(conn, chain.id, first, last).done + 1
    wide = blocks or max(MIN_BLOCKS, -((begin - last - 1) // MAX_SPANS))
    return [(Height(at), Height(min(at + wide - 1, last))) for at in range(begin, last + 1, wide)]


def ingest_span(
    engine: Engine,
    reader: ChainReader,
    network: Network,
    whole: Span,
    span: Span,
    spool: Path,
    on_progress: Report,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Bring in one span of the backfill of `whole`, however far it is.

    Any process on any machine may do it, beside those that bring in other spans. It reads and
    decodes at once, and commits once all before the span is committed; until then its chunks lie in
    the folder `spool`, up to a bound at which it reads no further. So what waits anywhere is
    bounded by the number of processes, and no two of them have to share a disk.

    Each span before this one must be under way in another process, or in already. `check` is called
    now and then: raise from it to give up. Raises as `backfill` does, and `FollowerConflict` when
    nothing comes of the spans before.
    """
    chain = network.chain(reader.chain)
    reader.check_identity()
    watched = StoredWatchlist.of(engine, chain)
    with engine.connect() as conn:
        start = read_progress(conn, chain.id, *whole)
    # From here on: the rate is then that of all who work on it, while this one waits as well.
    meter = Meter(start)
    first, last = Height(max(span[0], start.done + 1)), span[1]
    if first > last:
        return
    turn = EarlierSpans(engine, chain.id, whole, first, check)
    with (
        open_source(reader, chain, watched) as fetchers,
        open_queue(spool) as waiting,
        closing(_in_turn(fetch_ahead(fetchers, first, last), turn, waiting, check)) as chunks,
    ):
        earliest = next(chunks)
        with backfill_lease(engine, chain.id, patience=_HANDED_OVER) as conn:
            check_range(conn, chain, *whole)
            now = read_progress(conn, chain.id, *whole)
            _commit_all(conn, network, now, itertools.chain([earliest], chunks), meter, on_progress)


def finish_backfill(
    engine: Engine, network: Network, chain: ChainId, whole: Span, on_progress: Report
) -> None:
    """What is left once all spans are in: movements that were many, the order book.

    Raises `ConfigurationError` when blocks are missing, and `FollowerConflict`.
    """
    with backfill_lease(engine, chain, patience=_HANDED_OVER) as conn:
        now = read_progress(conn, chain, *whole)
        _finish(engine, conn, network, now, Meter(now), on_progress)


def _in_turn(
    chunks: Iterator[Chunk], turn: EarlierSpans, waiting: ChunkQueue, check: Callable[[], None]
) -> Generator[Chunk]:
    """The chunks in order, none before its turn has come; until then they are read and kept."""
    for chunk in chunks:
        check()
        if turn.has_come():
            yield from waiting.taken()
            yield chunk
            continue
        waiting.put(chunk)
        while waiting.is_full and not turn.has_come():
            turn.pause()
    turn.wait()
    yield from waiting.taken()


def _refuse(
    conn: Connection, reader: ChainReader, chain: Chain, first: Height, last: Height
) -> None:
    check_range(conn, chain, first, last)
    with conn.begin():
        is_followed = read_cursor(conn, chain.id) is not None
    final = Height(last if is_followed else reader.head().height - chain.confirmations)
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
    """Commit chunks in order; those that somebody else committed meanwhile are passed over."""
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
    for folded in fold_movements(conn, network, now):
        now = folded
        on_progress(meter.progress(now))
    if now.chain == network.stellar.id:
        rebuild(engine, network)
    finish(conn, now)
