"""What the fold of a transfer rests on: rows of clients, relay and indexer, and facts.

Every tuple is a set: in which order its rows arrived means nothing. Times are unix seconds; those
of chains are block times, those of rows the database's clock.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from indexer.config.routes import Mechanism
from indexer.movements.fold import MovementStage as MovementStage
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
"""What the relay sends a transaction for: the owner's own signed one, the burn or send from a
deposit address, the delivery on the destination chain, a deposit back, an account's trustline."""

NO_TRUSTLINE = "no_trustline"
"""The obstacle that the recipient can clear by itself."""
WOULD_FAIL = "would_fail"
"""The obstacle that keeps the relay from sending what the owner signed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferTerms:
    """What was agreed when the transfer was created; never changes."""

    id: str
    """16 bytes, 32 hex digits: the label that its burn carries."""
    owner: StellarAddress
    mechanism: Mechanism
    source_chain: ChainId
    source_address: Address
    """Who is to pay; a deposit goes back there."""
    source_token: Address
    """Token contract on the source chain."""
    dest_chain: ChainId
    dest_address: Address
    amount_in: BaseUnits
    """Source chain base units."""
    min_refund: BaseUnits
    """Least that is sent back by itself, source chain base units."""
    deposit_address: EvmAddress | None
    """Where a deposit is paid in; None when the payer sends the burn itself."""
    started_at: UnixSeconds
    expires_at: UnixSeconds


@dataclass(frozen=True, slots=True, order=True)
class ChainPosition:
    """Where on its chain something happened. Orders as it happened, within one chain."""

    height: int
    position: int
    chain: ChainId
    tx: TxHash
    at: UnixSeconds


@dataclass(frozen=True, slots=True)
class DeliveryReceipt:
    """Where and when it was delivered."""

    chain: ChainId
    tx: TxHash
    at: UnixSeconds


@dataclass(frozen=True, slots=True, order=True)
class SentTransaction:
    """A transaction that the owner submitted and we accepted, or that the relay signed."""

    at: UnixSeconds
    tx: TxHash
    """On Stellar the inner hash, which no fee bump changes."""
    purpose: Purpose


@dataclass(frozen=True, slots=True, order=True)
class FailedTransaction:
    """A transaction of the owner's that a ledger included without effect."""

    at: UnixSeconds
    """When that was final, by the database's clock."""
    tx: TxHash
    sent_at: UnixSeconds
    """When it was submitted."""


@dataclass(frozen=True, slots=True, order=True)
class Payment:
    """A token paid to the deposit address, or by it to whom it refunds."""

    place: ChainPosition
    token: Address
    amount: BaseUnits


@dataclass(frozen=True, slots=True)
class MatchedMovement:
    """A movement that matches the transfer in everything, or the payment that is a send.

    `stage` and `why` are the movement's own (`projections/transfers.py`); a payment is COMPLETED,
    its source is its delivery.
    """

    movement: str
    source: ChainPosition | None
    """The burn or send; None while only its delivery was seen."""
    is_final: bool
    """Whether its chain can no longer take the source back."""
    stage: MovementStage
    why: str | None
    ready_at: UnixSeconds | None
    """When it was attested or verified; None before, and where nobody said."""
    delivered: DeliveryReceipt | None
    amount_out: BaseUnits | None
    """Destination chain base units, once delivered."""
    message_id: Bytes32 | None


@dataclass(frozen=True, slots=True)
class RewoundSource:
    """A source event of the transfer that its chain took back with its block."""

    tx: TxHash
    at: UnixSeconds
    """When that was noticed."""
    paid: BaseUnits | None
    """What it had paid to the deposit address, in `source_token`; None for a burn or send."""


@dataclass(frozen=True, slots=True, order=True)
class Obstacle:
    """Why no retry moves the transfer on, as long as it stands."""

    since: UnixSeconds
    kind: str
    """`no_trustline`, or what an operator has to look at: frozen, refused, …"""
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferInputs:
    """All there is about one transfer."""

    terms: TransferTerms
    cancelled_at: UnixSeconds | None = None
    expired_at: UnixSeconds | None = None
    """When the indexer found that time had run out while nothing irreversible had happened."""
    submissions: tuple[SentTransaction, ...] = ()
    attempts: tuple[SentTransaction, ...] = ()
    dead: frozenset[TxHash] = frozenset()
    """Transactions proven never to take effect any more: failed, or overtaken at finality."""
    failed: tuple[FailedTransaction, ...] = ()
    paid: tuple[Payment, ...] = ()
    returned: tuple[Payment, ...] = ()
    matched: tuple[MatchedMovement, ...] = ()
    extras: tuple[str, ...] = ()
    """Movements that pay the recipient otherwise than agreed; they carry nothing of this."""
    rewound: tuple[RewoundSource, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()

    @property
    def closed_at(self) -> UnixSeconds | None:
        """When it was cancelled or ran out, whichever the rows say."""
        return self.cancelled_at if self.cancelled_at is not None else self.expired_at
