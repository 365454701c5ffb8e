"""Events of the RailTerms contract, version 1: rails, and providers' terms on them.

Rates and limits have 7 decimals. `tseq` counts the provider's RailTerms events from 1.
"""

from dataclasses import dataclass
from typing import TypeAlias

from indexer.chains.events import Event
from indexer.market.escrow_events import OrderDirection
from warehouse_schema.identifiers import BaseUnits, Bytes32, StellarAddress


@dataclass(frozen=True, slots=True)
class RailSet(Event):
    """`rail_set` (admin): verification and protocol fee of a rail."""

    rail: str
    enabled: bool
    tier: int
    fee_bps: int
    verifier: StellarAddress
    currencies: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TermsSet(Event):
    """`terms_set`: replaces the terms of (provider, direction, rail, currency)."""

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
    """`payee_set`: fiat account of a provider on a rail, as a hash and optionally in plain text."""

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
