"""Upgrades of a chain's protocol that this build cannot read."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Upgrade:
    """A protocol that a node is ready for."""

    protocol: int
    detail: str
    """How it was seen and what is to be done, as an operator reads it."""


@runtime_checkable
class ReportsUpgrades(Protocol):
    """A reader whose nodes say which protocol they are ready for."""

    def upgrade_ahead(self) -> Upgrade | None:
        """The newest one beyond this build; None when there is none.

        Raises `RetryableChainError` or `PermanentChainError`.
        """
