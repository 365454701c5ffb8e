"""Refolds the movements that new facts affect, and writes their rows.

Two followers may affect one movement at once, each with its own chain's facts only. A refold holds
the movement's lock until commit, so the second reads what the first wrote.
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
from warehouse_schema.row_locks import lock_names

_COLUMNS = [movements.c[field.name] for field in fields(Movement)]


def affected_movements(events: Iterable[Event]) -> tuple[set[Bytes32], set[Bytes32]]:
    """Burn keys and guids of the events' movements."""
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
    """Fold these movements from the facts as stored; returns the rows changed."""
    lock_names(conn, locks.MOVEMENT, {*burn_keys, *guids})
    return _refold(conn, network, sorted(burn_keys), sorted(guids))


def apply_events(conn: Connection, network: Network, events: Sequence[Event]) -> int:
    """Refold the movements of events that come after all others of their chain.

    A burn that follows others of the same bytes leaves their rows as they are, so its cost does not
    grow with their number: repeating a burn slows nothing down.
    """
    burn_keys, guids = affected_movements(events)
    if not burn_keys and not guids:
        return 0
    lock_names(conn, locks.MOVEMENT, {*burn_keys, *guids})
    appended = _append_burns(conn, network, events, burn_keys)
    rest = burn_keys - {row.group_key for row in appended}
    return len(appended) + _refold(conn, network, sorted(rest), sorted(guids))


def _refold(
    conn: Connection, network: Network, burn_keys: Sequence[Bytes32], guids: Sequence[Bytes32]
) -> int:
    keys = [*burn_keys, *guids]
    if not keys:
        return 0
    statuses = read_statuses(conn, keys)
    attested = attested_burns(conn, burn_keys)
    sent = events_by_key(conn, MessageSent, "burn_key", burn_keys)
    received = events_by_key(conn, MessageReceived, "burn_key", burn_keys)
    burns = events_of_transactions(conn, BURN_EVENTS, [event.seen for event in sent])
    mints = events_of_transactions(conn, MINT_EVENTS, [event.seen for event in received])
    packets = [event for kind in OFT_EVENTS for event in events_by_key(conn, kind, "guid", guids)]
    folded = [
        *cctp_rows(network, burns, mints, burn_keys, attested, statuses),
        *oft_rows(network, packets, statuses),
    ]
    stored = {row.id: row for row in read_movements(conn, keys)}
    changed = [row for row in folded if stored.pop(row.id, None) != row]
    # Rows that changed, and rows that are no movement any more.
    obsolete = [*stored, *(row.id for row in changed)]
    if obsolete:
        conn.execute(delete(movements).where(movements.c.id == any_of(obsolete)))
    _insert(conn, changed)
    return len(changed)


def _append_burns(
    conn: Connection, network: Network, events: Sequence[Event], burn_keys: Collection[Bytes32]
) -> list[Movement]:
    """Write the rows of burns that come last of their key.

    True where only burns of the key were seen now, no mint waits for a burn, and no service has
    answered about them: about a transaction of a reorg it may have.
    """
    burns: dict[Bytes32, list[Burn]] = defaultdict(list)
    sending = (event for event in events if isinstance(event, BURN_EVENTS))
    for of_transaction in group_by_transaction(sending):
        for burn in pair_burns(of_transaction):
            if burn.message.burn_key is not None:
                burns[burn.message.burn_key].append(burn)
    received = {event.burn_key for event in events if isinstance(event, MessageReceived)}
    keys = [key for key in sorted(burn_keys) if key in burns and key not in received]
    answered = answered_keys(conn, [burn.message.seen for key in keys for burn in burns[key]])
    earlier = _count_burns(conn, keys)
    rows = [
        row
        for key in keys
        if key not in answered and (first := earlier.get(key, 0)) is not None
        for row in fold_cctp(network, key, burns[key], [], first=first)
    ]
    _insert(conn, rows)
    return rows


def _count_burns(conn: Connection, keys: Sequence[Bytes32]) -> dict[str, int | None]:
    """Stored burns of each key that has rows; None where a mint waits for its burn."""
    if not keys:
        return {}
    column = movements.c
    burns = func.count(column.source_tx)
    query = (
        select(column.group_key, case((burns == func.count(), burns)))
        .where(column.group_key == any_of(keys))
        .group_by(column.group_key)
    )
    return {row[0]: row[1] for row in conn.execute(query)}


def read_movements(conn: Connection, keys: Collection[str] | None = None) -> list[Movement]:
    """Stored movements of these burn keys and guids, or all."""
    query = select(*_COLUMNS)
    if keys is not None:
        query = query.where(movements.c.group_key == any_of(keys))
    return [Movement(**row._mapping) for row in conn.execute(query)]


def _insert(conn: Connection, rows: Sequence[Movement]) -> None:
    if rows:
        conn.execute(insert(movements), [asdict(row) for row in rows])


def rows_by_key(conn: Connection, keys: Collection[str]) -> dict[str, list[Movement]]:
    """Stored movements by burn key or guid; those of one key by their ordinal."""
    found: dict[str, list[Movement]] = defaultdict(list)
    for row in read_movements(conn, sorted(keys)) if keys else ():
        found[row.group_key].append(row)
    for rows in found.values():
        # An OFT message has one row.
        rows.sort(key=lambda row: int(row.id.rpartition(":")[2]) if row.mechanism == "cctp" else 0)
    return found


def cctp_rows(
    network: Network,
    sending: Iterable[Event],
    receiving: Iterable[Event],
    burn_keys: Collection[Bytes32],
    attested: Iterable[AttestedBurn] = (),
    statuses: Mapping[str, MessageStatus] = NO_STATUSES,
) -> list[Movement]:
    """Rows of these burn keys, from all CCTP events of the transactions that sent and minted.

    `attested`: verified attestations, oldest first. `statuses`: what services say, by message.
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
        for row in fold_cctp(network, key, burns[key], mints[key], nonces[key], statuses)
    ]


def oft_rows(
    network: Network,
    events: Iterable[OftEvent],
    statuses: Mapping[str, MessageStatus] = NO_STATUSES,
) -> list[Movement]:
    """Rows of every guid of the events. `statuses`: what services say, by guid."""
    by_guid: dict[Bytes32, list[OftEvent]] = defaultdict(list)
    for event in events:
        by_guid[event.guid].append(event)
    return [
        row
        for guid, group in sorted(by_guid.items())
        for row in fold_oft(network, guid, group, statuses)
    ]


def group_by_transaction(events: Iterable[Event]) -> Iterable[list[Event]]:
    """Events of each transaction together, transactions and events in chain order."""
    ordered = sorted(events, key=lambda e: (e.seen.chain, e.seen.height, e.seen.position))
    for _, group in groupby(ordered, key=lambda e: (e.seen.chain, e.seen.height, e.seen.tx_hash)):
        yield list(group)
