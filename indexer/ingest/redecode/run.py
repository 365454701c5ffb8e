"""A new or changed decoder or projection, brought in without starting from zero.

Raw facts stay. What this build decodes from them is written beside the live tables
(`shadow_tables.py`), range by range under a cursor of its own, while ingestion goes on; compared
with what is live; and put in its place in one transaction, together with the projections. Killed
anywhere before that commit, the live side is as it was and the revision goes on from its cursor.

    start → fill (again at any time) → check → swap        abandon, at any time before the swap

A revision that no `start` began has no chains to decode anew: then `check` and `swap` are about
projections alone.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, fields
from typing import Any

from psycopg.errors import LockNotAvailable
from sqlalchemy import Connection, Engine, Table, func, select, text
from sqlalchemy.exc import OperationalError

from indexer.config.networks import Chain, Network
from indexer.errors import ConfigurationError, FollowerConflict
from indexer.facts import store
from indexer.facts.cursors import read_cursor
from indexer.facts.decoding import decode_event
from indexer.ingest.backfill.commit import take_backfill_lease
from indexer.ingest.rebuild import fold_all_movements, reset_days
from indexer.ingest.redecode import shadow_tables
from indexer.ingest.redecode.shadow_tables import AS_REVISED, TableDifference, TableReplaced
from indexer.movements.fold import MOVEMENT_EVENTS, Movement
from indexer.movements.store import affected_movements, refold_movements
from indexer.orderbook import store as book_store
from indexer.orderbook.refold import Refold, book_history
from indexer.transfers.store import refold_all
from warehouse_schema import channels, locks
from warehouse_schema.identifiers import Bytes32, ChainId, Height
from warehouse_schema.leases import end_lease
from warehouse_schema.metadata import PROJECTIONS
from warehouse_schema.projections import movements

logger = logging.getLogger(__name__)

_PATIENCE = 10.0
"""Seconds to wait for a backfill's range that is being written."""

EVENTS_A_RANGE = 2_000
"""Raw events decoded in one transaction."""

_MOVEMENT_COLUMNS = [movements.c[field.name] for field in fields(Movement)]
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class RedecodeProgress:
    """How far a chain is decoded anew, and up to where it can be before the swap."""

    chain: ChainId
    height: Height
    final: Height


@dataclass(frozen=True, slots=True)
class SwapCheck:
    """What a swap would change, as of one snapshot."""

    filled: tuple[RedecodeProgress, ...]
    facts: Mapping[ChainId, Sequence[TableDifference]]
    projections: Sequence[TableDifference]

    def lines(self) -> Iterator[str]:
        """For an operator: each table that differs, and the first of its rows."""
        in_chains = ((f" of {chain}", table) for chain, of in self.facts.items() for table in of)
        for where, table in (*in_chains, *(("", table) for table in self.projections)):
            yield (
                f"{table.table}{where}: {table.added} added, {table.removed} removed, "
                f"{table.changed} changed"
            )
            yield from (f"  {line}" for line in table.first)


@dataclass(frozen=True, slots=True)
class SwapResult:
    """What a swap did."""

    facts: Mapping[ChainId, Sequence[TableReplaced]]
    movements: int
    """Movements refolded."""
    book: bool
    """Whether the order book was written anew."""
    paused: float
    """Seconds that ingestion waited."""

    def lines(self) -> Iterator[str]:
        """For an operator."""
        for chain, tables in self.facts.items():
            for table in tables:
                yield f"{table.table} of {chain}: {table.removed} rows out, {table.added} in"
        book = "written anew" if self.book else "unchanged"
        yield f"{self.movements} movements refolded, order book {book}"
        yield f"ingestion waited {self.paused:.2f} s"


def start(owner: Engine, network: Network, chains: Sequence[ChainId]) -> None:
    """Make room for a revision of these chains. Needs the engine of the database's owner.

    Raises `ConfigurationError` while another revision is under way, and for an unknown chain.
    """
    for chain in chains:
        network.chain(chain)
    with owner.begin() as conn:
        if shadow_tables.heights(conn):
            raise ConfigurationError("a revision is under way: swap it or abandon it first")
        shadow_tables.drop(conn)
        shadow_tables.create(conn, chains)
    logger.info("revision started chains=%s", ",".join(chains))


