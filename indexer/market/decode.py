"""Decoders of the events of Escrow and RailTerms, version 1 (`v` = 1 in every event's data).

The contracts name their topics and data as the event types name their fields, so the type of a
field determines how it is read.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args, get_origin, get_type_hints

from indexer.chains.events import Event
from indexer.chains.raw import StellarEvent
from indexer.chains.stellar.xdr.scval import (
    EventDecoder,
    Reader,
    ScMap,
    Topics,
    address,
    amount,
    boolean,
    count,
    one_of,
    seconds,
    symbol,
    symbols,
    text,
    u32,
    word,
)
from indexer.config.networks import StellarChain
from indexer.market import escrow_events as escrow
from indexer.market import rail_terms_events as rail_terms
from warehouse_schema.identifiers import BaseUnits, Bytes32, StellarAddress, UnixSeconds

VERSION = 1

_READERS: Mapping[Any, Reader[Any]] = {
    StellarAddress: address,
    BaseUnits: amount,
    Bytes32: word,
    UnixSeconds: seconds,
    bool: boolean,
    int: count,
    str: symbol,
    tuple[str, ...]: symbols,
}
"""Reader of a field, by its type; a `Literal` is a symbol among its words."""

_READERS_BY_NAME: Mapping[str, Reader[Any]] = {
    **dict.fromkeys(("bond_bps", "max_open", "tier", "fee_bps", "schema"), u32),
    "handle": text,
}
"""Exceptions to `_READERS`."""

_KEYS = {"from_address": "from", "to_address": "to"}
"""Field → key in the event's data, where they differ."""


def _decoder(event_type: type[Event], *topics: str) -> EventDecoder:
    """Decoder of events with these topics after the name; the other fields are data."""
    build: Callable[..., Event] = event_type
    hints = get_type_hints(event_type)
    del hints["seen"]
    readers = {name: _reader(name, hint) for name, hint in hints.items()}
    members = [name for name in hints if name not in topics]
    options = {name for name, hint in hints.items() if type(None) in get_args(hint)}

    def decode(event: StellarEvent, _chain: StellarChain) -> Event:
        named, data = Topics.of(event, 1 + len(topics)), ScMap.of(event, VERSION)
        values = {name: named.read(place, readers[name]) for place, name in enumerate(topics, 1)}
        for name in members:
            read = data.optional if name in options else data.read
            values[name] = read(_KEYS.get(name, name), readers[name])
        return build(seen=event.seen, **values)

    return decode


def _reader(name: str, hint: Any) -> Reader[Any]:
    if name in _READERS_BY_NAME:
        return _READERS_BY_NAME[name]
    if get_origin(hint) is Literal:
        return one_of(*get_args(hint))
    (kind,) = {hint} & _READERS.keys() or {*get_args(hint)} & _READERS.keys()
    return _READERS[kind]


DECODERS: Mapping[str, Mapping[str, EventDecoder]] = {
    "escrow": {
        "config_set": _decoder(escrow.EscrowConfigSet),
        "deposit": _decoder(escrow.EscrowDeposit, "provider"),
        "withdraw": _decoder(escrow.EscrowWithdraw, "provider"),
        "order_open": _decoder(escrow.OrderOpen, "provider", "taker", "order_id"),
        "order_fulfill": _decoder(escrow.OrderFulfill, "provider", "taker", "order_id"),
        "order_cancel": _decoder(escrow.OrderCancel, "provider", "taker", "order_id"),
        "order_expire": _decoder(escrow.OrderExpire, "provider", "taker", "order_id"),
        "paused_set": _decoder(escrow.EscrowPausedSet),
        "upgraded": _decoder(escrow.EscrowUpgraded),
    },
    "rail_terms": {
        "rail_set": _decoder(rail_terms.RailSet, "rail"),
        "terms_set": _decoder(rail_terms.TermsSet, "provider", "rail", "currency"),
        "terms_del": _decoder(rail_terms.TermsDel, "provider", "rail", "currency"),
        "payee_set": _decoder(rail_terms.PayeeSet, "provider", "rail"),
        "provider_set": _decoder(rail_terms.ProviderSet, "provider"),
    },
}
"""Field of `StellarChain` that names the contract → topic 0 → decoder."""
