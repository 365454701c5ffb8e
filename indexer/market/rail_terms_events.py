"""Events of the RailTerms contract, version 1: rails, and what each provider offers on them.

Rates and limits have 7 decimals. `tseq` counts the provider's RailTerms events from 1.
"""

from dataclasses import dataclass
from typing import TypeAlias

from indexer.chains.events import Event
from indexer.market.escrow_events import OrderDirection
from warehouse_schema.identifiers import BaseUnits, Bytes32, StellarAddress


@dataclass(frozen=True, slots=True)
class RailSet(Event):
    """`rail_set` (admin): how a rail's payments are verified, and the protocol fee on it."""

    rail: str
    enabled: bool
    tier: int
    fee_bps: int
    verifier: StellarAddress
    currencies: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TermsSet(Event):
    """`terms_set`: full replacement of the terms at (provider, direction, rail, currency)."""

    provider: StellarAddress
    rail: str
    currency: str
    direction: OrderDirection
    rate: BaseUnits
    """Fiat per 1 USDC."""
    min: BaseUnits
    max: BaseUnits
    tseq: int


@dataclass(frozen=True, slots=True)
class TermsDel(Event):
    """`terms_del`."""

    provider: StellarAddress
    rail: str
    currency: str
    direction: OrderDirection
    tseq: int


@dataclass(frozen=True, slots=True)
class PayeeSet(Event):
    """`payee_set`: where the provider takes fiat on a rail, as a hash and perhaps in plain."""

    provider: StellarAddress
    rail: str
    registered: bool
    payee_hash: Bytes32 | None
    handle: str | None
    tseq: int


@dataclass(frozen=True, slots=True)
class ProviderSet(Event):
    """`provider_set`."""

    provider: StellarAddress
    paused: bool
    tseq: int


RailTermsEvent: TypeAlias = RailSet | TermsSet | TermsDel | PayeeSet | ProviderSet
