"""Events, raw events and blocks, filled by the types of their fields."""

import types
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from indexer.chains.events import Event, Provenance
from indexer.chains.raw import Block, EvmLog, StellarEvent
from warehouse_schema.identifiers import (
    Address,
    AssetId,
    BaseUnits,
    BlockHash,
    Bytes32,
    ChainId,
    EvmAddress,
    Height,
    StellarAddress,
    TxHash,
    UnixSeconds,
    is_evm,
)

EVM = ChainId("eip155:31337")
STELLAR = ChainId("stellar:devnet")

SAMPLES: Mapping[Any, Any] = {
    Address: "0x" + "a1" * 20,
    AssetId: "stellar:USDC:GA5ZSEJYB37JRC5AVCIA5MOP4RHTM335X2KGX3IHOJAPP5RE34K4KZVN",
    BaseUnits: 2**256 - 1,
    Bytes32: "0x" + "b2" * 32,
    EvmAddress: "0x" + "c3" * 20,
    StellarAddress: "CAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAD2KM",
    UnixSeconds: 1_700_000_000,
    bool: True,
    bytes: b"\x00\\N\t\n\xff",
    int: 2**31 - 1,
    str: 'a "b", {c}\\N\td\n½',
}

E = TypeVar("E", bound=Event)


def make_block(height: int = 100, *, chain: ChainId = EVM, fork: str = "main") -> Block:
    """A block that joins the one below it of the same fork."""
    return Block(
        chain=chain,
        height=Height(height),
        hash=block_hash(chain, height, fork),
        parent_hash=block_hash(chain, height - 1, fork),
        time=UnixSeconds(1_700_000_000 + height),
        protocol_version=None if is_evm(chain) else 23,
    )


def block_hash(chain: ChainId, height: int, fork: str = "main") -> BlockHash:
    """The hash that `make_block` gives."""
    digits = f"{fork}-{height}".encode().hex().rjust(64, "0")
    return BlockHash("0x" + digits if is_evm(chain) else digits)


def make_provenance(
    height: int = 100, position: int = 0, *, chain: ChainId = EVM, fork: str = "main", tx: int = 1
) -> Provenance:
    """A place in the block of `make_block`; `tx` numbers the transactions of a block."""
    block = make_block(height, chain=chain, fork=fork)
    digits = f"{height:032x}{tx:032x}"
    return Provenance(
        chain=chain,
        height=block.height,
        block_hash=block.hash,
        tx_hash=TxHash("0x" + digits if is_evm(chain) else digits),
        position=position,
        block_time=block.time,
    )


def make_event(event_type: type[E], seen: Provenance | None = None, **given: Any) -> E:
    """An event whose fields are samples of their types, but for those given."""
    return event_type(**{**samples(event_type, seen), **given})


def make_sparse_event(event_type: type[E], seen: Provenance | None = None) -> E:
    """An event with None, nothing and zero wherever a field may be that."""
    hints = get_type_hints(event_type)
    empty = {name: _empty(hints[name], value) for name, value in samples(event_type, seen).items()}
    return event_type(**empty)


def samples(event_type: type[Event], seen: Provenance | None = None) -> dict[str, Any]:
    """A value for each field."""
    hints = get_type_hints(event_type)
    own = {f.name: _sample(hints[f.name]) for f in fields(event_type) if f.name != "seen"}
    return {"seen": make_provenance() if seen is None else seen, **own}


def _sample(hint: Any) -> Any:
    if get_origin(hint) is Literal:
        return get_args(hint)[0]
    if get_origin(hint) is tuple:
        item = _sample(get_args(hint)[0])
        return (item, item, "")
    if _is_optional(hint):
        return _sample(get_args(hint)[0])
    return SAMPLES[hint]


def _empty(hint: Any, value: Any) -> Any:
    if _is_optional(hint):
        return None
    if hint is BaseUnits:
        return 0
    return type(value)() if isinstance(value, bytes | tuple | bool) else value


def _is_optional(hint: Any) -> bool:
    return get_origin(hint) in (types.UnionType, Union) and type(None) in get_args(hint)


def make_evm_log(seen: Provenance | None = None, **given: Any) -> EvmLog:
    """A raw log."""
    log = {
        "seen": seen or make_provenance(),
        "address": SAMPLES[EvmAddress],
        "topics": ("0x" + "11" * 32, "0x" + "22" * 32),
        "data": SAMPLES[bytes],
    }
    return EvmLog(**{**log, **given})


def make_stellar_event(seen: Provenance | None = None, **given: Any) -> StellarEvent:
    """A raw contract event."""
    event = {
        "seen": seen or make_provenance(chain=STELLAR),
        "event_id": "0000000429496729600-0000000000",
        "contract": SAMPLES[StellarAddress],
        "topics": (SAMPLES[bytes], b""),
        "value": SAMPLES[bytes],
    }
    return StellarEvent(**{**event, **given})
