"""The inputs of a transfer's fold: rows of clients, relay and indexer, and facts.

Every tuple is a set: the order of its rows means nothing. Times are unix seconds; those of chains
are block times, those of rows the database's clock.
"""

from dataclasses import dataclass
from typing import Literal, Self, TypeAlias

from indexer.chains.events import Provenance
from indexer.config.routes import Mechanism
from indexer.movements.fold import MovementStage
from warehouse_schema.identifiers import (
    Address,
    BaseUnits,
    Bytes32,
    ChainId,
    EvmAddress,
    StellarAddress,
    TxHash,
    UnixSeconds,
)

Purpose: TypeAlias = Literal["submit", "sweep", "deliver", "refund", "onboard"]
"""Purpose of a relay transaction: the owner's own signed one, the burn or send from a deposit
address, the delivery on the destination chain, a deposit refund, an account's trustline."""

NO_TRUSTLINE = "no_trustline"
"""Obstacle that the recipient can clear."""
WOULD_FAIL = "would_fail"
"""Obstacle that keeps the relay from sending the owner's signed transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferTerms:
    """Terms agreed when the transfer was created; they never change."""

    id: str
    """16 bytes, 32 hex digits: the label that its burn carries."""
    owner: StellarAddress
    mechanism: Mechanism
    source_chain: ChainId
    source_address: Address
    """The payer; a deposit is refunded there."""
    source_token: Address
    """Token contract on the source chain."""
    dest_chain: ChainId
    dest_address: Address
    amount_in: BaseUnits
    """Source chain base units."""
    min_refund: BaseUnits
    """Minimum of an automatic refund, source chain base units."""
    deposit_address: EvmAddress | None
    """Address that takes the deposit; None when the payer sends the burn itself."""
    started_at: UnixSeconds
    expires_at: UnixSeconds


@dataclass(frozen=True, slots=True, order=True)
class ChainPosition:
    """Position of an event on its chain. Sorts in chain order, within one chain."""

    height: int
    position: int
    chain: ChainId
    tx: TxHash
    at: UnixSeconds

    @classmethod
    def of(cls, seen: Provenance) -> Self:
        """The position of an event."""
        return cls(seen.height, seen.position, seen.chain, seen.tx_hash, seen.block_time)


@dataclass(frozen=True, slots=True)
class DeliveryReceipt:
    """Transaction and time of a delivery."""

    chain: ChainId
    tx: TxHash
    at: UnixSeconds


@dataclass(frozen=True, slots=True, order=True)
class SentTransaction:
    """A transaction that the owner submitted, or that the relay signed."""

    at: UnixSeconds
    tx: TxHash
    """On Stellar the inner hash: fee bumps do not change it."""
    purpose: Purpose


@dataclass(frozen=True, slots=True, order=True)
class FailedTransaction:
    """A transaction of the owner that a ledger included without effect."""

    at: UnixSeconds
    """When that became final, by the database's clock."""
    tx: TxHash
    sent_at: UnixSeconds
    """When it was submitted."""


@dataclass(frozen=True, slots=True, order=True)
class Payment:
    """A token payment to the deposit address, or a refund from it."""

    place: ChainPosition
    token: Address
    amount: BaseUnits


@dataclass(frozen=True, slots=True)
class MatchedMovement:
    """A movement that matches the transfer in every point, or the payment that is a send.

    `stage` and `why` are the movement's own (`indexer.movements`); a payment is COMPLETED, its
    source is its delivery.
    """

    movement: str
    source: ChainPosition | None
    """The burn or send; None while only its delivery was seen."""
    is_final: bool
    """Whether the source can no longer be reorganised away."""
    stage: MovementStage
    why: str | None
    ready_at: UnixSeconds | None
    """When it was attested or verified; None before, and where it is unknown."""
    delivered: DeliveryReceipt | None
    amount_out: BaseUnits | None
    """Destination chain base units, once delivered."""
    message_id: Bytes32 | None


@dataclass(frozen=True, slots=True)
class RewoundSource:
    """A source event of the transfer whose block its chain reorganised away."""

    tx: TxHash
    at: UnixSeconds
    """When that was noticed."""
    paid: BaseUnits | None
    """Its payment to the deposit address, in `source_token`; None for a burn or send."""


@dataclass(frozen=True, slots=True, order=True)
class Obstacle:
    """Why no retry moves the transfer on."""

    since: UnixSeconds
    kind: str
    """`no_trustline`, or a kind that an operator has to look at: frozen, refused, …"""
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferInputs:
    """All that is known of one transfer."""

    terms: TransferTerms
    cancelled_at: UnixSeconds | None = None
    expired_at: UnixSeconds | None = None
    """When the indexer found that time ran out before anything irreversible happened."""
    submissions: tuple[SentTransaction, ...] = ()
    attempts: tuple[SentTransaction, ...] = ()
    dead: frozenset[TxHash] = frozenset()
    """Transactions proven to have no effect: failed, or their nonce was taken at finality."""
    failed: tuple[FailedTransaction, ...] = ()
    paid: tuple[Payment, ...] = ()
    returned: tuple[Payment, ...] = ()
    matched: tuple[MatchedMovement, ...] = ()
    extras: tuple[str, ...] = ()
    """Movements that pay the recipient otherwise than agreed; they complete nothing."""
    rewound: tuple[RewoundSource, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()

    @property
    def closed_at(self) -> UnixSeconds | None:
        """When it was cancelled or expired."""
        return self.cancelled_at if self.cancelled_at is not None else self.expired_at
