"""Refolds the movements that new facts affect, and writes their rows.

Two followers may affect one movement at once, each with its own chain's facts only. A refold holds
the movement's lock until commit, so the second reads what the first wrote.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, case, delete, func, select

from indexer.bridges.cctp.events import MessageReceived
from indexer.chains.events import Event
from indexer.config.networks import Network
from indexer.facts.messages import answered_keys_call
from indexer.facts.queries import CompiledQuery, fetch_all, joined, rows_of
from indexer.facts.row_locks import lock_and_fetch, lock_names
from indexer.facts.rows import RowBatch, write_rows
from indexer.metrics.collectors import waiting
from indexer.movements.fold import (
    BURN_EVENTS,
    Burn,
    Movement,
    MovementKey,
    fold_cctp,
    group_by_transaction,
    pair_burns,
)
from indexer.movements.mechanisms import affected_movements, fold_stored
from warehouse_schema import locks
from warehouse_schema.identifiers import Bytes32
from warehouse_schema.projections import movements
from warehouse_schema.queries import any_in

_FIELDS = [field.name for field in fields(Movement)]
_COLUMNS = [movements.c[name] for name in _FIELDS]
_values = attrgetter(*_FIELDS)


def refold_movements(conn: Connection, network: Network, affected: Collection[MovementKey]) -> int:
    """Fold these movements from the facts as stored; returns the rows changed."""
    with waiting("lock"):
        lock_names(conn, locks.MOVEMENT, {key for _, key in affected})
    return _refold(conn, network, affected)


def apply_events(conn: Connection, network: Network, events: Sequence[Event]) -> int:
    """Refold the movements of events that come after all others of their chain.

    A burn that follows others of the same bytes leaves their rows as they are, so its cost does not
    grow with their number: repeating a burn slows nothing down.
    """
    affected = affected_movements(events)
    if not affected:
        return 0
    burns = _burns_alone(events)
    sent = [burn.message.seen for of_key in burns.values() for burn in of_key]
    calls = [answered_keys_call(sent), (_BURN_COUNTS, {"keys": joined(burns)})] if burns else []
    with waiting("lock"):
        found = lock_and_fetch(conn, locks.MOVEMENT, {key for _, key in affected}, calls)
    appended = _append_burns(conn, network, burns, *found) if burns else []
    rest = affected - {row.key for row in appended}
    return len(appended) + _refold(conn, network, rest)


def _refold(conn: Connection, network: Network, affected: Collection[MovementKey]) -> int:
    if not affected:
        return 0
    folded = fold_stored(conn, network, affected)
    stored = {row.id: row for row in read_movements(conn, [key for _, key in affected])}
    unchanged = {row.id for row in folded if stored.get(row.id) == row}
    changed = [row for row in folded if row.id not in unchanged]
    # Rows that changed, and rows that are no movement any more.
    obsolete = stored.keys() - unchanged
    if obsolete:
        fetch_all(conn, [(_DELETE, {"ids": joined(obsolete)})])
    _insert(conn, changed)
    return len(changed)


_DELETE = rows_of(
    delete(movements).where(movements.c.id == any_in("ids")).returning(movements.c.id)
)

_BURN_COUNTS = rows_of(
    select(
        movements.c.group_key,
        case((func.count(movements.c.source_tx) == func.count(), func.count())).label("burns"),
    )
    .where(movements.c.group_key == any_in("keys"))
    .group_by(movements.c.group_key)
)
"""Stored burns of each key that has rows; null where a mint waits for its burn."""


def _burns_alone(events: Sequence[Event]) -> dict[Bytes32, list[Burn]]:
    """Burns by key, in its order, of the keys of which nothing but burns was seen now."""
    burns: dict[Bytes32, list[Burn]] = defaultdict(list)
    sending = (event for event in events if isinstance(event, BURN_EVENTS))
    for of_transaction in group_by_transaction(sending):
        for burn in pair_burns(of_transaction):
            if burn.message.burn_key is not None:
                burns[burn.message.burn_key].append(burn)
    received = {event.burn_key for event in events if isinstance(event, MessageReceived)}
    return {key: burns[key] for key in sorted(burns) if key not in received}


def _append_burns(
    conn: Connection,
    network: Network,
    burns: Mapping[Bytes32, Sequence[Burn]],
    answers: Iterable[Any],
    counts: Iterable[Any],
) -> list[Movement]:
    """Write the rows of burns that come last of their key, and return them.

    Keys are left out where a mint waits for a burn (`counts`, of `_BURN_COUNTS`), or a service has
    answered (`answers`): about a transaction of a reorg it may have.
    """
    answered = {row.key for row in answers}
    earlier: dict[str, int | None] = {row.group_key: row.burns for row in counts}
    rows = [
        row
        for key, of_key in burns.items()
        if key not in answered and (first := earlier.get(key, 0)) is not None
        for row in fold_cctp(network, key, of_key, [], first=first)
    ]
    _insert(conn, rows)
    return rows


MOVEMENTS_BY_KEY = CompiledQuery(
    select(*_COLUMNS).where(movements.c.group_key == any_in("values")),
    lambda row: Movement(**row._asdict()),
)


def read_movements(conn: Connection, keys: Collection[str] | None = None) -> list[Movement]:
    """Stored movements of these burn keys and guids, or all."""
    if keys is None:
        return [Movement(**row._mapping) for row in conn.execute(select(*_COLUMNS))]
    [rows] = fetch_all(conn, [(MOVEMENTS_BY_KEY, {"values": joined(keys)})])
    return rows


def _insert(conn: Connection, rows: Sequence[Movement]) -> None:
    write_rows(conn, [RowBatch(_COLUMNS, [_values(row) for row in rows])])


def group_by_key(rows: Iterable[Movement]) -> dict[str, list[Movement]]:
    """Movements by burn key or guid; those of one key by their ordinal."""
    found: dict[str, list[Movement]] = defaultdict(list)
    for row in rows:
        found[row.group_key].append(row)
    for of_key in found.values():
        # Ids of one key differ only in their ordinal, a number without leading zeros.
        of_key.sort(key=lambda row: (len(row.id), row.id))
    return found
