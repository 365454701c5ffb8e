"""Stellar contract events as a node gives them, from plain values.

    make_escrow_event("order_open", amount=5_000_000, expires_at=1_700_000_900)
    make_rail_terms_event("terms_set", provider=ALICE, rate=9_500_000, min_=1)

A field left out has a good default; `LEFT_OUT` omits it; `None` is void; an SCVal goes in as it is.
A trailing underscore lets Python keywords and builtins through (`from_`, `min_`).
"""

import hashlib
from collections.abc import Callable, Iterable
from typing import Any, Final

import polars as pl
from stellar_sdk import StrKey, scval, xdr

from indexer.chains.events import Provenance
from indexer.chains.raw import StellarEvent
from indexer.chains.stellar.xdr.event_ids import EventId
from warehouse_schema.identifiers import (
    BlockHash,
    Bytes32,
    ChainId,
    Height,
    StellarAddress,
    TxHash,
    UnixSeconds,
    bytes32,
)

CHAIN = ChainId("stellar:devnet")
LEFT_OUT: Final = object()


def _digest(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


def account(name: str) -> StellarAddress:
    """An account that a name stands for."""
    return StellarAddress(StrKey.encode_ed25519_public_key(_digest(name)))


def contract(name: str) -> StellarAddress:
    """A contract that a name stands for."""
    return StellarAddress(StrKey.encode_contract(_digest(name)))


def word(name: str) -> Bytes32:
    """32 bytes that a name stands for, `0x` and 64 hex."""
    return bytes32(_digest(name))


ESCROW = contract("escrow")
RAIL_TERMS = contract("rail terms")


def make_seen(
    *,
    chain: str = CHAIN,
    ledger: int = 100,
    transaction: int = 1,
    operation: int = 0,
    index: int = 0,
    tx_hash: str | None = None,
    block_hash: str | None = None,
    block_time: int | None = None,
) -> tuple[Provenance, EventId]:
    """Where an event stands: provenance and event id. Ledgers close every 5 seconds."""
    event_id = EventId(Height(ledger), transaction, operation, index)
    seen = Provenance(
        chain=ChainId(chain),
        height=Height(ledger),
        block_hash=BlockHash(block_hash or _digest(f"ledger {ledger}").hex()),
        tx_hash=TxHash(tx_hash or _digest(f"transaction {ledger}/{transaction}").hex()),
        position=event_id.position,
        block_time=UnixSeconds(1_700_000_000 + 5 * ledger if block_time is None else block_time),
    )
    return seen, event_id


def make_stellar_event(
    emitter: str, topics: Iterable[xdr.SCVal], data: xdr.SCVal, **where: Any
) -> StellarEvent:
    """Any contract event; `where` goes to `make_seen`."""
    seen, event_id = make_seen(**where)
    return StellarEvent(
        seen=seen,
        event_id=str(event_id),
        contract=StellarAddress(emitter),
        topics=tuple(topic.to_xdr_bytes() for topic in topics),
        value=data.to_xdr_bytes(),
    )


def event_frame(events: Iterable[StellarEvent]) -> pl.DataFrame:
    """The frame that `indexer.chains.stellar.event_columns` reads such events into."""
    return pl.DataFrame(
        [
            (
                event.seen.height,
                event.seen.block_hash,
                event.seen.tx_hash,
                event.seen.position,
                event.seen.block_time,
                event.event_id,
                event.contract,
                [f"0x{topic.hex()}" for topic in event.topics],
                f"0x{event.value.hex()}",
            )
            for event in events
        ],
        schema={
            "height": pl.Int64,
            "block_hash": pl.String,
            "tx_hash": pl.String,
            "position": pl.Int64,
            "block_time": pl.Int64,
            "event_id": pl.String,
            "contract": pl.String,
            "topics": pl.List(pl.String),
            "value": pl.String,
        },
        orient="row",
    )


def make_escrow_event(
    name: str, *topics: Any, emitter: str = ESCROW, **fields: Any
) -> StellarEvent:
    """An event of the Escrow contract. Topics by position or by name, data by name."""
    return _make(name, ESCROW_EVENTS[name], topics, emitter, fields)


def make_rail_terms_event(
    name: str, *topics: Any, emitter: str = RAIL_TERMS, **fields: Any
) -> StellarEvent:
    """An event of the RailTerms contract. Topics by position or by name, data by name."""
    return _make(name, RAIL_TERMS_EVENTS[name], topics, emitter, fields)


def make_asset_event(
    name: str, *parties: str, asset: str, emitter: str, data: xdr.SCVal, **where: Any
) -> StellarEvent:
    """A unified asset event (CAP-67) of `asset`, `native` or `CODE:ISSUER`, by any contract."""
    topics = [scval.to_symbol(name), *map(scval.to_address, parties), scval.to_string(asset)]
    return make_stellar_event(emitter, topics, data, **where)


def _bytes(value: str | bytes) -> xdr.SCVal:
    return scval.to_bytes(bytes.fromhex(value[2:]) if isinstance(value, str) else value)


def _symbols(value: Iterable[str]) -> xdr.SCVal:
    return scval.to_vec([scval.to_symbol(item) for item in value])


_Encoder = Callable[[Any], xdr.SCVal]
_Fields = dict[str, tuple[_Encoder, Any]]

_address, _amount, _u32, _u64 = scval.to_address, scval.to_int128, scval.to_uint32, scval.to_uint64
_symbol, _bool, _string = scval.to_symbol, scval.to_bool, scval.to_string

_V: _Fields = {"v": (_u32, 1)}
_PROVIDER: _Fields = {"provider": (_address, account("provider"))}
_PARTIES: _Fields = {
    **_PROVIDER,
    "taker": (_address, account("taker")),
    "order_id": (_bytes, word("order 1")),
}
_AFTER: _Fields = {
    "free_after": (_amount, 900_0000000),
    "locked_after": (_amount, 100_0000000),
    "pseq": (_u64, 1),
}
_TERMS_KEY: _Fields = {
    **_PROVIDER,
    "rail": (_symbol, "revolut"),
    "currency": (_symbol, "EUR"),
}
_DIRECTION: _Fields = {"direction": (_symbol, "onramp")}
_TSEQ: _Fields = {"tseq": (_u64, 1)}

ESCROW_EVENTS: dict[str, tuple[_Fields, _Fields]] = {
    "config_set": (
        {},
        {
            "token": (_address, contract("usdc")),
            "rail_terms": (_address, RAIL_TERMS),
            "admin": (_address, account("admin")),
            "fee_to": (_address, account("fees")),
            "order_ttl": (_u64, 900),
            "bond_bps": (_u32, 10_000),
            "max_open": (_u32, 20),
        },
    ),
    "deposit": (
        _PROVIDER,
        {"amount": (_amount, 1000_0000000), "from": (_address, account("provider")), **_AFTER},
    ),
    "withdraw": (
        _PROVIDER,
        {"amount": (_amount, 10_0000000), "to": (_address, account("provider")), **_AFTER},
    ),
    "order_open": (
        _PARTIES,
        {
            **_DIRECTION,
            "rail": (_symbol, "revolut"),
            "currency": (_symbol, "EUR"),
            "amount": (_amount, 100_0000000),
            "rate": (_amount, 9_500_000),
            "fiat_amount": (_amount, 95_0000000),
            "lp_lock": (_amount, 100_0000000),
            "taker_lock": (_amount, 0),
            "payee_hash": (_bytes, word("payee")),
            "expires_at": (_u64, 1_700_001_400),
            "tier": (_u32, 1),
            "fee_bps": (_u32, 30),
            **_AFTER,
        },
    ),
    "order_fulfill": (
        _PARTIES,
        {
            "claim": (_symbol, "proof"),
            "nullifier": (_bytes, word("nullifier 1")),
            "released": (_amount, 100_0000000),
            "fee": (_amount, 3_000_000),
            "net": (_amount, 997_000_000),
            "recipient": (_address, account("taker")),
            "lp_unlock": (_amount, 100_0000000),
            "lp_free_delta": (_amount, 0),
            "taker_refund": (_amount, 0),
            "fiat_paid": (_amount, 95_0000000),
            "paid_at": (_u64, 1_700_000_600),
            **_AFTER,
        },
    ),
    "order_cancel": (
        _PARTIES,
        {
            "by": (_symbol, "taker"),
            "lp_unlock": (_amount, 100_0000000),
            "taker_refund": (_amount, 0),
            **_AFTER,
        },
    ),
    "order_expire": (
        _PARTIES,
        {
            "by": (_address, account("keeper")),
            "lp_unlock": (_amount, 100_0000000),
            "taker_refund": (_amount, 0),
            **_AFTER,
        },
    ),
    "paused_set": ({}, {"opens": (_bool, True), "all": (_bool, False)}),
    "upgraded": ({}, {"wasm_hash": (_bytes, word("wasm")), "schema": (_u32, 1)}),
}
"""Event → its topics and its data, in order, with how a value is encoded and its default."""

RAIL_TERMS_EVENTS: dict[str, tuple[_Fields, _Fields]] = {
    "rail_set": (
        {"rail": (_symbol, "revolut")},
        {
            "enabled": (_bool, True),
            "tier": (_u32, 1),
            "fee_bps": (_u32, 30),
            "verifier": (_address, account("attestor")),
            "currencies": (_symbols, ("EUR", "USD")),
        },
    ),
    "terms_set": (
        _TERMS_KEY,
        {
            **_DIRECTION,
            "rate": (_amount, 9_500_000),
            "min": (_amount, 10_0000000),
            "max": (_amount, 500_0000000),
            **_TSEQ,
        },
    ),
    "terms_del": (_TERMS_KEY, {**_DIRECTION, **_TSEQ}),
    "payee_set": (
        {**_PROVIDER, "rail": (_symbol, "revolut")},
        {
            "registered": (_bool, True),
            "payee_hash": (_bytes, word("payee")),
            "handle": (_string, "@provider"),
            **_TSEQ,
        },
    ),
    "provider_set": (_PROVIDER, {"paused": (_bool, False), **_TSEQ}),
}
"""As `ESCROW_EVENTS`."""

_WHERE = (
    "chain",
    "ledger",
    "transaction",
    "operation",
    "index",
    "tx_hash",
    "block_hash",
    "block_time",
)


def _make(
    name: str,
    shape: tuple[_Fields, _Fields],
    topics: tuple[Any, ...],
    emitter: str,
    fields: dict[str, Any],
) -> StellarEvent:
    topic_fields, data_fields = shape[0], {**shape[1], **_V}
    where = {key: fields.pop(key) for key in _WHERE if key in fields}
    given = dict(zip(topic_fields, topics, strict=False))
    given |= {key.rstrip("_"): value for key, value in fields.items()}
    unknown = set(given) - set(topic_fields) - set(data_fields)
    if unknown or len(topics) > len(topic_fields):
        raise TypeError(f"{name} has no {sorted(unknown) or 'such topics'}")
    data = _encode(data_fields, given)
    return make_stellar_event(
        emitter,
        [scval.to_symbol(name), *_encode(topic_fields, given).values()],
        scval.to_map({scval.to_symbol(key): data[key] for key in sorted(data)}),
        **where,
    )


def _encode(fields: _Fields, given: dict[str, Any]) -> dict[str, xdr.SCVal]:
    values = {key: given.get(key, default) for key, (_, default) in fields.items()}
    return {
        key: _scval(fields[key][0], value) for key, value in values.items() if value is not LEFT_OUT
    }


def _scval(encode: _Encoder, value: Any) -> xdr.SCVal:
    if isinstance(value, xdr.SCVal):
        return value
    return scval.to_void() if value is None else encode(value)
