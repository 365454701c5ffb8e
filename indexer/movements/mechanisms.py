"""Registry of the bridge mechanisms: events, keys and fold of each.

Followers, backfill, redecode, rebuild and transfers read this table, so a mechanism that has its
entry here is folded everywhere.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from sqlalchemy import Connection

from indexer.bridges.cctp.events import MessageReceived, MessageSent
from indexer.bridges.oft.events import OftSent
from indexer.chains.events import Event
from indexer.chains.services.messages import AttestedBurn, MessageStatus
from indexer.config.networks import Network
from indexer.config.routes import Bridge
from indexer.facts.messages import ATTESTED_BURNS, ATTESTED_BURNS_BY_KEY, read_statuses
from indexer.facts.queries import fetch_all, joined
from indexer.facts.store import (
    events_by_column,
    events_of_transaction_groups,
    read_events,
    values_between,
)
from indexer.movements.fold import (
    BURN_EVENTS,
    MINT_EVENTS,
    OFT_EVENTS,
    Burn,
    Mint,
    Movement,
    MovementKey,
    OftEvent,
    fold_cctp,
    fold_oft,
    group_by_transaction,
    pair_burns,
    pair_mints,
)
from warehouse_schema.identifiers import Bytes32, ChainId, Height

_FoldStored: TypeAlias = Callable[
    [Connection, Network, Collection[Bytes32] | None, Mapping[str, MessageStatus]], list[Movement]
]


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgeMechanism:
    """What the projections need to know of a mechanism."""

    key_fields: Mapping[type[Event], str]
    """Event with a movement's key → field and column of the key. Further events of the mechanism
    are found by the transaction they share with these."""
    unlabelled_send: type[OftSent] | None
    """Event of a send, where its transfer is found by sender and amount, not by a label."""
    fold_stored: _FoldStored
    """Folds the movements of these keys, or all (None), from the facts as stored. Takes what
    services say of their messages, by message."""


_SENT = events_by_column(MessageSent, "burn_key")
_RECEIVED = events_by_column(MessageReceived, "burn_key")
_OFT = [events_by_column(each, "guid") for each in OFT_EVENTS]


def _fold_cctp(
    conn: Connection,
    network: Network,
    keys: Collection[Bytes32] | None,
    statuses: Mapping[str, MessageStatus],
) -> list[Movement]:
    sending: Iterable[Event]
    receiving: Iterable[Event]
    if keys is None:
        sending, receiving = read_events(conn, BURN_EVENTS), read_events(conn, MINT_EVENTS)
        [attested] = fetch_all(conn, [(ATTESTED_BURNS, {})])
    else:
        values = {"values": joined(keys)}
        sent, received, attested = fetch_all(
            conn, [(_SENT, values), (_RECEIVED, values), (ATTESTED_BURNS_BY_KEY, values)]
        )
        sending, receiving = events_of_transaction_groups(
            conn,
            [
                (BURN_EVENTS, [event.seen for event in sent]),
                (MINT_EVENTS, [event.seen for event in received]),
            ],
        )
    # A transaction may hold messages of other keys, and messages that are no burn's.
    burns: dict[Bytes32, list[Burn]] = defaultdict(list)
    mints: dict[Bytes32, list[Mint]] = defaultdict(list)
    nonces: dict[Bytes32, list[AttestedBurn]] = defaultdict(list)
    for each in attested:
        nonces[each.burn_key].append(each)
    for events in group_by_transaction(sending):
        for burn in pair_burns(events):
            if burn.message.burn_key is not None:
                burns[burn.message.burn_key].append(burn)
    for events in group_by_transaction(receiving):
        for mint in pair_mints(events):
            if mint.message.burn_key is not None:
                mints[mint.message.burn_key].append(mint)
    return [
        row
        for key in sorted(burns.keys() | mints.keys() if keys is None else keys)
        for row in fold_cctp(network, key, burns[key], mints[key], nonces[key], statuses)
    ]


def _fold_oft(
    conn: Connection,
    network: Network,
    keys: Collection[Bytes32] | None,
    statuses: Mapping[str, MessageStatus],
) -> list[Movement]:
    events: Iterable[OftEvent]
    if keys is None:
        events = read_events(conn, OFT_EVENTS)
    else:
        values = {"values": joined(keys)}
        found = fetch_all(conn, [(query, values) for query in _OFT])
        events = [event for group in found for event in group]
    by_guid: dict[Bytes32, list[OftEvent]] = defaultdict(list)
    for event in events:
        by_guid[event.guid].append(event)
    return [
        row
        for guid, group in sorted(by_guid.items())
        for row in fold_oft(network, guid, group, statuses)
    ]


MECHANISMS: Mapping[Bridge, BridgeMechanism] = MappingProxyType(
    {
        "cctp": BridgeMechanism(
            key_fields={MessageSent: "burn_key", MessageReceived: "burn_key"},
            unlabelled_send=None,
            fold_stored=_fold_cctp,
        ),
        "oft": BridgeMechanism(
            key_fields=dict.fromkeys(OFT_EVENTS, "guid"),
            unlabelled_send=OftSent,
            fold_stored=_fold_oft,
        ),
    }
)
KEY_FIELDS: Mapping[type[Event], tuple[Bridge, str]] = {
    event_type: (name, field)
    for name, mechanism in MECHANISMS.items()
    for event_type, field in mechanism.key_fields.items()
}
"""Event with a movement's key → its mechanism, and field and column of the key."""
UNLABELLED_SENDS = tuple(
    mechanism.unlabelled_send
    for mechanism in MECHANISMS.values()
    if mechanism.unlabelled_send is not None
)


def affected_movements(events: Iterable[Event]) -> set[MovementKey]:
    """Keys of the events' movements."""
    found: set[MovementKey] = set()
    for event in events:
        keyed = KEY_FIELDS.get(type(event))
        if keyed is not None:
            mechanism, field = keyed
            # A message without a key is not a burn's.
            if (key := getattr(event, field)) is not None:
                found.add((mechanism, key))
    return found


def stored_keys(conn: Connection, chain: ChainId, first: Height, last: Height) -> set[MovementKey]:
    """Keys of the movements of a chain's stored events, from `first` to `last` inclusive."""
    return {
        (mechanism, key)
        for event_type, (mechanism, field) in KEY_FIELDS.items()
        # A message without a key is not a burn's.
        for key in values_between(conn, event_type, field, chain, first, last)
    }


def fold_stored(
    conn: Connection, network: Network, affected: Collection[MovementKey] | None = None
) -> list[Movement]:
    """Movements of these keys, or all, folded from the facts as stored."""
    statuses = read_statuses(conn, None if affected is None else [key for _, key in affected])
    rows: list[Movement] = []
    for name, mechanism in MECHANISMS.items():
        keys = None if affected is None else sorted(key for of, key in affected if of == name)
        if keys is None or keys:
            rows += mechanism.fold_stored(conn, network, keys, statuses)
    return rows