def abandon(owner: Engine) -> None:
    """Drop what `start` made. Live tables do not notice. Needs the database's owner."""
    with owner.begin() as conn:
        shadow_tables.drop(conn)


# Filling.


def fill(
    engine: Engine, network: Network, chain_id: ChainId, *, events: int = EVENTS_A_RANGE
) -> Iterator[RedecodeProgress]:
    """Decode a chain's raw facts anew, up to what the chain can no longer take back.

    Goes on where the last fill ended. Each range and the revision's cursor are one transaction,
    committed before it is told of. Raises `ConfigurationError` when the revision does not have the
    chain.
    """
    chain = network.chain(chain_id)
    with engine.begin() as conn:
        _meet_raw_facts(conn, chain)
    while True:
        with engine.begin() as conn:
            before = _cursor(conn, chain)
            final = max(before, _final(conn, chain))
            height = _decode_range(conn, chain, before, final, events)
        if height == before:
            return
        yield RedecodeProgress(chain.id, height, final)


def fill_all(engine: Engine, network: Network) -> Iterator[RedecodeProgress]:
    """Fill each chain of the revision; nothing when none is under way."""
    with engine.connect() as conn:
        revised = shadow_tables.heights(conn)
    for chain in revised:
        yield from fill(engine, network, chain)


def _catch_up(engine: Engine, network: Network) -> None:
    for progress in fill_all(engine, network):
        logger.info(
            "revision chain=%s at=%d of=%d", progress.chain, progress.height, progress.final
        )


def _cursor(conn: Connection, chain: Chain) -> Height:
    height = shadow_tables.lock_cursor(conn, chain.id)
    if height is None:
        raise ConfigurationError(f"no revision of {chain.id} is under way; start one")
    return height


def _final(conn: Connection, chain: Chain) -> Height:
    """The last height below which the live chain can take nothing back."""
    cursor = read_cursor(conn, chain.id)
    if cursor is None:
        return shadow_tables.BELOW_FIRST
    by_depth = Height(cursor.height - chain.confirmations)
    return by_depth if cursor.final_height is None else max(by_depth, cursor.final_height)


def _meet_raw_facts(conn: Connection, chain: Chain) -> None:
    """Go back to where raw facts changed beneath the revision: a backfill, as a rule."""
    cursor = _cursor(conn, chain)
    astray = shadow_tables.first_mismatch(conn, chain.id, cursor)
    if astray is not None:
        logger.info("revision chain=%s goes back from=%d to=%d", chain.id, cursor, astray - 1)
        shadow_tables.rewind_cursor(conn, chain.id, Height(astray - 1))


def _decode_range(
    conn: Connection, chain: Chain, after: Height, limit: Height, events: int
) -> Height:
    """Decode about so many raw events above `after`; the height reached, at most `limit`."""
    if after >= limit:
        return after
    last = shadow_tables.end_of_range(conn, chain.id, after, limit, events)
    raws = store.read_raw(conn, chain.id, Height(after + 1), last)
    shadow_tables.write(conn, chain.id, [decode_event(raw, chain) for raw in raws], last)
    return last


# Folding beside.


@dataclass(frozen=True, slots=True)
class _Beside:
    """What the projections will be, folded in one snapshot of the facts as they will be."""

    final: Mapping[ChainId, Height]
    """Up to where the fold rests on each chain; above it facts may change until the swap."""
    burn_keys: frozenset[Bytes32]
    guids: frozenset[Bytes32]
    """Movements whose rows differ from the fold, or that have facts above `final`."""
    movements: TableDifference
    book: Refold


