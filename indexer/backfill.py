"""Reading ranges that lie behind the follower: history before its start, or a range read anew.

A backfill never meets the live follower: it stays below what a chain can still take back, and each
of its ranges is one transaction that replaces whatever was stored there. Run again after a kill,
it writes the same rows.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, func, select

from indexer.chains.ports import ChainReader, Range
from indexer.drain import MAX_BLOCKS, decode_kept
from indexer.errors import (
    ConfigurationError,
    FollowerConflict,
    InconsistentAnswer,
    PermanentChainError,
    RangeTooWide,
)
from indexer.facts import store
from indexer.networks import Chain, Network
from indexer.projections.rebuild import rebuild
from indexer.projections.transfer_store import refold_transfers, touched_movements
from warehouse_schema.identifiers import ChainId, Height

logger = logging.getLogger(__name__)

_BACKFILL_LOCKS = 7_042
"""First key of the advisory lock of a chain's backfill; the second is the chain's hash."""


@dataclass(frozen=True, slots=True)
class BackfillProgress:
    """How much of a backfill is committed."""

    chain: ChainId
    first: Height
    last: Height
    done: Height
    events: int

    @property
    def share(self) -> float:
        """From 0 to 1."""
        return (self.done - self.first + 1) / (self.last - self.first + 1)


def backfill(
    engine: Engine,
    reader: ChainReader,
    network: Network,
    first: Height,
    last: Height,
    on_progress: Callable[[BackfillProgress], None],
) -> None:
    """Read `first … last` and put it in the place of what is stored there.

    Movements are refolded range by range. The order book is a fold in ledger order, so it is
    rebuilt once at the end when the range is the Stellar chain's. Raises `ConfigurationError` for a
    range that the follower still writes, `FollowerConflict` beside another backfill of the chain,
    and the reader's errors; ranges committed before stay.
    """
    chain = network.chain(reader.chain)
    reader.check_identity()
    _refuse_live_range(engine, chain, first, last)
    events, at, size = 0, first, MAX_BLOCKS
    while at <= last:
        try:
            fresh = _read(engine, reader, chain, at, Height(min(last, at + size - 1)))
        except RangeTooWide as error:
            if size == 1:
                raise PermanentChainError(f"{chain.id}: one block is too much: {error}") from error
            size //= 2
            continue
        _replace(engine, network, chain, fresh)
        events += len(fresh.events)
        done = fresh.blocks[-1].height
        logger.info("backfilled chain=%s from=%d to=%d of=%d", chain.id, at, done, last)
        on_progress(BackfillProgress(chain.id, first, last, done, events))
        at = Height(done + 1)
    if chain.id == network.stellar.id:
        rebuild(engine, network)


def _refuse_live_range(engine: Engine, chain: Chain, first: Height, last: Height) -> None:
    if not 0 <= first <= last:
        raise ConfigurationError(f"a backfill goes from low to high, not from {first} to {last}")
    with engine.connect() as conn:
        cursor = store.read_cursor(conn, chain.id)
    if cursor is not None and last > cursor.height - chain.confirmations:
        raise ConfigurationError(
            f"{chain.id}: the follower is at {cursor.height} and may still take back "
            f"{chain.confirmations} blocks; a backfill may reach up to "
            f"{cursor.height - chain.confirmations}, not {last}"
        )


def _read(engine: Engine, reader: ChainReader, chain: Chain, first: Height, last: Height) -> Range:
    with engine.connect() as conn:
        watched = [*chain.watched, *store.watched_addresses(conn, chain.id)]
    return reader.read(first, last, watched)


def _replace(engine: Engine, network: Network, chain: Chain, fresh: Range) -> None:
    first, last = fresh.blocks[0].height, fresh.blocks[-1].height
    decoded = [decode_kept(raw, chain) for raw in fresh.events]
    with engine.begin() as conn:
        _lock(conn, chain.id)
        _check_seams(conn, chain.id, fresh)
        before = store.remove_range(conn, chain.id, first, last)
        store.append(conn, fresh.blocks, decoded)
        after = [item.event for item in decoded if item.event is not None]
        refold_transfers(conn, network, *touched_movements([*before, *after]))


def _lock(conn: Connection, chain: ChainId) -> None:
    key = func.hashtext(chain)
    if not conn.scalar(select(func.pg_try_advisory_xact_lock(_BACKFILL_LOCKS, key))):
        raise FollowerConflict(f"another backfill of {chain} is running")


def _check_seams(conn: Connection, chain: ChainId, fresh: Range) -> None:
    """What is read must join what is stored on both sides."""
    below = store.block_at(conn, chain, Height(fresh.blocks[0].height - 1))
    above = store.block_at(conn, chain, Height(fresh.blocks[-1].height + 1))
    if below is not None and fresh.blocks[0].parent_hash != below.hash:
        raise InconsistentAnswer(f"{chain}: block {fresh.blocks[0].height} does not join below")
    if above is not None and above.parent_hash != fresh.blocks[-1].hash:
        raise InconsistentAnswer(f"{chain}: block {fresh.blocks[-1].height} does not join above")
