"""Events of our DepositFactory."""

from dataclasses import dataclass

from indexer.chains.events import Event
from warehouse_schema.identifiers import BaseUnits, EvmAddress


@dataclass(frozen=True, slots=True)
class DepositRefunded(Event):
    """`Refunded` of our deposit factory: a deposit address returned its balance of a known token.

    Anyone can invent terms and refund their address: the event is a transfer's only if `deposit` is
    the address of its deposit.
    """

    deposit: EvmAddress
    token: EvmAddress
    refund_to: EvmAddress
    amount: BaseUnits
