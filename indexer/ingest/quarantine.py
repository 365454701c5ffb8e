"""Ledgers that could not be decoded, tried again.

What a follower could not decode stands in quarantine with its bytes (`facts/quarantine.py`). Here
it is decoded by this build from these bytes or, when somebody asks for it, from wherever the chain
is read now. What comes of it is committed as a backfill of that one ledger would be: facts, the
movements they touch, the order book, the socket's messages, and the end of the quarantine are one
transaction. Killed anywhere before, the ledger is in quarantine as it was.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from psycopg.errors import LockNotAvailable
from sqlalchemy import Connection, Engine, func, select, text
from sqlalchemy.exc import DataError, IntegrityError, OperationalError

from indexer.chains.ports import ChainReader, RawEvent
from indexer.chains.stellar.filters import wanted_events
from indexer.chains.stellar.xdr.close_meta import decode_meta
from indexer.chains.watchlist import Watched
from indexer.config.networks import Network
from indexer.decode.build import decoder_build
from indexer.errors import (
    FollowerConflict,
    InconsistentAnswer,
    PermanentChainError,
    RetryableChainError,
    UndecodableLedger,
    UnsupportedProtocol,
)
from indexer.facts import quarantine, store
from indexer.facts.cursors import read_cursor
from indexer.facts.decoding import decode_events
from indexer.facts.quarantine import QuarantinedLedger, QuarantineState
from indexer.facts.watchlist import StoredWatchlist
from indexer.ingest.rebuild import rebuild_book
from indexer.loops import is_transient
from indexer.movements.store import affected_movements, refold_movements
from indexer.orderbook.event_folds import FOLDS
from indexer.transfers.store import refold_affected
from warehouse_schema import channels
from warehouse_schema.identifiers import ChainId

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RetryResult:
    """What became of one ledger that was tried again."""

    ledger: QuarantinedLedger
    events: int
    """Raw events of it that are stored now."""
    still: str | None
    """Why it stays in quarantine; None when it is out."""

    def __str__(self) -> str:
        """One line for an operator."""
        where = f"{self.ledger.chain} {self.ledger.height}"
        if self.still is not None:
            return f"{where} stays in quarantine: {self.still}"
        return f"{where} is out of quarantine, {self.events} events"


@dataclass(frozen=True, slots=True)
class _Failure:
    state: QuarantineState
    reason: str


def retry_untried(engine: Engine, network: Network, chain: ChainId) -> None:
    """Before a follower begins: try what this build has not tried, from the bytes that are kept.

    Costs one question when there is nothing. Whatever comes of it, the chain can be followed.
    """
    try:
        with engine.connect() as conn:
            ledgers = quarantine.list_ledgers(conn, chain, untried_by=decoder_build())
        for trial in retry(engine, network, ledgers):
            logger.info("%s", trial)
    except FollowerConflict as error:
        logger.warning("quarantine waits chain=%s: %s", chain, error)
    except OperationalError as error:
        if not is_transient(error):
            raise
        logger.warning("quarantine waits chain=%s: %s", chain, error.orig)


def retry(
    engine: Engine,
    network: Network,
    ledgers: Sequence[QuarantinedLedger],
    reader: ChainReader | None = None,
) -> Iterator[RetryResult]:
    """Try ledgers again from the bytes that are kept; then, with a reader, from their source.

    Each is committed before it is told of. One that somebody else has taken out meanwhile is passed
    over. Raises `FollowerConflict` beside a backfill or a swap.
    """
    for ledger in ledgers:
        trial = _retry(engine, network, ledger, reader)
        if trial is not None:
            yield trial


def _retry(
    engine: Engine, network: Network, ledger: QuarantinedLedger, reader: ChainReader | None
) -> RetryResult | None:
    with engine.connect() as conn:
        raw = quarantine.read_bytes(conn, ledger.chain, ledger.height)
    if raw is None:
        return None
    watched = StoredWatchlist.of(engine, network.stellar)
    found = _from_bytes(network, ledger, raw, watched)
    if isinstance(found, _Failure) and reader is not None:
        found = _from_source(reader, ledger, watched, found)
    try:
        if not isinstance(found, _Failure):
            return _let_out(engine, network, ledger, found)
    except (IntegrityError, DataError) as error:
        found = _Failure(ledger.state, f"the warehouse refuses its rows: {error.orig}")
    with engine.begin() as conn:
        quarantine.record_retry(
            conn, ledger.chain, ledger.height, found.state, found.reason, decoder_build()
        )
    return RetryResult(ledger, 0, found.reason)


def _from_bytes(
    network: Network, ledger: QuarantinedLedger, raw: bytes, watched: Watched
) -> Sequence[RawEvent] | _Failure:
    chain = network.stellar
    try:
        decoded, _ = decode_meta(raw, chain)
    except (UndecodableLedger, UnsupportedProtocol) as error:
        return _Failure("undecodable", str(error))
    except InconsistentAnswer as error:
        return _Failure("damaged", str(error))
    if decoded.block.hash != ledger.block_hash:
        return _Failure("damaged", f"these are the bytes of ledger {decoded.block.hash}")
    return wanted_events(chain, watched, decoded.events)


def _from_source(
    reader: ChainReader, ledger: QuarantinedLedger, watched: Watched, before: _Failure
) -> Sequence[RawEvent] | _Failure:
    """The ledger's events, read anew; `before` is why they could not be had from its bytes."""
    try:
        found = reader.read(ledger.height, ledger.height, watched)
    except (RetryableChainError, PermanentChainError) as error:
        return _Failure(before.state, f"{before.reason}; read anew: {error}")
    (block,) = found.blocks
    if block.hash != ledger.block_hash:
        return _Failure(before.state, f"{before.reason}; read anew it is another: {block.hash}")
    for unread in found.unread:
        return _Failure("undecodable", unread.reason)
    return found.events


def _let_out(
    engine: Engine, network: Network, ledger: QuarantinedLedger, events: Sequence[RawEvent]
) -> RetryResult | None:
    # Here, not above: it brings what reads columns, and every follower that starts would wait.
    from indexer.ingest.backfill.commit import backfill_lease

    chain, height = network.chain(ledger.chain), ledger.height
    with _told_if_busy(), backfill_lease(engine, chain.id) as conn, conn.begin():
        # What the follower commits from here on would be missing from the order book.
        conn.execute(text("LOCK TABLE facts.cursors IN SHARE MODE"))
        block = store.block_at(conn, chain.id, height)
        if block is None or quarantine.read_bytes(conn, chain.id, height) is None:
            return None
        store.remove_range(conn, chain.id, height, height)
        kept = decode_events(events, chain)
        store.append(conn, [block], kept)
        quarantine.release_ledger(conn, chain.id, height)
        decoded = [item.event for item in kept if item.event is not None]
        refold_movements(conn, network, *affected_movements(decoded))
        refold_affected(conn, network, decoded)
        if any(type(event) in FOLDS for event in decoded):
            rebuild_book(conn, network)
        _notify(conn, chain.id)
    return RetryResult(ledger, len(kept), None)


@contextmanager
def _told_if_busy() -> Iterator[None]:
    try:
        yield
    except OperationalError as error:
        if not isinstance(error.orig, LockNotAvailable):
            raise
        raise FollowerConflict("others write for too long to wait; nothing changed") from error


def _notify(conn: Connection, chain: ChainId) -> None:
    cursor = read_cursor(conn, chain)
    if cursor is not None:
        conn.execute(select(func.pg_notify(channels.INGESTED, f"{chain}:{cursor.height}")))
