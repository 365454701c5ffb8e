"""The projections from zero: written anew, or compared with what is stored.

Facts are all a rebuild reads, so the rows come out the same byte for byte, whichever chain was
read first and whenever a process was killed.
"""

import logging
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields

from sqlalchemy import Connection, Engine, delete, select, text

from indexer.bridges.cctp.events import MessageReceived, MessageSent
from indexer.config.networks import Network
from indexer.facts.backfills import Backfill, unfinished_backfills
from indexer.facts.messages import attested_burns, read_statuses
from indexer.facts.rows import copy_rows
from indexer.facts.store import read_events
from indexer.movements.fold import (
    BURN_EVENTS,
    MINT_EVENTS,
    MOVEMENT_EVENTS,
    OFT_EVENTS,
    Movement,
)
from indexer.movements.store import affected_movements, cctp_rows, oft_rows
from indexer.orderbook.refold import Refold, book_history
from indexer.orderbook.store import BOOK_TABLES
from indexer.transfers.store import refold_all, state_differences
from warehouse_schema.identifiers import Bytes32, ChainId, Height
from warehouse_schema.projections import days_done, movements

logger = logging.getLogger(__name__)

_COLUMNS = [movements.c[field.name] for field in fields(Movement)]
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class RebuildReport:
    """What a rebuild wrote."""

    movements: int
    transfers: int
    events: int
    """Of the order book."""
    offers: int
    orders: int


@dataclass(frozen=True, slots=True)
class BookReport:
    """What a rebuild of the order book folded and wrote."""

    events: int
    offers: int
    orders: int


def rebuild(engine: Engine, network: Network) -> RebuildReport:
    """Write every projection anew from the facts, in one transaction.

    Readers see the old rows until it commits. Whoever writes facts waits meanwhile: a range, or an
    attestation, that committed in between would be missing from what is written here. Every day's
    figures are due afterwards: what they were folded from may have changed without a new fact.
    """
    with engine.begin() as conn:
        reset_days(conn)
        for table in ("cursors", "blocks", "cctp_attestations", "message_status", "expiries"):
            conn.execute(text(f"LOCK TABLE facts.{table} IN SHARE MODE"))
        folded = fold_all_movements(conn, network)
        conn.execute(delete(movements))
        copy_rows(conn, movements, map(astuple, folded))
        transfers = refold_all(conn, network)
        book = rebuild_book(conn, network)
    report = RebuildReport(len(folded), transfers, book.events, book.offers, book.orders)
    logger.info("rebuilt %s", report)
    return report


def rebuild_book(conn: Connection, network: Network) -> BookReport:
    """Make the stored order book what the facts give, and its alarms those of that fold.

    In the caller's transaction, which keeps the chain's follower from committing meanwhile.
    """
    chain = network.stellar.id
    refold = Refold(conn, chain)
    refold.take(book_history(conn, chain))
    refold.finish()
    refold.replace_stored()
    refold.drop()
    return BookReport(refold.book.events, refold.book.state.totals.offer_count, refold.orders)


def reset_days(conn: Connection) -> None:
    """Let all daily figures be computed again; who computes some at the moment ends first."""
    conn.execute(text("LOCK TABLE projections.days_done IN EXCLUSIVE MODE"))
    conn.execute(delete(days_done))


def differences(engine: Engine, network: Network) -> list[str]:
    """Where what is stored is not what a refold gives, in sentences; empty when all is well.

    What a backfill under way has not folded yet is no difference: movements of facts that it folds
    at the end, and the order book until the Stellar chain's is done. Reads one snapshot, so that it
    may run beside ingestion.
    """
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as conn:
        backfills = unfinished_backfills(conn)
        unfolded = _unfolded(conn, backfills)
        folded = [row for row in fold_all_movements(conn, network) if row.group_key not in unfolded]
        rows = conn.execute(select(*_COLUMNS))
        expected = {row.id: astuple(row) for row in folded}
        stored = {row.id: tuple(row) for row in rows if row.group_key not in unfolded}
        found = [
            f"movement {key}: stored {stored.get(key)}, a refold gives {expected.get(key)}"
            for key in sorted(stored.keys() | expected.keys())
            if stored.get(key) != expected.get(key)
        ]
        if not unfolded:
            found += state_differences(conn, network)
        if network.stellar.id not in {each.chain for each in backfills}:
            found += _book_differences(conn, network.stellar.id)
        conn.rollback()
    return found[:_SHOWN]


def _unfolded(conn: Connection, backfills: Iterable[Backfill]) -> set[Bytes32]:
    """Burn keys and guids of what is committed and waits to be folded."""
    keys: set[Bytes32] = set()
    for each in backfills:
        if each.folded < each.done:
            above = Height(each.folded + 1)
            events = read_events(conn, MOVEMENT_EVENTS, each.chain, above, each.done)
            keys = keys.union(*affected_movements(events))
    return keys


def _book_differences(conn: Connection, chain: ChainId) -> list[str]:
    refold = Refold(conn, chain)
    refold.take(book_history(conn, chain))
    refold.finish()
    return [
        f"{table.name}: stored {stored}, a refold gives {refolded}"
        for table in BOOK_TABLES
        for stored, refolded in refold.differences(table, _SHOWN).first
    ]


def fold_all_movements(conn: Connection, network: Network) -> list[Movement]:
    """Every movement, folded from the facts alone, in order of id."""
    sending = list(read_events(conn, BURN_EVENTS))
    receiving = list(read_events(conn, MINT_EVENTS))
    keys: set[Bytes32] = {
        event.burn_key
        for event in (*sending, *receiving)
        if isinstance(event, MessageSent | MessageReceived) and event.burn_key is not None
    }
    said = read_statuses(conn)
    rows = [
        *cctp_rows(network, sending, receiving, keys, attested_burns(conn), said),
        *oft_rows(network, read_events(conn, OFT_EVENTS), said),
    ]
    return sorted(rows, key=lambda row: row.id)
