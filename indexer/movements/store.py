"""Refolds the cross-chain movements that new facts touch, and writes their rows.

Two followers may touch one movement at the same moment, each seeing only its own chain's new
facts. Whoever refolds therefore holds the movement's lock until commit: the second one waits, then
reads what the first committed.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from itertools import groupby

from sqlalchemy import Connection, case, delete, func, insert, select

from indexer.bridges.cctp.events import MessageReceived, MessageSent
from indexer.chains.events import Event
from indexer.chains.services.messages import AttestedBurn, MessageStatus
from indexer.config.networks import Network
from indexer.facts.messages import answered_keys, attested_burns, read_statuses
from indexer.facts.store import events_by_key, events_of_transactions
from indexer.movements.fold import (
    BURN_EVENTS,
    MINT_EVENTS,
    NO_STATUSES,
    OFT_EVENTS,
    Burn,
    Mint,
    Movement,
    OftEvent,
    fold_cctp,
    fold_oft,
    pair_burns,
    pair_mints,
)
from warehouse_schema import locks
from warehouse_schema.identifiers import Bytes32
from warehouse_schema.projections import movements
from warehouse_schema.queries import any_of
from warehouse_schema.row_locks import lock_all, lock_names

_COLUMNS = [movements.c[field.name] for field in fields(Movement)]

_MANY = 500
"""Beyond so many movements one lock over all of them is cheaper than one each."""


def affected_movements(events: Iterable[Event]) -> tuple[set[Bytes32], set[Bytes32]]:
    """Burn keys and guids of the movements that events belong to."""
    burn_keys: set[Bytes32] = set()
    guids: set[Bytes32] = set()
    for event in events:
        if isinstance(event, MessageSent | MessageReceived):
            if event.burn_key is not None:
                burn_keys.add(event.burn_key)
        elif isinstance(event, OFT_EVENTS):
            guids.add(event.guid)
    return burn_keys, guids


def refold_movements(
    conn: Connection, network: Network, burn_keys: Collection[Bytes32], guids: Collection[Bytes32]
) -> int:
    """Fold these movements anew from the facts as they stand; how many rows that changed."""
    keys = sorted({*burn_keys, *guids})
    if not keys:
        return 0
    _lock(conn, keys)
    return _refold(conn, network, sorted(burn_keys), sorted(guids))


def apply_events(conn: Connection, network: Network, events: Sequence[Event]) -> int:
    """As `refold_movements` of what events touch that come after all others of their chain.

    A burn that comes after others of the same bytes leaves their rows as they are, so it costs the
    same after ten thousand of them: whoever burns the same over and over slows nobody down.
    """
    burn_keys, guids = affected_movements(events)
    keys = sorted({*burn_keys, *guids})
    if not keys:
        return 0
    _lock(conn, keys)
    appended = _append_burns(conn, network, events, burn_keys)
    return len(appended) + _refold(
        conn, network, sorted(burn_keys - {row.group_key for row in appended}), sorted(guids)
    )


def _refold(
    conn: Connection, network: Network, burn_keys: Sequence[Bytes32], guids: Sequence[Bytes32]
) -> int:
    keys = [*burn_keys, *guids]
    if not keys:
        return 0
    said = read_statuses(conn, keys)
    attested = attested_burns(conn, burn_keys)
    folded = [
        *cctp_rows(network, *_cctp_facts(conn, burn_keys), burn_keys, attested, said),
        *oft_rows(network, _oft_facts(conn, guids), said),
    ]
    stored = {row.id: row for row in _stored(conn, keys)}
    changed = [row for row in folded if stored.pop(row.id, None) != row]
    # What is left there is no movement any more, or one that changed.
    _delete(conn, [*stored, *(row.id for row in changed)])
    _insert(conn, changed)
    return len(changed)


def _append_burns(
    conn: Connection, network: Network, events: Sequence[Event], burn_keys: Collection[Bytes32]
) -> list[Movement]:
    """Write the rows of burns that come after all else there is of their key.

    That is so where nothing but burns was seen now, no mint waits for a burn, and no service has
    said anything of these: of a transaction that a reorg took back it may have.
    """
    burns = _burns_of(events)
    received = {event.burn_key for event in events if isinstance(event, MessageReceived)}
    keys = [key for key in sorted(burn_keys) if key in burns and key not in received]
    seen = [burn.message.seen for key in keys for burn in burns[key]]
    known = answered_keys(conn, seen)
    before = _burns_before(conn, keys)
    rows = [
        row
        for key in keys
        if key not in known and (first := before.get(key, 0)) is not None
        for row in fold_cctp(network, key, burns[key], [], first=first)
    ]
    _insert(conn, rows)
    return rows


def _burns_of(events: Iterable[Event]) -> dict[Bytes32, list[Burn]]:
    burns: dict[Bytes32, list[Burn]] = defaultdict(list)
    sending = (event for event in events if isinstance(event, BURN_EVENTS))
    for of_transaction in group_by_transaction(sending):
        for burn in pair_burns(of_transaction):
            if burn.message.burn_key is not None:
                burns[burn.message.burn_key].append(burn)
    return burns


def _burns_before(conn: Connection, keys: Sequence[Bytes32]) -> dict[Bytes32, int | None]:
    """How many burns of a key have rows, if it has rows; None when a mint of it waits for one."""
    column = movements.c
    burnt = func.count(column.source_tx)
    query = (
        select(column.group_key, case((burnt == func.count(), burnt)))
        .where(column.group_key == any_of(keys))
        .group_by(column.group_key)
    )
    return {row[0]: row[1] for row in conn.execute(query)} if keys else {}


def _stored(conn: Connection, keys: Sequence[str]) -> list[Movement]:
    query = select(*_COLUMNS).where(movements.c.group_key == any_of(keys))
    return [Movement(**row._mapping) for row in conn.execute(query)]


def rows_by_key(conn: Connection, keys: Collection[str]) -> dict[str, list[Movement]]:
    """Stored movements of these burn keys and guids, by key; those of one key in their order."""
    found: dict[str, list[Movement]] = defaultdict(list)
    for row in _stored(conn, sorted(keys)) if keys else ():
        found[row.group_key].append(row)
    for rows in found.values():
        rows.sort(key=_ordinal)
    return found


def _ordinal(row: Movement) -> int:
    return int(row.id.rpartition(":")[2]) if row.mechanism == "cctp" else 0


def _delete(conn: Connection, ids: Sequence[str]) -> None:
    if ids:
        conn.execute(delete(movements).where(movements.c.id == any_of(ids)))


def _insert(conn: Connection, rows: Sequence[Movement]) -> None:
    if rows:
        conn.execute(insert(movements), [asdict(row) for row in rows])


def _lock(conn: Connection, keys: Sequence[str]) -> None:
    if len(keys) > _MANY:
        lock_all(conn, locks.MOVEMENT)
    else:
        lock_names(conn, locks.MOVEMENT, keys)


def _cctp_facts(conn: Connection, burn_keys: Sequence[Bytes32]) -> tuple[list[Event], list[Event]]:
    """All CCTP events of the transactions in which these burn keys were sent, and received."""
    sent = events_by_key(conn, MessageSent, "burn_key", burn_keys)
    received = events_by_key(conn, MessageReceived, "burn_key", burn_keys)
    return (
        events_of_transactions(conn, BURN_EVENTS, [event.seen for event in sent]),
        events_of_transactions(conn, MINT_EVENTS, [event.seen for event in received]),
    )


def cctp_rows(
    network: Network,
    sending: Iterable[Event],
    receiving: Iterable[Event],
    burn_keys: Collection[Bytes32],
    attested: Iterable[AttestedBurn] = (),
    said: Mapping[str, MessageStatus] = NO_STATUSES,
) -> list[Movement]:
    """Rows of these burn keys, from all CCTP events of the transactions that sent and minted.

    `attested` are verified attestations, oldest first; `said` is what services say, by message.
    """
    burns: dict[Bytes32 | None, list[Burn]] = defaultdict(list)
    mints: dict[Bytes32 | None, list[Mint]] = defaultdict(list)
    nonces: dict[Bytes32, list[AttestedBurn]] = defaultdict(list)
    for each in attested:
        nonces[each.burn_key].append(each)
    for events in group_by_transaction(sending):
        for burn in pair_burns(events):
            burns[burn.message.burn_key].append(burn)
    for events in group_by_transaction(receiving):
        for mint in pair_mints(events):
            mints[mint.message.burn_key].append(mint)
    return [
        row
        for key in sorted(burn_keys)
        for row in fold_cctp(network, key, burns[key], mints[key], nonces[key], said)
    ]


def _oft_facts(conn: Connection, guids: Sequence[Bytes32]) -> list[OftEvent]:
    return [event for kind in OFT_EVENTS for event in events_by_key(conn, kind, "guid", guids)]


def oft_rows(
    network: Network,
    events: Iterable[OftEvent],
    said: Mapping[str, MessageStatus] = NO_STATUSES,
) -> list[Movement]:
    """Rows of every guid that the events name. `said` is what services say, by guid."""
    by_guid: dict[Bytes32, list[OftEvent]] = defaultdict(list)
    for event in events:
        by_guid[event.guid].append(event)
    return [
        row
        for guid, group in sorted(by_guid.items())
        for row in fold_oft(network, guid, group, said)
    ]


def group_by_transaction(events: Iterable[Event]) -> Iterable[list[Event]]:
    """Events of each transaction together, transactions and events in chain order."""
    ordered = sorted(events, key=lambda e: (e.seen.chain, e.seen.height, e.seen.position))
    for _, group in groupby(ordered, key=lambda e: (e.seen.chain, e.seen.height, e.seen.tx_hash)):
        yield list(group)
