"""Reads the order book as the indexer's row types. Each function takes one `read_snapshot`."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, Text, bindparam, case, cast, func, literal_column, select
from sqlalchemy.dialects.postgresql import aggregate_order_by

from api.errors import OrderBookNotReady
from indexer.orderbook.depth import RailDepthRow, Totals
from indexer.orderbook.offers import (
    OfferRow,
    PayeeRow,
    RailRow,
    TermsRow,
    accepted_rails,
    live_terms,
)
from indexer.orderbook.orders import OrderRow
from indexer.orderbook.providers import ProviderRow
from warehouse_schema import projections as tables
from warehouse_schema.identifiers import (
    BaseUnits,
    Bytes32,
    ChainId,
    Height,
    StellarAddress,
    UnixSeconds,
)


@dataclass(frozen=True, slots=True)
class Book:
    """The order book's clock and depth; equal to another only while nothing stored has changed.

    Every write to the book's tables also writes its row in `book`, in the same transaction
    (`indexer.orderbook.store`), so that row's transaction changes with every change, within one run
    of one server. Offers change only together with a message in the stream's outbox; depth, which a
    rebuild may repair alone, is read with the row.
    """

    ledger: Height
    close_time: UnixSeconds
    takes_no_orders: bool
    totals: Totals
    depth: Mapping[str, RailDepthRow]
    """Of each rail that has an offer, in order of name."""
    written_by: int
    """Transaction that last wrote the book."""
    last_message: int | None
    """Id of the newest message in the outbox; None while it is empty."""

    def age(self, now: UnixSeconds) -> int:
        """Seconds since its ledger closed; 0 where that clock is ahead."""
        return max(0, now - self.close_time)


_DEPTH = select(
    func.jsonb_agg(
        aggregate_order_by(
            func.jsonb_build_array(
                tables.depth.c.rail,
                # As text: a number of JSON may lose digits.
                cast(tables.depth.c.available, Text),
                tables.depth.c.offer_count,
            ),
            tables.depth.c.rail.collate("C"),
        )
    )
)
_BOOK = select(
    tables.book,
    literal_column("book.xmin::text::bigint").label("written_by"),
    select(func.max(tables.stream_events.c.id)).scalar_subquery().label("last_message"),
    _DEPTH.scalar_subquery().label("depth"),
).where(tables.book.c.chain == bindparam("of_chain"))
"""Built once: it runs many times a second."""


def read_book(connection: Connection, chain: ChainId) -> Book | None:
    """The book as of the last folded ledger; None before the first."""
    row = connection.execute(_BOOK, {"of_chain": chain}).one_or_none()
    if row is None:
        return None
    return Book(
        ledger=row.as_of_ledger,
        close_time=row.as_of,
        takes_no_orders=row.opens_paused or row.all_paused,
        totals=Totals(row.total_available, row.total_locked, row.offer_count),
        depth={
            rail: RailDepthRow(BaseUnits(int(available)), offer_count)
            for rail, available, offer_count in row.depth or ()
        },
        written_by=row.written_by,
        last_message=row.last_message,
    )


def require_book(connection: Connection, chain: ChainId) -> Book:
    """As `read_book`. Raises `OrderBookNotReady`."""
    book = read_book(connection, chain)
    if book is None:
        raise OrderBookNotReady(f"no ledger of {chain} has been folded yet")
    return book


def offers(connection: Connection) -> list[OfferRow]:
    """Every offer, the taker's best rate first within each direction and currency."""
    offer = tables.offers.c
    # A buyer of USDC wants to pay little fiat for one, a seller wants to get much.
    cost = case((offer.direction == "onramp", offer.rate), else_=-offer.rate)
    query = (
        select(tables.offers)
        # Collations are named so that the order does not depend on the database's default; the
        # rails make it total.
        .order_by(
            offer.direction.collate("C"),
            offer.currency.collate("C"),
            cost,
            offer.available.desc(),
            offer.provider.collate("C"),
            offer.rails,
        )
    )
    return [OfferRow(**row._mapping) for row in connection.execute(query)]


def provider(
    connection: Connection, address: StellarAddress, *, takes_no_orders: bool
) -> tuple[ProviderRow, tuple[str, ...]] | None:
    """A provider with at least one event, and its accepted rails; None for any other address."""
    row = connection.execute(
        select(tables.providers).where(tables.providers.c.provider == address)
    ).one_or_none()
    if row is None:
        return None
    figures = ProviderRow(**row._mapping)
    terms = connection.execute(select(tables.terms).where(tables.terms.c.provider == address))
    payees = connection.execute(select(tables.payees).where(tables.payees.c.provider == address))
    rails = connection.execute(select(tables.rails))
    live = live_terms(
        figures,
        [TermsRow(**row._mapping) for row in terms],
        {row.rail: PayeeRow(**row._mapping) for row in payees},
        {row.rail: RailRow(**row._mapping) for row in rails},
        takes_no_orders,
    )
    return figures, accepted_rails(live)


def order(connection: Connection, order_id: Bytes32) -> OrderRow | None:
    """An order whose opening was seen; None for any other id."""
    row = connection.execute(
        select(tables.orders).where(tables.orders.c.order_id == order_id)
    ).one_or_none()
    return None if row is None else OrderRow(**row._mapping)
