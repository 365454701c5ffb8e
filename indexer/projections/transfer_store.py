"""Refolds the cross-chain movements that new facts touch, and writes their rows.

Two followers may touch one movement at the same moment, each seeing only its own chain's new
facts. Whoever refolds therefore holds the movement's lock until commit: the second one waits, then
reads what the first committed.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby

from sqlalchemy import Connection, bindparam, delete, func, insert, select
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.types import Text

from indexer.events.cctp import MessageReceived, MessageSent
from indexer.events.common import Event
from indexer.events.services import AttestedBurn, MessageStatus
from indexer.facts.messages import attested_burns, statuses
from indexer.facts.store import events_by_key, events_of_transactions
from indexer.networks import Network
from indexer.projections.transfers import (
    BURN_EVENTS,
    MINT_EVENTS,
    NOTHING_SAID,
    OFT_EVENTS,
    Burn,
    Mint,
    OftEvent,
    TransferProgress,
    fold_cctp,
    fold_oft,
    pair_burns,
    pair_mints,
)
from warehouse_schema import locks
from warehouse_schema.identifiers import Bytes32
from warehouse_schema.projections import transfer_progress

_MANY = 500
"""Beyond so many movements one lock over all of them is cheaper than one each."""


def touched_movements(events: Iterable[Event]) -> tuple[set[Bytes32], set[Bytes32]]:
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


def refold_transfers(
    conn: Connection, network: Network, burn_keys: Collection[Bytes32], guids: Collection[Bytes32]
) -> int:
    """Write anew the rows of these movements from the facts as they stand; rows written."""
    keys = sorted({*burn_keys, *guids})
    if not keys:
        return 0
    _lock(conn, keys)
    said = statuses(conn, keys)
    attested = attested_burns(conn, burn_keys)
    rows = [
        *cctp_rows(network, *_cctp_facts(conn, sorted(burn_keys)), burn_keys, attested, said),
        *oft_rows(network, _oft_facts(conn, sorted(guids)), said),
    ]
    conn.execute(
        delete(transfer_progress).where(
            transfer_progress.c.group_key == func.any(bindparam("keys", type_=ARRAY(Text)))
        ),
        {"keys": keys},
    )
    if rows:
        conn.execute(insert(transfer_progress), [asdict(row) for row in rows])
    return len(rows)


def _lock(conn: Connection, keys: Sequence[str]) -> None:
    if len(keys) > _MANY:
        conn.execute(select(func.pg_advisory_xact_lock(locks.MOVEMENT)))
        return
    conn.execute(select(func.pg_advisory_xact_lock_shared(locks.MOVEMENT)))
    hashes = select(func.hashtext(func.unnest(bindparam("keys", type_=ARRAY(Text)))).label("key"))
    # Every session takes the locks in one order, or two of them could wait for each other.
    ordered = hashes.distinct().order_by("key").subquery()
    conn.execute(
        select(func.pg_advisory_xact_lock(locks.MOVEMENT, ordered.c.key)), {"keys": list(keys)}
    )


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
    said: Mapping[str, MessageStatus] = NOTHING_SAID,
) -> list[TransferProgress]:
    """Rows of these burn keys, from all CCTP events of the transactions that sent and minted.

    `attested` are verified attestations, oldest first; `said` is what services say, by message.
    """
    burns: dict[Bytes32 | None, list[Burn]] = defaultdict(list)
    mints: dict[Bytes32 | None, list[Mint]] = defaultdict(list)
    nonces: dict[Bytes32, list[AttestedBurn]] = defaultdict(list)
    for each in attested:
        nonces[each.burn_key].append(each)
    for events in by_transaction(sending):
        for burn in pair_burns(events):
            burns[burn.message.burn_key].append(burn)
    for events in by_transaction(receiving):
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
    said: Mapping[str, MessageStatus] = NOTHING_SAID,
) -> list[TransferProgress]:
    """Rows of every guid that the events name. `said` is what services say, by guid."""
    by_guid: dict[Bytes32, list[OftEvent]] = defaultdict(list)
    for event in events:
        by_guid[event.guid].append(event)
    return [
        row
        for guid, group in sorted(by_guid.items())
        for row in fold_oft(network, guid, group, said)
    ]


def by_transaction(events: Iterable[Event]) -> Iterable[list[Event]]:
    """Events of each transaction together, transactions and events in chain order."""
    ordered = sorted(events, key=lambda e: (e.seen.chain, e.seen.height, e.seen.position))
    for _, group in groupby(ordered, key=lambda e: (e.seen.chain, e.seen.height, e.seen.tx_hash)):
        yield list(group)
