"""Retry of quarantined ledgers.

A ledger is decoded by this build from its stored bytes, or on request from the chain's current
source. The result is committed as a backfill of that one ledger would be: facts, movements, order
book, outbox and the end of the quarantine in one transaction.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import Engine
from sqlalchemy.exc import DataError, IntegrityError, OperationalError

from indexer.chains.ports import ChainReader, RawEvent
from indexer.chains.stellar.filters import requested_events
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
from indexer.facts.cursors import block_followers, notify_changed
from indexer.facts.decoding import decode_events
from indexer.facts.quarantine import QuarantinedLedger, QuarantineState
from indexer.facts.sessions import lock_timeout_as_conflict
from indexer.facts.watchlist import StoredWatchlist
from indexer.ingest.backfill_lease import backfill_lease
from indexer.ingest.rebuild import rebuild_book
from indexer.loops import is_transient
from indexer.movements.mechanisms import affected_movements
from indexer.movements.store import refold_movements
from indexer.orderbook.event_folds import FOLDS
from indexer.transfers.store import refold_affected
from warehouse_schema.identifiers import ChainId

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RetryResult:
    """Result of retrying one ledger."""

    ledger: QuarantinedLedger
    events: int
    """Raw events stored of it."""
    failure: str | None
    """Why it stays in quarantine; None when it is out."""

    def __str__(self) -> str:
        """One line for an operator."""
        where = f"{self.ledger.chain} {self.ledger.height}"
        if self.failure is not None:
            return f"{where} stays in quarantine: {self.failure}"
        return f"{where} is out of quarantine, {self.events} events"


@dataclass(frozen=True, slots=True)
class _Failure:
    state: QuarantineState
    reason: str


def retry_untried(engine: Engine, network: Network, chain: ChainId) -> None:
    """Retry the ledgers that this build has not tried, from their bytes, before a follower starts.

    One query when there are none. A failure does not stop the follower.
    """
    try:
        with engine.connect() as conn:
            ledgers = quarantine.list_ledgers(conn, chain, untried_by=decoder_build())
        for result in retry(engine, network, ledgers):
            logger.info("%s", result)
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
    """Retry ledgers from their bytes; with a reader, then from its source.

    Each is committed before its result is yielded. A ledger that left quarantine meanwhile is
    skipped. Raises `FollowerConflict` beside a backfill or a swap.
    """
    for ledger in ledgers:
        result = _retry(engine, network, ledger, reader)
        if result is not None:
            yield result


def _retry(
    engine: Engine, network: Network, ledger: QuarantinedLedger, reader: ChainReader | None
) -> RetryResult | None:
    with engine.connect() as conn:
        raw = quarantine.read_bytes(conn, ledger.chain, ledger.height)
    if raw is None:
        return None
    watched = StoredWatchlist(network.stellar, engine.begin)
    found = _read_stored(network, ledger, raw, watched)
    if isinstance(found, _Failure) and reader is not None:
        found = _read_source(reader, ledger, watched, found)
    try:
        if not isinstance(found, _Failure):
            return _commit(engine, network, ledger, found)
    except (IntegrityError, DataError) as error:
        found = _Failure(ledger.state, f"the warehouse refuses its rows: {error.orig}")
    with engine.begin() as conn:
        quarantine.record_retry(
            conn, ledger.chain, ledger.height, found.state, found.reason, decoder_build()
        )
    return RetryResult(ledger, 0, found.reason)


def _read_stored(
    network: Network, ledger: QuarantinedLedger, raw: bytes, watched: Watched
) -> Sequence[RawEvent] | _Failure:
    """The ledger's events from its stored bytes."""
    chain = network.stellar
    try:
        decoded, _ = decode_meta(raw, chain)
    except (UndecodableLedger, UnsupportedProtocol) as error:
        return _Failure("undecodable", str(error))
    except InconsistentAnswer as error:
        return _Failure("damaged", str(error))
    if decoded.block.hash != ledger.block_hash:
        return _Failure("damaged", f"these are the bytes of ledger {decoded.block.hash}")
    return requested_events(chain, watched, decoded.events)


def _read_source(
    reader: ChainReader, ledger: QuarantinedLedger, watched: Watched, before: _Failure
) -> Sequence[RawEvent] | _Failure:
    """The ledger's events, read again; `before` is the failure of its stored bytes."""
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


def _commit(
    engine: Engine, network: Network, ledger: QuarantinedLedger, events: Sequence[RawEvent]
) -> RetryResult | None:
    chain, height = network.chain(ledger.chain), ledger.height
    busy = "others write for too long to wait; nothing changed"
    with (
        lock_timeout_as_conflict(busy),
        backfill_lease(engine, chain.id) as conn,
        conn.begin(),
    ):
        # Their commits would be missing from the rebuilt order book.
        block_followers(conn)
        block = store.block_at(conn, chain.id, height)
        if block is None or quarantine.read_bytes(conn, chain.id, height) is None:
            return None
        store.remove_range(conn, chain.id, height, height)
        items = decode_events(events, chain)
        store.append(conn, [block], items)
        quarantine.release_ledger(conn, chain.id, height)
        decoded = [item.event for item in items if item.event is not None]
        refold_movements(conn, network, affected_movements(decoded))
        refold_affected(conn, network, decoded)
        if any(type(event) in FOLDS for event in decoded):
            rebuild_book(conn, network)
        notify_changed(conn, chain.id)
    return RetryResult(ledger, len(items), None)
