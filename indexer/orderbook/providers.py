"""Liquidity providers: balances, counters, and what is derived from them. Pure.

`free` and `locked` are the chain's figures. Expired orders that were not pruned are still locked on
chain but back nothing: their locks (`reclaimable`) count as available.
Amounts are 7-decimal integers, times unix seconds.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from indexer.market.escrow_events import (
    EscrowDeposit,
    EscrowWithdraw,
    OrderCancel,
    OrderExpire,
    OrderFulfill,
    OrderOpen,
)
from warehouse_schema.identifiers import BaseUnits, StellarAddress, UnixSeconds

ZERO = BaseUnits(0)


class ProviderRow(NamedTuple):
    """One row of `projections.providers`, field for column."""

    provider: StellarAddress
    paused: bool = False
    free: BaseUnits = ZERO
    locked: BaseUnits = ZERO
    reclaimable: BaseUnits = ZERO
    """Σ lp_lock of orders past expiry and open on chain; 0 for a stale provider."""
    pseq: int = 0
    tseq: int = 0
    active_orders: int = 0
    completed_orders: int = 0
    fulfillment_seconds: int = 0
    last_active_at: UnixSeconds | None = None
    stale: str | None = None

    @property
    def available(self) -> BaseUnits:
        """Balance for new orders: free, and locks of expired orders."""
        return BaseUnits(self.free + self.reclaimable)

    @property
    def committed(self) -> BaseUnits:
        """Locked by active orders; published as `locked`."""
        return BaseUnits(self.locked - self.reclaimable)

    @property
    def avg_fulfillment_seconds(self) -> int:
        """Mean seconds from opening to fulfilment, half a second rounded up; 0 if none."""
        if not self.completed_orders:
            return 0
        return (2 * self.fulfillment_seconds + self.completed_orders) // (2 * self.completed_orders)


BalanceEvent: TypeAlias = (
    EscrowDeposit | EscrowWithdraw | OrderOpen | OrderFulfill | OrderCancel | OrderExpire
)

BALANCE_EFFECTS: dict[type[BalanceEvent], Callable[[Any], tuple[int, int]]] = {
    EscrowDeposit: lambda event: (event.amount, 0),
    EscrowWithdraw: lambda event: (-event.amount, 0),
    OrderOpen: lambda event: (-event.lp_lock, event.lp_lock),
    OrderFulfill: lambda event: (event.lp_free_delta, -event.lp_unlock),
    OrderCancel: lambda event: (event.lp_unlock, -event.lp_unlock),
    OrderExpire: lambda event: (event.lp_unlock, -event.lp_unlock),
}
"""Event type → change of the provider's (free, locked)."""


def balance_objection(before: ProviderRow, event: BalanceEvent) -> tuple[str, str] | None:
    """Contradiction between an Escrow event and the stored figures, as (alarm kind, sentence).

    After a gap the balances are not compared: the expected ones are unknown.
    """
    if event.pseq != before.pseq + 1:
        return "sequence_gap", f"Escrow event {event.pseq} came after {before.pseq}"
    free_delta, locked_delta = BALANCE_EFFECTS[type(event)](event)
    computed = (before.free + free_delta, before.locked + locked_delta)
    if computed != (event.free_after, event.locked_after):
        said = (int(event.free_after), int(event.locked_after))
        return "balance_mismatch", f"Escrow event {event.pseq}: computed {computed}, chain {said}"
    return None


def terms_objection(before: ProviderRow, tseq: int) -> tuple[str, str] | None:
    """Gap before a RailTerms event of the provider, as (alarm kind, sentence)."""
    if tseq == before.tseq + 1:
        return None
    return "sequence_gap", f"RailTerms event {tseq} came after {before.tseq}"
