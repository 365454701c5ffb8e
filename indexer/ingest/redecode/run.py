"""Redecode: bring in new decoders or projections without ingesting again.

This build decodes the stored raw facts into shadow tables (`shadow_tables.py`), range by range,
while ingestion continues; compares them with the live tables; and swaps them in one transaction
together with the projections. Killed before that commit, the live tables are unchanged and the
redecode continues from its cursor.

    start → fill (repeatable) → check → swap        abandon, at any time before the swap

Without `start` no chain is redecoded: `check` and `swap` then concern projections only.
"""

import itertools
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import astuple, dataclass
from typing import Any

from sqlalchemy import Connection, Engine, Table

from indexer.chains.finality import final_by_depth
from indexer.config.networks import Chain, Network
from indexer.errors import ConfigurationError, FollowerConflict
from indexer.facts import store
from indexer.facts.cursors import block_followers, notify_changed, read_cursor
from indexer.facts.decoding import decode_event
from indexer.facts.sessions import (
    fences_itself,
    hold_lease,
    lock_timeout_as_conflict,
    read_one_snapshot,
)
from indexer.ingest.backfill_lease import busy_message
from indexer.ingest.rebuild import fold_all_movements, reset_days
from indexer.ingest.redecode import shadow_tables
from indexer.ingest.redecode.shadow_tables import AS_REVISED, TableDifference, TableReplaced
from indexer.movements.fold import MovementKey
from indexer.movements.mechanisms import KEY_FIELDS, affected_movements
from indexer.movements.store import read_movements, refold_movements
from indexer.orderbook import store as book_store
from indexer.orderbook.refold import Refold, book_history
from indexer.transfers.store import refold_all
from warehouse_schema import locks
from warehouse_schema.identifiers import MAX_HEIGHT, ChainId, Height
from warehouse_schema.metadata import PROJECTIONS
from warehouse_schema.projections import movements

logger = logging.getLogger(__name__)

_LEASE_TIMEOUT = 10.0
"""Seconds to wait for a backfill's range that is being written."""

EVENTS_A_RANGE = 2_000
"""Raw events decoded in one transaction."""

_MAX_LISTED = 3


@dataclass(frozen=True, slots=True)
class RedecodeProgress:
    """Height up to which a chain is redecoded, and up to which it can be before the swap."""

    chain: ChainId
    height: Height
    final: Height


@dataclass(frozen=True, slots=True)
class SwapCheck:
    """Changes that a swap would make, as of one snapshot."""

    filled: tuple[RedecodeProgress, ...]
    facts: Mapping[ChainId, Sequence[TableDifference]]
    projections: Sequence[TableDifference]

    def lines(self) -> Iterator[str]:
        """Lines for an operator: each table that differs, and its first rows."""
        in_chains = ((f" of {chain}", table) for chain, of in self.facts.items() for table in of)
        for where, table in (*in_chains, *(("", table) for table in self.projections)):
            yield (
                f"{table.table}{where}: {table.added} added, {table.removed} removed, "
                f"{table.changed} changed"
            )
            yield from (f"  {line}" for line in table.first)


@dataclass(frozen=True, slots=True)
class SwapResult:
    """Result of a swap."""

    facts: Mapping[ChainId, Sequence[TableReplaced]]
    movements: int
    """Movements refolded."""
    book: bool
    """True when the order book was written again."""
    paused: float
    """Seconds that ingestion was blocked."""

    def lines(self) -> Iterator[str]:
        """Lines for an operator."""
        for chain, tables in self.facts.items():
            for table in tables:
                yield f"{table.table} of {chain}: {table.removed} rows out, {table.added} in"
        book = "written anew" if self.book else "unchanged"
        yield f"{self.movements} movements refolded, order book {book}"
        yield f"ingestion waited {self.paused:.2f} s"


def start(owner: Engine, network: Network, chains: Sequence[ChainId]) -> None:
    """Create the shadow tables for these chains. Needs the engine of the database's owner.

    Raises `ConfigurationError` while another redecode is in progress, and for an unknown chain.
    """
    for chain in chains:
        network.chain(chain)
    with owner.begin() as conn:
        if shadow_tables.heights(conn):
            raise ConfigurationError("a redecode is in progress: swap it or abandon it first")
        shadow_tables.drop(conn)
        shadow_tables.create(conn, chains)
    logger.info("redecode started chains=%s", ",".join(chains))


def abandon(owner: Engine) -> None:
    """Drop the shadow tables. Needs the engine of the database's owner."""
    with owner.begin() as conn:
        shadow_tables.drop(conn)


# Filling.


