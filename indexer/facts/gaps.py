"""Gaps in the sequence numbers of a provider's events.

Both contracts number their events about a provider, from 1. A number that is not the next one means
that an event was lost, duplicated or reordered.
"""

from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, func, literal, select, union_all

from indexer.facts.rows import EVENT_MAPPINGS
from warehouse_schema.facts import blocks
from warehouse_schema.identifiers import ChainId, Height, StellarAddress
from warehouse_schema.projections import providers as provider_rows

_SERIES = ("pseq", "tseq")
"""Sequence numbers of Escrow and RailTerms events."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Ledgers to read again: an event of these providers is missing or wrong between them.

    Each end holds a known event, or is the first stored ledger; the missing event may lie in it.
    """

    first: Height
    last: Height
    providers: tuple[StellarAddress, ...]


def stale_gaps(conn: Connection, chain: ChainId) -> tuple[Gap, ...]:
    """Gaps of the providers whose offers are hidden because of one.

    In order of height, with touching ones merged.
    """
    stale = select(provider_rows.c.provider).where(provider_rows.c.stale.is_not(None))
    stale_providers = conn.scalars(stale).all()
    if not stale_providers:
        return ()
    sequences = []
    for mapping in EVENT_MAPPINGS.values():
        for series in _SERIES:
            if series in mapping.own:
                table = mapping.table.c
                sequence = select(
                    table.provider,
                    literal(series).label("series"),
                    table[series].label("number"),
                    table.height,
                    table.position,
                )
                of_ours = (table.chain == chain, table.provider.in_(stale_providers))
                sequences.append(sequence.where(*of_ours))
    numbered = union_all(*sequences).subquery()

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
    merged: list[Gap] = []
    for row in conn.execute(query):
        gap = Gap(row.first, row.last, (row.provider,))
        if merged and gap.first <= merged[-1].last:
            previous = merged.pop()
            providers = tuple(sorted({*previous.providers, *gap.providers}))
            gap = Gap(previous.first, max(previous.last, gap.last), providers)
        merged.append(gap)
    return tuple(merged)
