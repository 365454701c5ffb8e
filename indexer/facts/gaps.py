"""Where the numbers of a provider's events do not go on by one, and between which ledgers.

Both contracts number what they say of a provider, from 1. A number that is not the next one means
that an event between two ledgers was lost, came twice or changed places.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, func, literal, select, union_all

from indexer.chains.events import Event
from indexer.facts.rows import EVENT_MAPPINGS
from warehouse_schema.facts import blocks
from warehouse_schema.identifiers import ChainId, Height, StellarAddress
from warehouse_schema.projections import providers as provider_rows

_SERIES = ("pseq", "tseq")
"""Numbers of a provider's Escrow and RailTerms events."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Ledgers between which something of providers is missing, or is there otherwise than it was.

    Both ends hold an event that is known, or begin what is stored; the missing one may lie in them.
    """

    first: Height
    last: Height
    providers: tuple[StellarAddress, ...]


def stale_gaps(conn: Connection, chain: ChainId) -> tuple[Gap, ...]:
    """Gaps of the providers whose offers are not listed because something does not follow."""
    stale = select(provider_rows.c.provider).where(provider_rows.c.stale.is_not(None))
    return find_gaps(conn, chain, conn.scalars(stale.order_by(provider_rows.c.provider)).all())


def find_gaps(
    conn: Connection, chain: ChainId, providers: Sequence[StellarAddress]
) -> tuple[Gap, ...]:
    """The gaps of these providers, in order of height; those that touch one another are one."""
    if not providers:
        return ()
    numbered = union_all(*_numbered(chain, providers)).subquery()

    def before(column: ColumnElement[int]) -> ColumnElement[int]:
        return func.lag(column).over(
            partition_by=(numbered.c.provider, numbered.c.series),
            order_by=(numbered.c.height, numbered.c.position),
        )

    steps = select(
        numbered.c.provider,
        numbered.c.height,
        numbered.c.number,
        before(numbered.c.height).label("height_before"),
        func.coalesce(before(numbered.c.number), 0).label("number_before"),
    ).subquery()
    start = select(func.min(blocks.c.height)).where(blocks.c.chain == chain).scalar_subquery()
    query = (
        select(
            func.coalesce(steps.c.height_before, start).label("first"),
            steps.c.height.label("last"),
            steps.c.provider,
        )
        .where(steps.c.number != steps.c.number_before + 1)
        .order_by("first", "last", "provider")
    )
    return tuple(_joined(Gap(row.first, row.last, (row.provider,)) for row in conn.execute(query)))


def _numbered(chain: ChainId, providers: Sequence[StellarAddress]) -> Iterable[Select[Any]]:
    for event_type in EVENT_MAPPINGS:
        for series in _SERIES:
            if series in _names(event_type):
                table = EVENT_MAPPINGS[event_type].table.c
                yield select(
                    table.provider,
                    literal(series).label("series"),
                    table[series].label("number"),
                    table.height,
                    table.position,
                ).where(table.chain == chain, table.provider.in_(providers))


def _names(event_type: type[Event]) -> set[str]:
    return {field.name for field in fields(event_type)}


def _joined(gaps: Iterable[Gap]) -> list[Gap]:
    """Gaps in order of their first ledger, with those that overlap or share a ledger as one."""
    joined: list[Gap] = []
    for gap in gaps:
        if joined and gap.first <= joined[-1].last:
            before = joined.pop()
            providers = tuple(sorted({*before.providers, *gap.providers}))
            gap = Gap(before.first, max(before.last, gap.last), providers)
        joined.append(gap)
    return joined
