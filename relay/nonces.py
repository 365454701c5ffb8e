"""Accounts, jobs, nonce slots and attempts as values, the same for every chain."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Generic, Literal, TypeAlias, TypeVar

from warehouse_schema.identifiers import BlockHash, ChainId, Height, NativeAmount, TxHash

C = TypeVar("C")
"""Content of a transaction, in the types of its chain."""

JobPurpose: TypeAlias = Literal["deliver", "sweep", "refund", "submit", "onboard"]
SlotOutcome: TypeAlias = Literal[
    "confirmed", "reverted", "already_done", "replaced", "nonce_taken", "expired"
]
"""Values of `relay.slots.outcome`."""

FILL = "fill"
"""Purpose of an attempt that does nothing but use up its slot's number."""


@dataclass(frozen=True, slots=True)
class AccountId:
    """One of the relay's accounts on a chain."""

    chain: ChainId
    address: str

    def __str__(self) -> str:
        """Name of its lease."""
        return f"{self.chain} {self.address}"


@dataclass(frozen=True, slots=True)
class SignedTransaction:
    """Transaction that is ready to send."""

    tx: TxHash
    raw: bytes
    max_cost: NativeAmount


@dataclass(frozen=True, slots=True)
class Attempt:
    """One signed transaction of a slot."""

    tx: TxHash
    raw: bytes
    is_fill: bool = False
    signed_ago: float = 0.0
    """Seconds, by the database's clock."""
    sent_ago: float | None = None
    """Seconds since the last broadcast; None before the first."""


@dataclass(frozen=True, slots=True)
class NonceSlot:
    """Nonce or sequence number that is reserved for one job and may still take effect."""

    number: int
    purpose: JobPurpose
    key: str
    subject: str
    attempts: tuple[Attempt, ...]
    """At least one; the newest last."""

    @property
    def newest(self) -> Attempt:
        """The attempt to broadcast."""
        return self.attempts[-1]


@dataclass(frozen=True, slots=True)
class RelayJob(Generic[C]):
    """Work that must take effect once."""

    purpose: JobPurpose
    key: str
    subject: str
    """Transfer that it serves."""
    call: C
    done_view: C | None = None
    """View call that returns non-zero once the effect is on chain, no matter who sent it."""
    done_when_zero: bool = False
    """Inverts `done_view`: zero means done."""
    repeatable_by_others: bool = False
    """Anyone may have the same effect and make the job due again, which no view call shows."""
    is_bound: bool = False
    """No other account can do it: a deposit that names this operator, a consent to this sponsor."""


@dataclass(frozen=True, slots=True)
class Inclusion:
    """Transaction in a block or ledger, as a node reports it."""

    height: Height
    block_hash: BlockHash | None
    """None where the node does not report it."""
    succeeded: bool
    cost: NativeAmount


@dataclass(frozen=True, slots=True)
class AccountState:
    """Balance, number and pending transactions of an account at the head."""

    balance: NativeAmount
    """What it can spend."""
    next_number: int
    """Next number to be included, confirmed by a quorum of operators."""
    furthest_number: int
    """Highest such number that any node reports: sufficient only to replace an attempt."""
    inclusions: Mapping[TxHash, Inclusion]
    """Included transactions among those looked up."""
    head: Height | None = None
    """Block of this state; None on a chain without reorgs."""


@dataclass(frozen=True, slots=True)
class JobName:
    """What identifies a job."""

    purpose: JobPurpose
    key: str
    subject: str
    """Transfer that it serves; empty when the warehouse does not have it."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """Transaction of an account that was found on its chain."""

    tx: TxHash
    raw: bytes
    """Signed bytes; empty when the relay signs no such transactions."""
    is_fill: bool = False


@dataclass(frozen=True, slots=True)
class CloseSlot:
    """The chain's decision about the slot is final."""

    outcome: SlotOutcome
    spent: NativeAmount


class SlotStep(Enum):
    """Step for a slot that stays open."""

    REPLACE = "sign again with the same number"
    SEND = "broadcast the newest attempt"
    CHECK_NONCE = "the number is used and no attempt is in a block: is that final?"
    WAIT = "nothing to do until the chain advances"


NextStep: TypeAlias = CloseSlot | SlotStep


def final_outcome(attempt: Attempt, inclusion: Inclusion) -> CloseSlot:
    """Outcome of a slot whose attempt is in a finalized block."""
    if attempt.is_fill:
        return CloseSlot("replaced", inclusion.cost)
    return CloseSlot("confirmed" if inclusion.succeeded else "reverted", inclusion.cost)