def fill(
    engine: Engine, network: Network, chain_id: ChainId, *, events: int = EVENTS_A_RANGE
) -> Iterator[RedecodeProgress]:
    """Redecode a chain's raw facts up to the last finalized block.

    Continues where the last fill ended. Each range is one transaction with the cursor, committed
    before its progress is yielded. Raises `ConfigurationError` when the chain is not redecoded.
    """
    chain = network.chain(chain_id)
    with engine.begin() as conn:
        cursor = _cursor(conn, chain)
        # A backfill may have changed raw facts below the cursor.
        mismatch = shadow_tables.first_mismatch(conn, chain.id, cursor)
        if mismatch is not None:
            rewound = Height(mismatch - 1)
            logger.info("redecode rewound chain=%s from=%d to=%d", chain.id, cursor, rewound)
            shadow_tables.rewind_cursor(conn, chain.id, rewound)
    while True:
        with engine.begin() as conn:
            before = _cursor(conn, chain)
            final = max(before, _final(conn, chain))
            height = _decode_range(conn, chain, before, final, events)
        if height == before:
            return
        yield RedecodeProgress(chain.id, height, final)


def fill_all(engine: Engine, network: Network) -> Iterator[RedecodeProgress]:
    """Fill each chain of the redecode; none when it has not started."""
    with engine.connect() as conn:
        chains = shadow_tables.heights(conn)
    for chain in chains:
        yield from fill(engine, network, chain)


def _fill_and_log(engine: Engine, network: Network) -> None:
    for progress in fill_all(engine, network):
        logger.info(
            "redecode chain=%s at=%d of=%d", progress.chain, progress.height, progress.final
        )


def _cursor(conn: Connection, chain: Chain) -> Height:
    height = shadow_tables.lock_cursor(conn, chain.id)
    if height is None:
        raise ConfigurationError(f"no redecode of {chain.id} is in progress; start one")
    return height


def _final(conn: Connection, chain: Chain) -> Height:
    """The chain's last finalized height, as recorded or by depth."""
    cursor = read_cursor(conn, chain.id)
    if cursor is None:
        return shadow_tables.BELOW_FIRST
    by_depth = final_by_depth(chain, cursor.height)
    return by_depth if cursor.final_height is None else max(by_depth, cursor.final_height)


def _decode_range(
    conn: Connection, chain: Chain, after: Height, limit: Height, events: int
) -> Height:
    """Decode about `events` raw events above `after`. Returns the height, at most `limit`."""
    if after >= limit:
        return after
    last = shadow_tables.end_of_range(conn, chain.id, after, limit, events)
    raws = store.read_raw(conn, chain.id, Height(after + 1), last)
    shadow_tables.write(conn, chain.id, [decode_event(raw, chain) for raw in raws], last)
    return last


# Folding.


@dataclass(frozen=True, slots=True)
class _Folded:
    """The projections as they will be, from one snapshot of the facts as they will be."""

    final: Mapping[ChainId, Height]
    """By chain, the height above which facts may change until the swap."""
    affected: frozenset[MovementKey]
    """Movements whose stored rows differ, or with facts above `final`."""
    movements: TableDifference
    book: Refold


def _fold_snapshot(conn: Connection, network: Network) -> _Folded:
    """Fold the facts as they will be. The connection must read one snapshot."""
    heights = shadow_tables.heights(conn)
    if heights:
        conn.execution_options(schema_translate_map=AS_REVISED)
    final = {
        chain.id: min(_final(conn, chain), heights.get(chain.id, MAX_HEIGHT))
        for chain in network.chains
    }
    folded = fold_all_movements(conn, network)
    stored = read_movements(conn)
    changed = {*folded} ^ {*stored}
    affected = _keys_above(conn, final) | {row.key for row in changed}
    chain = network.stellar.id
    book = Refold(conn, chain)
    book.take(book_history(conn, chain, last=final[chain]))
    return _Folded(
        final,
        frozenset(affected),
        _difference(
            movements,
            {row.id: astuple(row) for row in stored},
            {row.id: astuple(row) for row in folded},
        ),
        book,
    )


def _keys_above(conn: Connection, final: Mapping[ChainId, Height]) -> set[MovementKey]:
    """Movements with events above these heights."""
    above = (
        store.read_events(conn, KEY_FIELDS, chain, Height(height + 1))
        for chain, height in final.items()
    )
    return affected_movements(itertools.chain.from_iterable(above))


def _finish_book(conn: Connection, network: Network, refold: Refold) -> None:
    """Fold the book up to the live cursor."""
    as_of = refold.book.state.as_of
    first = Height(0 if as_of is None else as_of.height + 1)
    refold.take(book_history(conn, network.stellar.id, first))
    refold.finish()


def _difference(
    table: Table, old: Mapping[Any, tuple[Any, ...]], new: Mapping[Any, tuple[Any, ...]]
) -> TableDifference:
    """Difference of rows, given by key with all of the table's columns."""
    added, removed = new.keys() - old.keys(), old.keys() - new.keys()
    changed = {key for key in old.keys() & new.keys() if old[key] != new[key]}
    first = sorted(added | removed | changed, key=str)[:_MAX_LISTED]
    return TableDifference(
        f"{PROJECTIONS}.{table.name}",
        added=len(added),
        removed=len(removed),
        changed=len(changed),
        first=tuple(_describe(table, old.get(key), new.get(key)) for key in first),
    )


