"""Token movements: ERC-20 transfers, and Stellar's unified asset events (CAP-67, SEP-41)."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from indexer.chains.events import Event
from warehouse_schema.identifiers import AssetId, BaseUnits, EvmAddress, StellarAddress

AssetMovementKind: TypeAlias = Literal["transfer", "mint", "burn", "clawback", "fee"]


@dataclass(frozen=True, slots=True)
class Erc20Transfer(Event):
    """`Transfer(address,address,uint256)` of an indexed token to a watched address."""

    token: EvmAddress
    sender: EvmAddress
    recipient: EvmAddress
    amount: BaseUnits


@dataclass(frozen=True, slots=True)
class AssetMovement(Event):
    """A classic asset or XLM moved; the emitting contract is the asset's own (verified)."""

    kind: AssetMovementKind
    contract: StellarAddress
    asset: AssetId
    """`stellar:CODE:ISSUER`, or `stellar:native`."""
    sender: StellarAddress | None
    """None for a mint."""
    recipient: StellarAddress | None
    """None for a burn, a clawback and a fee."""
    amount: BaseUnits
    """7 decimals. Negative only for a fee refund."""
    to_muxed_id: str | None
    """The recipient's muxed id or the transaction's memo: decimal u64, `text:…` or `hash:<hex>`."""


@dataclass(frozen=True, slots=True)
class AssetAuthorization(Event):
    """`set_authorized`: an issuer allowed or froze a holder."""

    contract: StellarAddress
    asset: AssetId
    holder: StellarAddress
    authorized: bool
