"""Unified asset events of Stellar (CAP-67): movements of every asset, classic or not.

An event's last topic names the asset; its emitter is the contract derived from that asset and the
network. Any contract can emit the same topics, so the name only counts if the emitter equals the
derivation. Before protocol 23 `mint`, `clawback` and `set_authorized` also
carried the administrator as topic 1; both forms are read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import get_args

from stellar_sdk import Asset
from stellar_sdk.exceptions import AssetCodeInvalidError, AssetIssuerInvalidError

from indexer.bridges.tokens.events import AssetAuthorization, AssetMovement, AssetMovementKind
from indexer.chains.events import Event, Provenance
from indexer.chains.raw import StellarEvent
from indexer.chains.stellar.xdr.scval import (
    EventDecoder,
    Kind,
    ScVal,
    Topics,
    address,
    amount,
    as_text,
    blob,
    boolean,
    mapping,
    parse,
    signed_amount,
    string,
    topic_name,
    u64,
)
from indexer.config.networks import StellarChain
from indexer.errors import Undecodable
from warehouse_schema.identifiers import AssetId, BaseUnits, StellarAddress

NATIVE = "native"
_TOPIC_COUNTS = {
    "transfer": (4,),
    "mint": (3, 4),
    "burn": (3,),
    "clawback": (3, 4),
    "set_authorized": (3, 4),
    "fee": (2,),
}
_KINDS: dict[str, AssetMovementKind] = {kind: kind for kind in get_args(AssetMovementKind)}


@dataclass(frozen=True, slots=True)
class ForgedAssetEvent:
    """An event that names an asset, emitted by another contract than the asset's."""

    seen: Provenance
    contract: StellarAddress
    claimed: AssetId


def classify_asset_event(
    event: StellarEvent, passphrase: str
) -> AssetMovement | AssetAuthorization | ForgedAssetEvent | None:
    """Classify an event of any contract as an asset event of that network.

    None: not an asset event. A `fee` carries no asset name, so one that another contract than the
    native asset's emits is only that contract's own event.
    Raises `Undecodable` when the asset's own contract emitted a shape that it cannot.
    """
    name = topic_name(event)
    if name not in _TOPIC_COUNTS:
        return None
    claimed = NATIVE if name == "fee" else _claimed_asset(event.topics[-1])
    contract = None if claimed is None else asset_contract(claimed, passphrase)
    if contract is None:
        return None
    asset = AssetId(f"stellar:{claimed}")
    if contract != event.contract:
        return None if name == "fee" else ForgedAssetEvent(event.seen, event.contract, asset)
    topics = Topics.of(event, *_TOPIC_COUNTS[name])
    if name == "set_authorized":
        return _authorization(event, topics, asset)
    kind = _KINDS[name]
    sender, recipient = _parties(kind, topics)
    moved, muxed_id = _amount_and_muxed_id(kind, event)
    return AssetMovement(
        seen=event.seen,
        kind=kind,
        contract=event.contract,
        asset=asset,
        sender=sender,
        recipient=recipient,
        amount=moved,
        to_muxed_id=muxed_id,
    )


@lru_cache(maxsize=1024)
def _claimed_asset(topic: bytes) -> str | None:
    """The text of an event's last topic; None when it is none."""
    last = parse(topic)
    return as_text(string(last)) if last.kind is Kind.SCV_STRING else None


@lru_cache(maxsize=8192)
def asset_contract(name: str, passphrase: str) -> StellarAddress | None:
    """The contract of `native` or `CODE:ISSUER` (SEP-11); None when that names no asset."""
    if name == NATIVE:
        return StellarAddress(Asset.native().contract_id(passphrase))
    code, _, issuer = name.partition(":")
    try:
        asset = Asset(code, issuer)
    except (AssetCodeInvalidError, AssetIssuerInvalidError):
        return None
    # Asset("XLM", "") is the native asset, whose name is not that.
    return None if asset.is_native() else StellarAddress(asset.contract_id(passphrase))


def _parties(
    kind: AssetMovementKind, topics: Topics
) -> tuple[StellarAddress | None, StellarAddress | None]:
    """Sender and recipient. In the old form the administrator precedes the holder."""
    if kind == "transfer":
        return topics.read(1, address), topics.read(2, address)
    if kind == "fee":
        return topics.read(1, address), None
    holder = topics.read(-2, address)
    return (None, holder) if kind == "mint" else (holder, None)


def _amount_and_muxed_id(
    kind: AssetMovementKind, event: StellarEvent
) -> tuple[BaseUnits, str | None]:
    """An i128, or a map of it and of the recipient's muxed id; unknown keys are ignored."""
    try:
        data = parse(event.value)
        if data.kind is not Kind.SCV_MAP:
            return (signed_amount(data) if kind == "fee" else amount(data)), None
        fields = mapping(data)
        if "amount" not in fields:
            raise Undecodable("is a map without amount")
        muxed_id = fields.get("to_muxed_id")
        return amount(fields["amount"]), None if muxed_id is None else _muxed_id(muxed_id)
    except Undecodable as error:
        raise Undecodable(f"{kind}: data {error}") from error


def _muxed_id(value: ScVal) -> str | None:
    """`123`, `text:…`, `bytes:<hex>` for text that is not UTF-8 or has NUL, `hash:<hex>`.

    None for void, which is the same as no id. A muxed contract's id is always a u64 (CAP-84).
    """
    match value.kind:
        case Kind.SCV_VOID:
            return None
        case Kind.SCV_U64:
            return str(u64(value))
        case Kind.SCV_BYTES:
            return f"hash:{blob(value).hex()}"
        case Kind.SCV_STRING:
            raw = string(value)
            decoded = as_text(raw)
            return f"bytes:{raw.hex()}" if decoded is None else f"text:{decoded}"
        case _:
            raise Undecodable(f"has a to_muxed_id of type {value.kind.name}")


def _authorization(event: StellarEvent, topics: Topics, asset: AssetId) -> AssetAuthorization:
    try:
        authorized = boolean(parse(event.value))
    except Undecodable as error:
        raise Undecodable(f"set_authorized: data {error}") from error
    return AssetAuthorization(
        seen=event.seen,
        contract=event.contract,
        asset=asset,
        holder=topics.read(-2, address),
        authorized=authorized,
    )


def _asset_event(event: StellarEvent, chain: StellarChain) -> Event | None:
    found = classify_asset_event(event, chain.passphrase)
    if isinstance(found, ForgedAssetEvent):
        raise Undecodable(f"{event.contract} emitted an event of {found.claimed}, not its asset")
    return found


_ASSET_EVENTS: Mapping[str, EventDecoder] = dict.fromkeys(
    ("transfer", "mint", "burn", "clawback", "set_authorized"), _asset_event
)

DECODERS: Mapping[str, Mapping[str, EventDecoder]] = {
    "usdc_contract": _ASSET_EVENTS,
    "usdt0_contract": _ASSET_EVENTS,
}
"""Field of `StellarChain` that names the contract → topic 0 → decoder."""
