"""The ways in: a whole backfill in this process, and its steps for an orchestrator."""

import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from sqlalchemy import Connection, Engine

from indexer.backfill.chunks import Chunk
from indexer.backfill.commit import (
    Backfill,
    backfiller,
    commit_chunk,
    finish,
    fold_rest,
    refuse_live_range,
    take_up,
)
from indexer.backfill.fetch import fetch_ahead, fetch_pieces, source
from indexer.backfill.progress import BackfillProgress, Meter
from indexer.backfill.spool import read_chunk, write_chunk
from indexer.chains.ports import ChainReader
from indexer.errors import ConfigurationError
from indexer.facts import store
from indexer.networks import Chain, Network
from indexer.projections.rebuild import rebuild
from warehouse_schema.identifiers import ChainId, Height

logger = logging.getLogger(__name__)

Report = Callable[[BackfillProgress], None]


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

    Raises `ConfigurationError` for a range that the follower still writes, `FollowerConflict`
    beside another backfill of the chain, and the reader's errors; chunks committed before stay.
    """
    chain = network.chain(reader.chain)
    reader.check_identity()
    watched = watched_on(engine, chain)
    with backfiller(engine, chain.id) as conn:
        refuse_live_range(conn, chain, first, last)
        start = take_up(conn, chain.id, first, last)
        with source(reader, chain, watched) as fetchers:
            chunks = fetch_ahead(fetchers, Height(start.done + 1), last)
            _bring_in(engine, conn, network, start, chunks, on_progress)


def plan_chunks(first: Height, last: Height, blocks: int) -> list[tuple[Height, Height]]:
    """`first … last` in ranges of so many blocks, both ends included, for `fetch_chunk`."""
    return [
        (Height(at), Height(min(at + blocks - 1, last))) for at in range(first, last + 1, blocks)
    ]


def fetch_chunk(
    reader: ChainReader,
    chain: Chain,
    watched: Sequence[str],
    first: Height,
    last: Height,
    folder: Path,
) -> list[Path]:
    """Read one range of a plan into files; one file, or more where the node finds it too wide.

    Touches no warehouse: any process that reaches a node and the folder may do it, and again.
    `watched` comes from `watched_on`. Raises the reader's errors.
    """
    reader.check_identity()
    with source(reader, chain, watched, readers=1) as fetchers:
        (fetch,) = fetchers.fetchers
        return [write_chunk(chunk, folder) for chunk in fetch_pieces(fetch, first, last)]


def commit_chunks(
    engine: Engine,
    network: Network,
    chain: ChainId,
    first: Height,
    last: Height,
    files: Iterable[Path],
    on_progress: Report,
) -> None:
    """Commit the files of `fetch_chunk`, which cover `first … last`, in order.

    The files may be yielded as they come to be. Those that were committed before are passed over,
    so that it may be called again after a kill. Raises as `backfill` does, and `ConfigurationError`
    when files do not follow each other or end before `last`.
    """
    with backfiller(engine, chain) as conn:
        refuse_live_range(conn, network.chain(chain), first, last)
        start = take_up(conn, chain, first, last)
        chunks = (read_chunk(path) for path in files)
        fresh = (chunk for chunk in chunks if chunk.last > start.done)
        _bring_in(engine, conn, network, start, fresh, on_progress)


def watched_on(engine: Engine, chain: Chain) -> list[str]:
    """Addresses of a chain whose token movements are wanted: the network's, and the clients'."""
    with engine.connect() as conn:
        return [*chain.watched, *store.watched_addresses(conn, chain.id)]


def _bring_in(
    engine: Engine,
    conn: Connection,
    network: Network,
    start: Backfill,
    chunks: Iterable[Chunk],
    on_progress: Report,
) -> None:
    now, meter = start, Meter(start)
    for chunk in chunks:
        now = commit_chunk(conn, network, now, chunk)
        on_progress(meter.progress(now))
    if now.done < now.last:
        raise ConfigurationError(
            f"{now.chain} {now.first} to {now.last}: the chunks end at {now.done}"
        )
    for folded in fold_rest(conn, network, now):
        now = folded
        on_progress(meter.progress(now))
    if now.chain == network.stellar.id:
        rebuild(engine, network)
    finish(conn, now)
