"""Events of the Escrow contract, version 1: provider balances, and orders that lock them.

Amounts, rates and fiat amounts have 7 decimals. `free_after` and `locked_after` are the provider's
escrow balances after the event; `pseq` counts the provider's Escrow events from 1.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from indexer.chains.events import Event
from warehouse_schema.identifiers import BaseUnits, Bytes32, StellarAddress, UnixSeconds

OrderDirection: TypeAlias = Literal["onramp", "offramp"]
ClaimKind: TypeAlias = Literal["proof", "manual"]
CancelledBy: TypeAlias = Literal["taker", "provider", "admin"]


@dataclass(frozen=True, slots=True)
class EscrowConfigSet(Event):
    """`config_set`."""

    token: StellarAddress
    rail_terms: StellarAddress
    admin: StellarAddress
    fee_to: StellarAddress
    order_ttl: int
    """Seconds from opening to expiry."""
    bond_bps: int
    max_open: int


@dataclass(frozen=True, slots=True)
class EscrowDeposit(Event):
    """`deposit`."""

    provider: StellarAddress
    amount: BaseUnits
    from_address: StellarAddress
    free_after: BaseUnits
    locked_after: BaseUnits
    pseq: int


@dataclass(frozen=True, slots=True)
class EscrowWithdraw(Event):
    """`withdraw`."""

    provider: StellarAddress
    amount: BaseUnits
    to_address: StellarAddress
    free_after: BaseUnits
    locked_after: BaseUnits
    pseq: int


@dataclass(frozen=True, slots=True)
class OrderOpen(Event):
    """`order_open`: snapshot of terms, tier, fee and payee for the order's life."""

    provider: StellarAddress
    taker: StellarAddress
    order_id: Bytes32
    direction: OrderDirection
    rail: str
    currency: str
    amount: BaseUnits
    rate: BaseUnits
    fiat_amount: BaseUnits
    lp_lock: BaseUnits
    taker_lock: BaseUnits
    payee_hash: Bytes32
    expires_at: UnixSeconds
    tier: int
    fee_bps: int
    free_after: BaseUnits
    locked_after: BaseUnits
    pseq: int


@dataclass(frozen=True, slots=True)
class OrderFulfill(Event):
    """`order_fulfill`: settled by a payment proof, or released manually by the fiat's receiver."""

    provider: StellarAddress
    taker: StellarAddress
    order_id: Bytes32
    claim: ClaimKind
    nullifier: Bytes32 | None
    """None for a manual release."""
    released: BaseUnits
    fee: BaseUnits
    net: BaseUnits
    recipient: StellarAddress
    lp_unlock: BaseUnits
    lp_free_delta: BaseUnits
    taker_refund: BaseUnits
    fiat_paid: BaseUnits | None
    paid_at: UnixSeconds | None
    free_after: BaseUnits
    locked_after: BaseUnits
    pseq: int


@dataclass(frozen=True, slots=True)
class OrderCancel(Event):
    """`order_cancel`."""

    provider: StellarAddress
    taker: StellarAddress
    order_id: Bytes32
    by: CancelledBy
    lp_unlock: BaseUnits
    taker_refund: BaseUnits
    free_after: BaseUnits
    locked_after: BaseUnits
    pseq: int


@dataclass(frozen=True, slots=True)
class OrderExpire(Event):
    """`order_expire`: records on chain that the expiry has passed."""

    provider: StellarAddress
    taker: StellarAddress
    order_id: Bytes32
    by: StellarAddress
    lp_unlock: BaseUnits
    taker_refund: BaseUnits
    free_after: BaseUnits
    locked_after: BaseUnits
    pseq: int


@dataclass(frozen=True, slots=True)
class EscrowPausedSet(Event):
    """`paused_set`."""

    opens: bool
    all: bool


@dataclass(frozen=True, slots=True)
class EscrowUpgraded(Event):
    """`upgraded`."""

    wasm_hash: Bytes32
    schema: int


EscrowEvent: TypeAlias = (
    EscrowConfigSet
    | EscrowDeposit
    | EscrowWithdraw
    | OrderOpen
    | OrderFulfill
    | OrderCancel
    | OrderExpire
    | EscrowPausedSet
    | EscrowUpgraded
)