def _fold_beside(conn: Connection, network: Network) -> _Beside:
    """Fold the facts as they will be. The connection reads one snapshot."""
    revised = shadow_tables.heights(conn)
    if revised:
        conn.execution_options(schema_translate_map=AS_REVISED)
    final = {
        chain.id: min(_final(conn, chain), revised.get(chain.id, store.MAX_HEIGHT))
        for chain in network.chains
    }
    folded = fold_all_movements(conn, network)
    stored = [Movement(**row._asdict()) for row in conn.execute(select(*_MOVEMENT_COLUMNS))]
    wrong = {*folded} ^ {*stored}
    burn_keys, guids = _touched_above(conn, final)
    return _Beside(
        final,
        frozenset(burn_keys | {Bytes32(row.group_key) for row in wrong if row.mechanism == "cctp"}),
        frozenset(guids | {Bytes32(row.group_key) for row in wrong if row.mechanism == "oft"}),
        _difference(
            movements,
            {row.id: astuple(row) for row in stored},
            {row.id: astuple(row) for row in folded},
        ),
        _fold_book(conn, network, final[network.stellar.id]),
    )


def _touched_above(
    conn: Connection, final: Mapping[ChainId, Height]
) -> tuple[set[Bytes32], set[Bytes32]]:
    """Burn keys and guids of events above these heights."""
    burn_keys: set[Bytes32] = set()
    guids: set[Bytes32] = set()
    for chain, height in final.items():
        above = affected_movements(
            store.read_events(conn, MOVEMENT_EVENTS, chain, Height(height + 1))
        )
        burn_keys |= above[0]
        guids |= above[1]
    return burn_keys, guids


def _fold_book(conn: Connection, network: Network, upto: Height) -> Refold:
    chain = network.stellar.id
    refold = Refold(conn, chain)
    refold.take(book_history(conn, chain, last=upto))
    return refold


def _finish_book(conn: Connection, network: Network, refold: Refold) -> None:
    """Move a book on to the live cursor, and work it out as of there."""
    as_of = refold.book.state.as_of
    first = Height(0 if as_of is None else as_of.height + 1)
    refold.take(book_history(conn, network.stellar.id, first))
    refold.finish()


def _difference(
    table: Table, old: Mapping[Any, tuple[Any, ...]], new: Mapping[Any, tuple[Any, ...]]
) -> TableDifference:
    """Rows of all the table's columns, by key."""
    added, removed = new.keys() - old.keys(), old.keys() - new.keys()
    changed = {key for key in old.keys() & new.keys() if old[key] != new[key]}
    first = sorted(added | removed | changed, key=str)[:_SHOWN]
    return TableDifference(
        f"{PROJECTIONS}.{table.name}",
        added=len(added),
        removed=len(removed),
        changed=len(changed),
        first=tuple(_in_words(table, old.get(key), new.get(key)) for key in first),
    )


def _in_words(table: Table, old: tuple[Any, ...] | None, new: tuple[Any, ...] | None) -> str:
    names = [column.name for column in table.columns]
    if old is not None and new is not None:
        pairs = zip(names, old, new, strict=True)
        key = [
            value for column, value in zip(table.columns, new, strict=True) if column.primary_key
        ]
        told = (f"{name} {was!r} → {is_!r}" for name, was, is_ in pairs if was != is_)
        return f"changed {'/'.join(map(str, key))}: " + ", ".join(told)
    row = zip(names, new or old or (), strict=True)
    verdict = "removed" if new is None else "added"
    return f"{verdict} " + ", ".join(
        f"{name} {value!r}" for name, value in row if value is not None
    )


# Checking.


def check(engine: Engine, network: Network) -> SwapCheck:
    """What a swap would change, as of one snapshot; ingestion goes on meanwhile.

    Fills first what has become final since the last fill.
    """
    _catch_up(engine, network)
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as conn:
        heights = shadow_tables.heights(conn)
        filled = [
            RedecodeProgress(chain, height, max(height, _final(conn, network.chain(chain))))
            for chain, height in heights.items()
        ]
        facts = {
            chain: shadow_tables.differences(conn, chain, height)
            for chain, height in heights.items()
        }
        beside = _fold_beside(conn, network)
        _finish_book(conn, network, beside.book)
        projections = [beside.movements, *_book_differences(beside.book)]
        conn.rollback()
    return SwapCheck(tuple(filled), facts, [item for item in projections if item.first])


