"""Entry points: a whole backfill in this process, and its steps for an orchestrator."""

import logging
from collections.abc import Callable

from sqlalchemy import Connection, Engine

from indexer.chains.finality import final_by_depth
from indexer.chains.ports import ChainReader
from indexer.config.networks import Chain, Network
from indexer.errors import (
    ConfigurationError,
    FollowerConflict,
    InconsistentAnswer,
    RangeRefused,
)
from indexer.facts.backfills import BackfillSpan, delete_backfill, save_spans
from indexer.facts.cursors import read_cursor
from indexer.facts.watchlist import StoredWatchlist
from indexer.ingest.backfill.commit import (
    LEASE_TIMEOUT,
    check_range,
    check_seams,
    commit_chunk,
    fold_movements,
    read_progress,
    read_spans,
)
from indexer.ingest.backfill.fetch import fetch_ahead, open_source
from indexer.ingest.backfill.progress import BackfillProgress, Meter
from indexer.ingest.backfill_lease import backfill_lease, busy_message
from warehouse_schema.identifiers import ChainId, Height

logger = logging.getLogger(__name__)

MAX_SPANS = 200
"""Spans of a backfill: an orchestrator keeps a record of each, and passes the list to every
process."""
MIN_BLOCKS = 2_000
"""Size of a span: a process costs seconds to start."""
PLAN_TIMEOUT = 10.0
"""Seconds to wait for the lease of a process that planned the same and was killed."""

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
    after all facts where many have more events than their send. The order book is a fold in ledger
    order, so it is rebuilt once at the end when the range is the Stellar chain's.

    Raises `RangeRefused` for a range that the follower still writes, `FollowerConflict` beside
    another backfill of the chain, and the reader's errors; committed chunks stay.
    """
    chain, whole = network.chain(reader.chain), (first, last)
    reader.check_identity()
    with backfill_lease(engine, chain.id) as conn:
        _check_final(conn, reader, chain, first, last)
        spans = _planned(conn, chain.id, whole, last - first + 1)
        meter = Meter(read_progress(conn, chain.id, *whole))
        for span in spans:
            _ingest(engine, conn, reader, network, span, meter, on_progress)
        _finish(engine, conn, network, chain.id, whole, meter, on_progress)


# The same in steps: plan the spans, ingest each of them, finish.


def plan_spans(
    engine: Engine,
    reader: ChainReader,
    network: Network,
    first: Height,
    last: Height,
    blocks: int | None = None,
) -> list[Span]:
    """Spans of so many blocks that are not all committed; stores them at the first call.

    Later calls return what the first planned, less what is committed; empty when only movements
    remain. By default at most `MAX_SPANS` of at least `MIN_BLOCKS`. Raises as `backfill` does.
    """
    chain = network.chain(reader.chain)
    reader.check_identity()
    size = blocks or max(MIN_BLOCKS, -((first - last - 1) // MAX_SPANS))
    with backfill_lease(engine, chain.id, timeout=PLAN_TIMEOUT) as conn:
        _check_final(conn, reader, chain, first, last)
        spans = _planned(conn, chain.id, (first, last), size)
    return [(span.first, span.last) for span in spans if span.done < span.last]


def ingest_span(
    engine: Engine,
    reader: ChainReader,
    network: Network,
    whole: Span,
    span: Span,
    on_progress: Report,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Read and commit one planned span of the backfill of `whole`, from where it is.

    Any process on any machine may do it, beside those of other spans. Two processes of one span
    do no harm: each chunk is committed once. Does nothing for a span that is done.

    `check` is called before each chunk: raise from it to give up. Raises as `backfill` does.
    """
    chain = network.chain(reader.chain)
    reader.check_identity()
    with engine.connect() as conn:
        check_range(conn, chain, *whole)
        found = _find(conn, chain.id, whole, span)
        if found is not None:
            meter = Meter(read_progress(conn, chain.id, *whole))
            _ingest(engine, conn, reader, network, found, meter, on_progress, check)


def finish_backfill(
    engine: Engine, network: Network, chain: ChainId, whole: Span, on_progress: Report
) -> None:
    """Fold the remaining movements and the order book, once all spans are committed.

    Raises `ConfigurationError` when blocks are missing, `InconsistentAnswer` when spans do not
    join, and `FollowerConflict`.
    """
    with backfill_lease(engine, chain, timeout=LEASE_TIMEOUT) as conn:
        meter = Meter(read_progress(conn, chain, *whole))
        _finish(engine, conn, network, chain, whole, meter, on_progress)


def _planned(conn: Connection, chain: ChainId, whole: Span, size: int) -> list[BackfillSpan]:
    """The stored spans; stores them if there are none."""
    spans = read_spans(conn, chain, *whole)
    if not spans:
        first, last = whole
        spans = [
            BackfillSpan(
                chain,
                first,
                last,
                first=Height(at),
                last=Height(min(at + size - 1, last)),
                done=Height(at - 1),
                folded=Height(at - 1),
                events=0,
            )
            for at in range(first, last + 1, size)
        ]
        with conn.begin():
            save_spans(conn, spans)
    return spans


def _find(conn: Connection, chain: ChainId, whole: Span, span: Span) -> BackfillSpan | None:
    spans = read_spans(conn, chain, *whole)
    return next((each for each in spans if (each.first, each.last) == span), None)


def _ingest(
    engine: Engine,
    conn: Connection,
    reader: ChainReader,
    network: Network,
    now: BackfillSpan,
    meter: Meter,
    on_progress: Report,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Commit the rest of a span, chunk by chunk."""
    if now.done == now.last:
        return
    chain, whole = network.chain(now.chain), (now.range_first, now.range_last)
    watched = StoredWatchlist(chain, engine.begin)
    with open_source(reader, network, watched) as source:
        for chunk in fetch_ahead(source, Height(now.done + 1), now.last):
            check()
            while chunk.last > now.done:
                after = commit_chunk(conn, network, now, chunk)
                if after is None:
                    after = _find(conn, chain.id, whole, (now.first, now.last))
                    if after is None or after.done < now.done:
                        raise FollowerConflict(busy_message(chain.id))
                    logger.info("another process is at %d chain=%s", after.done, chain.id)
                now = after
            on_progress(meter.progress(read_progress(conn, chain.id, *whole)))


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


def _finish(
    engine: Engine,
    conn: Connection,
    network: Network,
    chain: ChainId,
    whole: Span,
    meter: Meter,
    on_progress: Report,
) -> None:
    spans = read_spans(conn, chain, *whole)
    if not spans:
        # A process that did this before was killed, or lost its orchestrator, right after it.
        return
    for span in spans:
        if span.done < span.last:
            raise ConfigurationError(
                f"{chain} {whole[0]} to {whole[1]}: blocks from {span.done + 1} on are missing"
            )
    try:
        check_seams(conn, spans)
    except InconsistentAnswer:
        # What is stored is of two histories: the next backfill of the range reads all of it.
        with conn.begin():
            delete_backfill(conn, chain, *whole)
        raise
    for span in spans:
        for _ in fold_movements(conn, network, span):
            on_progress(meter.progress(read_progress(conn, chain, *whole)))
    if chain == network.stellar.id:
        # Imported here: the order book is Stellar's, and costs each start a tenth of a second.
        from indexer.ingest.rebuild import rebuild

        rebuild(engine, network)
    with conn.begin():
        delete_backfill(conn, chain, *whole)
