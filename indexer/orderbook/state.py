"""State of the order book as of a ledger, and the changes of a ledger. Pure data."""

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from indexer.market.escrow_events import EscrowEvent
from indexer.market.rail_terms_events import RailTermsEvent
from indexer.orderbook.depth import NO_TOTALS, RailDepthRow, Totals
from indexer.orderbook.offers import (
    OfferChanges,
    OfferKey,
    OfferRow,
    PayeeRow,
    RailRow,
    TermsKey,
    TermsRow,
)
from indexer.orderbook.orders import OrderRow
from indexer.orderbook.providers import ProviderRow
from warehouse_schema.identifiers import Bytes32, ChainId, Height, StellarAddress, UnixSeconds

BookEvent: TypeAlias = EscrowEvent | RailTermsEvent


@dataclass(frozen=True, slots=True)
class LedgerClose:
    """A closed ledger: the order book's clock."""

    chain: ChainId
    height: Height
    close_time: UnixSeconds


@dataclass(frozen=True, slots=True)
class BookAlarm:
    """A contradiction for an operator; one row of `facts.alarms`."""

    kind: str
    subject: str
    """A provider's address, or `ESCROW`."""
    detail: str


@dataclass(frozen=True, slots=True)
class BookConfig:
    """The Escrow contract's configuration; the first six are None before `config_set`."""

    token: StellarAddress | None = None
    rail_terms: StellarAddress | None = None
    fee_to: StellarAddress | None = None
    order_ttl: int | None = None
    bond_bps: int | None = None
    max_open: int | None = None
    opens_paused: bool = False
    all_paused: bool = False

    @property
    def takes_no_orders(self) -> bool:
        """Whether the contract refuses to open orders."""
        return self.opens_paused or self.all_paused


@dataclass(frozen=True, slots=True)
class ProviderBook:
    """One provider without its orders. Its mappings are never changed in place."""

    figures: ProviderRow
    terms: Mapping[TermsKey, TermsRow] = field(default_factory=dict)
    payees: Mapping[str, PayeeRow] = field(default_factory=dict)
    offers: Mapping[OfferKey, OfferRow] = field(default_factory=dict)
    """As published by the last ledger."""


@dataclass(slots=True)
class BookState:
    """The book, or the part that the next ledgers affect. Only `advance` changes it."""

    as_of: LedgerClose | None = None
    config: BookConfig = BookConfig()
    rails: dict[str, RailRow] = field(default_factory=dict)
    books: dict[StellarAddress, ProviderBook] = field(default_factory=dict)
    orders: dict[Bytes32, OrderRow] = field(default_factory=dict)
    depth: dict[str, RailDepthRow] = field(default_factory=dict)
    totals: Totals = NO_TOTALS
    expiries: list[tuple[UnixSeconds, Bytes32]] = field(default_factory=list)
    """Heap of (expires_at, order) of active orders; may contain ended ones."""

    def watch_expiry(self, order: OrderRow) -> None:
        """Add an active order to the expiry heap."""
        heapq.heappush(self.expiries, (order.expires_at, order.order_id))


@dataclass(frozen=True, slots=True)
class BookTurn:
    """A provider before and after; `before` is None for a new one."""

    before: ProviderBook | None
    after: ProviderBook


@dataclass(frozen=True, slots=True)
class BookChanges:
    """Changes of one ledger, or of consecutive ones. Other rows stay."""

    ledger: LedgerClose
    config: BookConfig
    rails: Mapping[str, RailRow]
    books: Mapping[StellarAddress, BookTurn]
    orders: Mapping[Bytes32, OrderRow]
    """Orders opened or changed."""
    depth: Mapping[str, RailDepthRow]
    """Rails whose depth changed; an `offer_count` of 0 deletes the row."""
    totals: Totals
    offers: OfferChanges
    intents: tuple[OrderRow, ...]
    """Orders as published, in order: at opening and at each final status."""
    alarms: tuple[BookAlarm, ...]
