"""Watchlist: addresses whose token transfers are read, however many there are.

Anybody can have an address watched at no cost: a key is free, and so is a transfer that is never
paid. So a node is not asked about each of them. A reader takes the token transfers of its blocks
and looks up their addresses, after it has seen the block: an address is stored before its owner
gets it, so no block pays one that is not found then. Only a short list is sent to the node, and
only for more than one block.
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

    def recent_up_to(self, limit: int) -> Collection[str] | None:
        """As `addresses_up_to`, maybe without those of the last seconds: for checks of a block."""


@dataclass(frozen=True, slots=True)
class FixedWatchlist:
    """A `Watchlist` of addresses that are known from the start."""

    addresses: frozenset[str]

    def intersection(self, addresses: Collection[str]) -> Collection[str]:
        """As `Watchlist`."""
        return self.addresses.intersection(addresses)

    def addresses_up_to(self, limit: int) -> Collection[str] | None:
        """As `Watchlist`."""
        return self.addresses if len(self.addresses) <= limit else None

    def recent_up_to(self, limit: int) -> Collection[str] | None:
        """As `Watchlist`."""
        return self.addresses_up_to(limit)


Watched: TypeAlias = Watchlist | Collection[str]
"""What readers take: a watchlist or its addresses."""


def as_watchlist(watched: Watched) -> Watchlist:
    """The watchlist, made from addresses if need be."""
    return FixedWatchlist(frozenset(watched)) if isinstance(watched, Collection) else watched