def _describe(table: Table, old: tuple[Any, ...] | None, new: tuple[Any, ...] | None) -> str:
    names = [column.name for column in table.columns]
    if old is not None and new is not None:
        pairs = zip(names, old, new, strict=True)
        key = [
            value for column, value in zip(table.columns, new, strict=True) if column.primary_key
        ]
        changes = (f"{name} {was!r} → {is_!r}" for name, was, is_ in pairs if was != is_)
        return f"changed {'/'.join(map(str, key))}: " + ", ".join(changes)
    row = zip(names, new or old or (), strict=True)
    verdict = "removed" if new is None else "added"
    return f"{verdict} " + ", ".join(
        f"{name} {value!r}" for name, value in row if value is not None
    )


# Checking.


def check(engine: Engine, network: Network) -> SwapCheck:
    """Changes that a swap would make; ingestion continues meanwhile.

    Fills first what became final since the last fill. Raises `FollowerConflict` when a backfill
    has changed raw facts since.
    """
    _fill_and_log(engine, network)
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as conn:
        heights = shadow_tables.heights(conn)
        for chain, height in heights.items():
            _check_unchanged(conn, chain, height)
        filled = [
            RedecodeProgress(chain, height, max(height, _final(conn, network.chain(chain))))
            for chain, height in heights.items()
        ]
        facts = {
            chain: shadow_tables.differences(conn, chain, height)
            for chain, height in heights.items()
        }
        folded = _fold_snapshot(conn, network)
        _finish_book(conn, network, folded.book)
        projections = [folded.movements, *_book_differences(folded.book)]
        conn.rollback()
    return SwapCheck(tuple(filled), facts, [item for item in projections if item.first])


def _book_differences(refold: Refold) -> Iterator[TableDifference]:
    for table in book_store.BOOK_TABLES:
        found = refold.differences(table, _MAX_LISTED)
        yield TableDifference(
            f"{PROJECTIONS}.{table.name}",
            added=found.added,
            removed=found.removed,
            changed=found.changed,
            first=tuple(_describe(table, *pair) for pair in found.first),
        )


# Swapping.


def swap(engine: Engine, network: Network) -> SwapResult:
    """Replace the live decoded tables and projections by those of this build.

    Fills and folds up to finalized heights first, beside ingestion. Then one transaction, which
    blocks ingestion, decodes the rest, writes the rows that differ, refolds movements and order
    book, and notifies. Raises `FollowerConflict` when a lock is not free in time; then, as after
    any error, nothing has changed.
    """
    busy = "a backfill or a long range is at work; nothing changed"
    with lock_timeout_as_conflict(busy), ExitStack() as stack:
        conn = stack.enter_context(engine.connect())
        for chain in network.chains:
            # Final facts stay: a backfill's next range is refused, and can be started again.
            lease = locks.BACKFILL, chain.id, busy_message(chain.id), _LEASE_TIMEOUT
            stack.enter_context(hold_lease(conn, *lease))
        _fill_and_log(engine, network)
        with fences_itself(conn):
            read_one_snapshot(conn)
            folded = _fold_snapshot(conn, network)
            conn.execution_options(schema_translate_map=None)
        with conn.begin():
            block_followers(conn)
            swapped = _swap(conn, network, folded)
            folded.book.drop()
    logger.info("swapped %s", swapped)
    return swapped


def _swap(conn: Connection, network: Network, folded: _Folded) -> SwapResult:
    began = time.monotonic()
    reset_days(conn)
    before = _keys_above(conn, folded.final)
    facts = {
        chain: _put_in_place(conn, network.chain(chain)) for chain in shadow_tables.heights(conn)
    }
    affected = folded.affected | before | _keys_above(conn, folded.final)
    refold_movements(conn, network, affected)
    refold_all(conn, network)
    is_new_book = _replace_book(conn, network, folded.book)
    if facts:
        shadow_tables.finish(conn)
    for chain in network.chains:
        notify_changed(conn, chain.id)
    return SwapResult(
        facts=facts,
        movements=len(affected),
        book=is_new_book,
        paused=time.monotonic() - began,
    )


def _check_unchanged(conn: Connection, chain: ChainId, height: Height) -> None:
    if shadow_tables.first_mismatch(conn, chain, height) is not None:
        raise FollowerConflict(f"{chain}: raw facts changed during the redecode; try again")


def _put_in_place(conn: Connection, chain: Chain) -> list[TableReplaced]:
    """Decode the rest of a chain, then swap its rows."""
    live = read_cursor(conn, chain.id)
    height = _cursor(conn, chain)
    _check_unchanged(conn, chain.id, height)
    while live is not None and height < live.height:
        height = _decode_range(conn, chain, height, live.height, EVENTS_A_RANGE)
    return shadow_tables.put_in_place(conn, chain.id)


def _replace_book(conn: Connection, network: Network, refold: Refold) -> bool:
    """Write the order book's rows that differ. Returns True if there were any."""
    _finish_book(conn, network, refold)
    return refold.replace_stored()
