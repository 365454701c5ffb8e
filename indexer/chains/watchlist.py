"""Addresses whose token movements are wanted, however many there are.

Anybody can have an address watched, at no cost: a key is free, and so is a transfer that is never
paid. So nobody asks a node about each of them. A reader takes what a token did in its blocks and
looks up the addresses it finds there; only where there are few may all of them be listed.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol, TypeAlias


class Watchlist(Protocol):
    """The watched addresses of one chain."""

    def intersection(self, addresses: Collection[str]) -> Collection[str]:
        """Those of `addresses` that are watched."""

    def addresses_up_to(self, limit: int) -> Collection[str] | None:
        """All watched addresses; None when there are more than `limit`."""


@dataclass(frozen=True, slots=True)
class FixedWatchlist:
    """Addresses that are known from the start."""

    addresses: frozenset[str]

    def intersection(self, addresses: Collection[str]) -> Collection[str]:
        """As `Watchlist`."""
        return self.addresses.intersection(addresses)

    def addresses_up_to(self, limit: int) -> Collection[str] | None:
        """As `Watchlist`."""
        return self.addresses if len(self.addresses) <= limit else None


Watched: TypeAlias = Watchlist | Collection[str]
"""What readers take: a list that is asked, or the addresses themselves."""


def as_watchlist(watched: Watched) -> Watchlist:
    """The list to ask."""
    return FixedWatchlist(frozenset(watched)) if isinstance(watched, Collection) else watched
