"""Rebuild of all projections from the facts, and comparison of stored rows with a refold.

A rebuild reads only facts, so its rows are equal byte for byte, whichever chain was read first and
whenever a process was killed.
"""

import logging
import time
from dataclasses import astuple, dataclass

from sqlalchemy import Connection, Engine, delete, text

from indexer.config.networks import Network
from indexer.facts.backfills import unfinished_backfills
from indexer.facts.rows import copy_rows
from indexer.facts.store import read_events
from indexer.movements.fold import Movement, MovementKey
from indexer.movements.mechanisms import KEY_FIELDS, affected_movements, fold_stored
from indexer.movements.store import read_movements
from indexer.orderbook.refold import Refold, book_history
from indexer.orderbook.store import BOOK_TABLES
from indexer.transfers.store import StateDifference, refold_all, state_differences
from warehouse_schema.daily import days_done
from warehouse_schema.identifiers import Height
from warehouse_schema.projections import movements

logger = logging.getLogger(__name__)

_MAX_LISTED = 20
_KEEPER_SECONDS = 30.0
"""A keeper folds a row at once, and after an outage of the database within a few seconds."""
_LOOK_SECONDS = 0.2
"""Between two looks, each a fold of a few transfers."""


@dataclass(frozen=True, slots=True)
class RebuildReport:
    """Numbers of a rebuild."""

    movements: int
    transfers: int
    events: int
    """Of the order book."""
    offers: int
    orders: int


def rebuild(engine: Engine, network: Network) -> RebuildReport:
    """Write every projection again from the facts, in one transaction.

    Readers see the old rows until it commits. Writers of facts are blocked: a range or attestation
    committed in between would be missing. All daily figures become due, because the rows they were
    folded from may have changed without a new fact.
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
    offers = book.book.state.totals.offer_count
    report = RebuildReport(len(folded), transfers, book.book.events, offers, book.orders)
    logger.info("rebuilt %s", report)
    return report


def rebuild_book(conn: Connection, network: Network) -> Refold:
    """Write the order book and its alarms again from the facts. Returns the fold.

    In the caller's transaction, which must block the chain's follower.
    """
    refold = _refold_book(conn, network)
    refold.replace_stored()
    refold.drop()
    return refold


def _refold_book(conn: Connection, network: Network) -> Refold:
    chain = network.stellar.id
    refold = Refold(conn, chain)
    refold.take(book_history(conn, chain))
    refold.finish()
    return refold


def reset_days(conn: Connection) -> None:
    """Make all daily figures due; waits for a running computation."""
    conn.execute(text("LOCK TABLE projections.days_done IN EXCLUSIVE MODE"))
    conn.execute(delete(days_done))


def differences(engine: Engine, network: Network) -> list[str]:
    """Where stored projections differ from a refold, in sentences; at most 20.

    Leaves out facts that an unfinished backfill has not folded yet: its movements, and the order
    book until the Stellar chain's is done. Reads one snapshot, so it may run beside ingestion.
    Transfers that the keeper has still to fold are looked at again, for up to `_KEEPER_SECONDS`.
    """
    found: list[str] = []
    states: list[StateDifference] = []
    snapshots = engine.execution_options(isolation_level="REPEATABLE READ")
    with snapshots.connect() as conn:
        backfills = unfinished_backfills(conn)
        unfolded: set[MovementKey] = set()
        for each in backfills:
            if each.folded < each.done:
                above = Height(each.folded + 1)
                events = read_events(conn, KEY_FIELDS, each.chain, above, each.done)
                unfolded |= affected_movements(events)
        folded = fold_all_movements(conn, network)
        expected, stored = (
            {row.id: row for row in rows if row.key not in unfolded}
            for rows in (folded, read_movements(conn))
        )
        for key in sorted(stored.keys() | expected.keys()):
            was, now = stored.get(key), expected.get(key)
            if was != now:
                values = f"stored {was and astuple(was)}, a refold gives {now and astuple(now)}"
                found.append(f"movement {key}: {values}")
        if not unfolded:
            states = state_differences(conn, network)
        if network.stellar.id not in {each.chain for each in backfills}:
            refold = _refold_book(conn, network)
            found += (
                f"{table.name}: stored {was}, a refold gives {refolded}"
                for table in BOOK_TABLES
                for was, refolded in refold.differences(table, _MAX_LISTED).first
            )
        conn.rollback()
    found += map(str, _without_folded(snapshots, network, states))
    return found[:_MAX_LISTED]


def _without_folded(
    snapshots: Engine, network: Network, states: list[StateDifference]
) -> list[StateDifference]:
    """Without those that the keeper has folded meanwhile.

    All are looked at again: the fold of one may change the rows of others.
    """
    deadline = time.monotonic() + _KEEPER_SECONDS
    while any(each.waits_for_keeper for each in states) and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)
        with snapshots.connect() as conn:
            states = state_differences(conn, network, [each.transfer for each in states])
    return states


def fold_all_movements(conn: Connection, network: Network) -> list[Movement]:
    """Every movement, folded from the facts, in order of id."""
    return sorted(fold_stored(conn, network), key=lambda row: row.id)