def _book_differences(refold: Refold) -> Iterator[TableDifference]:
    for table in book_store.BOOK_TABLES:
        found = refold.differences(table, _SHOWN)
        yield TableDifference(
            f"{PROJECTIONS}.{table.name}",
            added=found.added,
            removed=found.removed,
            changed=found.changed,
            first=tuple(_in_words(table, *pair) for pair in found.first),
        )


# Swapping.


def swap(engine: Engine, network: Network) -> SwapResult:
    """Put the revision and the projections of this build in the place of the live ones.

    Filling and folding up to what is final happens first, beside ingestion. Then, in one
    transaction that ingestion waits for: what came since is decoded, the decoded tables get the
    rows that differ, the movements and the order book are brought up to them, and the socket's
    clients are sent what changed for them. Raises `FollowerConflict` when others write for too long
    to wait for; then, as after any error, nothing was changed.
    """
    with _told_if_busy(), _no_backfill(engine, network) as conn:
        _catch_up(engine, network)
        with conn.begin():
            conn.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))
            beside = _fold_beside(conn, network)
            conn.execution_options(schema_translate_map=None)
        with conn.begin():
            conn.execute(text("LOCK TABLE facts.cursors IN SHARE MODE"))
            swapped = _swap(conn, network, beside)
            beside.book.drop()
    logger.info("swapped %s", swapped)
    return swapped


def _swap(conn: Connection, network: Network, beside: _Beside) -> SwapResult:
    began = time.monotonic()
    reset_days(conn)
    before = _touched_above(conn, beside.final)
    facts = {
        chain: _put_in_place(conn, network.chain(chain)) for chain in shadow_tables.heights(conn)
    }
    after = _touched_above(conn, beside.final)
    burn_keys = beside.burn_keys | before[0] | after[0]
    guids = beside.guids | before[1] | after[1]
    refold_movements(conn, network, burn_keys, guids)
    refold_all(conn, network)
    is_new_book = _replace_book(conn, network, beside.book)
    if facts:
        shadow_tables.finish(conn)
    _notify(conn, network)
    return SwapResult(
        facts=facts,
        movements=len(burn_keys) + len(guids),
        book=is_new_book,
        paused=time.monotonic() - began,
    )


def _put_in_place(conn: Connection, chain: Chain) -> list[TableReplaced]:
    """Decode a chain's last stretch, then swap its rows."""
    live = read_cursor(conn, chain.id)
    height = _cursor(conn, chain)
    if shadow_tables.first_mismatch(conn, chain.id, height) is not None:
        raise FollowerConflict(f"{chain.id}: raw facts changed beneath the revision; swap again")
    while live is not None and height < live.height:
        height = _decode_range(conn, chain, height, live.height, EVENTS_A_RANGE)
    return shadow_tables.put_in_place(conn, chain.id)


def _replace_book(conn: Connection, network: Network, refold: Refold) -> bool:
    """Write of the book what is not as stored; whether there was any."""
    _finish_book(conn, network, refold)
    return refold.replace_stored()


def _notify(conn: Connection, network: Network) -> None:
    for chain in network.chains:
        cursor = read_cursor(conn, chain.id)
        if cursor is not None:
            payload = f"{chain.id}:{cursor.height}"
            conn.execute(select(func.pg_notify(channels.INGESTED, payload)))


@contextmanager
def _told_if_busy() -> Iterator[None]:
    try:
        yield
    except OperationalError as error:
        if not isinstance(error.orig, LockNotAvailable):
            raise
        raise FollowerConflict("a backfill or a long range is at work; nothing changed") from error


@contextmanager
def _no_backfill(engine: Engine, network: Network) -> Iterator[Connection]:
    """A connection while which no backfill writes: final facts stay as they are.

    Waits for a range that is being written; a backfill's next range is refused meanwhile, and can
    be asked for again.
    """
    with engine.connect() as conn:
        keys: list[int] = []
        try:
            keys.extend(take_backfill_lease(conn, chain.id, _PATIENCE) for chain in network.chains)
            yield conn
        finally:
            if not conn.invalidated:
                conn.rollback()
                for key in keys:
                    end_lease(conn, locks.BACKFILL, key)
                conn.commit()
