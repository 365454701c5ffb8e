"""One step of a follower, for tests that decide when a chain is read."""

from contextlib import closing

from sqlalchemy import Engine

from indexer.chains.ports import ChainReader
from indexer.config.networks import Network
from indexer.facts.cursors import read_cursor
from indexer.facts.sessions import reading
from indexer.ingest.proving import BlockProver
from indexer.ingest.ranges import MAX_BLOCKS, RangeProgress, follower_lease, ingest_range


def ingest_once(
    engine: Engine, reader: ChainReader, network: Network, *, max_blocks: int = MAX_BLOCKS
) -> RangeProgress | None:
    """Ingest at most one range and prove requested blocks; None when there is nothing new.

    As a follower does, which alone records finality that a node reports.
    """
    with follower_lease(engine, reader.chain) as conn:
        with reading(conn):
            cursor = read_cursor(conn, reader.chain)
        progress = ingest_range(conn, reader, network, reader.head(), max_blocks, cursor).progress
        prover = BlockProver.for_reader(reader, network)
        if prover is not None:
            with closing(prover):
                prover.prove_requested(conn)
        return progress
