"""Slots and attempts as the relay knows them: values, whatever chain they are of."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from warehouse_schema.identifiers import TxHash

Purpose: TypeAlias = Literal["deliver", "sweep", "refund", "submit", "onboard"]
Outcome: TypeAlias = Literal["done", "failed", "late", "filled", "overtaken"]
"""As `relay.slots` has it."""

FILL = "fill"
"""Purpose of an attempt that only takes its slot's number, because nothing is owed any more."""


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


@dataclass(frozen=True, slots=True)
class Slot:
    """A number of an account that something may still take effect with."""

    number: int
    purpose: Purpose
    key: str
    subject: str
    attempts: tuple[Attempt, ...]
    """At least one; the newest last."""

    @property
    def newest(self) -> Attempt:
        """The attempt that is sent."""
        return self.attempts[-1]
