"""Slots and attempts as the relay knows them: values, whatever chain they are of."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, Literal, TypeAlias, TypeVar

from warehouse_schema.identifiers import BlockHash, Height, TxHash

C = TypeVar("C")
"""What a transaction does, in the words of its chain."""

JobPurpose: TypeAlias = Literal["deliver", "sweep", "refund", "submit", "onboard"]
SlotOutcome: TypeAlias = Literal["done", "failed", "late", "filled", "overtaken", "expired"]
"""As `relay.slots` has it."""

FILL = "fill"
"""Purpose of an attempt that only takes its slot's number, because nothing is owed any more."""


@dataclass(frozen=True, slots=True)
class SignedTransaction:
    """A transaction that only has to be sent."""

    tx: TxHash
    raw: bytes
    most_cost: int
    """Native base units that it takes at worst."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A signed transaction of a slot."""

    tx: TxHash
    raw: bytes
    is_fill: bool
    signed_ago: float
    """Seconds, by the database's clock."""
    sent_ago: float | None
    """Seconds since it was sent last; None if it never was."""

    @classmethod
    def unsent(cls, signed: SignedTransaction, *, is_fill: bool = False) -> "Attempt":
        """Of what was signed just now."""
        return cls(signed.tx, signed.raw, is_fill, 0.0, None)


@dataclass(frozen=True, slots=True)
class NonceSlot:
    """A number of an account that something may still take effect with."""

    number: int
    purpose: JobPurpose
    key: str
    subject: str
    attempts: tuple[Attempt, ...]
    """At least one; the newest last."""

    @property
    def newest(self) -> Attempt:
        """The attempt that is sent."""
        return self.attempts[-1]


@dataclass(frozen=True, slots=True)
class RelayJob(Generic[C]):
    """Something that is to happen once."""

    purpose: JobPurpose
    key: str
    subject: str
    call: C
    is_over: C | None = None
    """A view that answers with anything but nought once it has happened, by whomever."""
    is_over_at_nought: bool = False
    """Or that view answers with nought then, and with something before."""
    is_anybodys: bool = False
    """Others may do it as well and let it be owed anew, so that no view says they were faster."""


@dataclass(frozen=True, slots=True)
class Inclusion:
    """A transaction in a block or ledger, as a node says."""

    height: Height
    block_hash: BlockHash | None
    """None where the node does not say it."""
    succeeded: bool
    cost: int
    """Native base units that it took."""


@dataclass(frozen=True, slots=True)
class AccountState:
    """An account at the head."""

    balance: int
    """Native base units that it may spend."""
    next_number: int
    """Of what comes next into a block, by as many operators as are needed."""
    furthest_number: int
    """The same by the word of anybody: enough to sign again with a number, and for no more."""
    inclusions: Mapping[TxHash, Inclusion]
    """Those of the transactions asked about that are in a block, by hash."""
    head: Height | None = None
    """Block as of which that is; None where no block is ever taken back."""


@dataclass(frozen=True, slots=True)
class CloseSlot:
    """The chain has finally decided."""

    outcome: SlotOutcome
    spent: int
    """Native base units."""


@dataclass(frozen=True, slots=True)
class ReplaceAttempt:
    """Sign again with the same number."""


@dataclass(frozen=True, slots=True)
class SendAttempt:
    """Give the newest attempt to a node."""


@dataclass(frozen=True, slots=True)
class CheckEffect:
    """The number is used and none of ours is in a block: a node has to say whether for good."""


@dataclass(frozen=True, slots=True)
class WaitForChain:
    """Nothing to do before the chain goes on."""


NextStep: TypeAlias = CloseSlot | ReplaceAttempt | SendAttempt | CheckEffect | WaitForChain


def final_outcome(attempt: Attempt, inclusion: Inclusion) -> CloseSlot:
    """What an attempt in a block that stays has come to."""
    if attempt.is_fill:
        return CloseSlot("filled", inclusion.cost)
    return CloseSlot("done" if inclusion.succeeded else "failed", inclusion.cost)
