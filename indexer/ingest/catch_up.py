"""Catching up: a follower that is far behind reads final blocks in chunks, as a backfill does.

A chunk is read as columns, at a fraction of the processor time of a range of event objects, and the
next ones are fetched while it is written. Its transaction is that of a range: cursor, facts,
projections and outbox together. `indexer.chains.evm.history` has what is checked of its logs.
"""

import logging
from collections.abc import Generator
from contextlib import closing
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine

from indexer.chains.evm.reader import EvmReader
from indexer.chains.finality import final_by_depth
from indexer.chains.ports import Block, ChainReader
from indexer.config.networks import Network
from indexer.errors import PermanentChainError, RetryableChainError
from indexer.facts import proofs, store
from indexer.facts.alarms import raise_alarm
from indexer.facts.cursors import Cursor, move_cursor, notify_ingested
from indexer.facts.sessions import fences_itself
from indexer.facts.watchlist import StoredWatchlist
from indexer.ingest.ranges import MAX_BLOCKS, RangeStep, committed_progress, cursor_at
from indexer.metrics.collectors import waiting
from indexer.movements.mechanisms import stored_keys
from indexer.movements.store import refold_movements
from indexer.tracing import Attributes, transfer_changes
from indexer.transfers.store import refold_affected
from warehouse_schema.identifiers import Height

if TYPE_CHECKING:
    from indexer.ingest.backfill.chunks import Chunk

logger = logging.getLogger(__name__)

MIN_BLOCKS = MAX_BLOCKS
"""Chunks are read while more than this many final blocks are missing."""
_MAX_RANGES = 64
"""Ranges after a failure, before chunks are read again."""


class CatchUp:
    """Ingests chunks of an EVM chain while the follower is far behind its final blocks."""

    def __init__(
        self, engine: Engine, conn: Connection, reader: ChainReader, network: Network
    ) -> None:
        """Writes on the follower's connection. The engine is for the threads that fetch."""
        self._engine, self._conn = engine, conn
        self._reader, self._network = reader, network
        self._chain = network.chain(reader.chain)
        self._chunks: Generator[Chunk] | None = None
        """None while ranges are ingested."""
        self._ranges_left = 0
        """Ranges to be ingested before chunks are read again."""
        self._failures = 0
        """Since the last chunk."""

    def close(self) -> None:
        """Stop fetching, and close the connections of the threads."""
        if self._chunks is not None:
            self._chunks.close()
            self._chunks = None

    def ingest(self, cursor: Cursor | None, head: Block) -> RangeStep | None:
        """Ingest the next chunk; None when a range should be ingested in its place.

        Raises the errors of `indexer.errors`; nothing half-written stays.
        """
        if self._ranges_left > 0:
            self._ranges_left -= 1
            return None
        first = Height(self._chain.first_height if cursor is None else cursor.height + 1)
        try:
            with waiting("node"):
                chunk = self._next_chunk(first, head)
        except RetryableChainError:
            self._read_ranges()
            raise
        except (PermanentChainError, ValueError, TypeError, LookupError):
            # What fails in columns alone must not stop the chain: a range raises what is permanent.
            logger.exception("no columns chain=%s first=%d", self._chain.id, first)
            self._read_ranges()
            return None
        joins = chunk is not None and (cursor is None or chunk.parent_hash == cursor.block_hash)
        if chunk is None or not joins or chunk.first != first:
            self.close()
            return None
        moved = cursor_at(self._reader, self._chain, cursor, chunk.top, head)
        _commit(self._conn, self._network, cursor, moved, chunk)
        self._failures = 0
        progress = committed_progress(
            moved,
            blocks=chunk.last - chunk.first + 1,
            events=chunk.events,
            undecodable=len(chunk.undecodable),
        )
        return RangeStep(moved, progress)

    def _read_ranges(self) -> None:
        """Ingest ranges for a while: after each failure in a row twice as many."""
        self.close()
        self._ranges_left = min(2**self._failures, _MAX_RANGES)
        self._failures += 1

    def _next_chunk(self, first: Height, head: Block) -> "Chunk | None":
        if self._chunks is None:
            if not isinstance(self._reader, EvmReader):
                return None
            # Blocks above may be replaced while they wait to be written.
            last = final_by_depth(self._chain, head.height)
            if last - first < MIN_BLOCKS:
                return None
            self._chunks = self._fetch(first, last)
        return next(self._chunks, None)

    def _fetch(self, first: Height, last: Height) -> "Generator[Chunk]":
        # Imported here: polars takes 40 MB, which a follower at the head does without.
        from indexer.ingest.backfill.fetch import fetch_ahead, open_source

        # Of each chunk when it is fetched: its blocks are older, and a payment comes after its
        # address is stored. The sessions go back to the engine's pool.
        watched = StoredWatchlist(self._chain, self._engine.begin)
        with (
            open_source(self._reader, self._network, watched) as source,
            # The follower reports a failure and waits, so it is raised at once.
            closing(fetch_ahead(source, first, last, attempts=1)) as chunks,
        ):
            yield from chunks


def _commit(
    conn: Connection, network: Network, cursor: Cursor | None, moved: Cursor, chunk: "Chunk"
) -> None:
    place = (chunk.chain, chunk.first, chunk.last)
    span: Attributes = {
        "chain": chunk.chain,
        "from_height": chunk.first,
        "to_height": chunk.last,
    }
    with transfer_changes("follower range", span), fences_itself(conn):
        move_cursor(conn, cursor, moved)
        chunk.write(conn)
        proofs.record_unproven(conn, network.chain(chunk.chain), chunk.first, chunk.last)
        for subject, reason in chunk.undecodable:
            raise_alarm(conn, chunk.chain, store.UNDECODABLE, subject, reason)
        sent, keys = chunk.sends.keys, chunk.movements
        if keys is None:
            keys = frozenset(stored_keys(conn, *place) - sent)
        keys |= chunk.sends.append(conn, keys)
        refold_movements(conn, network, keys)
        refold_affected(conn, network, (), keys | sent, chunk.payments)
        notify_ingested(conn, chunk.chain, chunk.last)
