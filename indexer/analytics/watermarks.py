"""Watermarks: up to which block of which chain the facts of a day go."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from sqlalchemy import Connection, select

from indexer.facts import days, store
from warehouse_schema.daily import day_blocks
from warehouse_schema.identifiers import BlockHash, ChainId, Height, UnixSeconds


@dataclass(frozen=True, slots=True)
class Watermark:
    """The last stored block of a day on one chain: all facts up to it are in what it stands for."""

    height: Height
    block_hash: BlockHash
    block_time: UnixSeconds


Watermarks = Mapping[ChainId, Watermark]


def watermarks(
    conn: Connection, chains: Sequence[ChainId], first: date, last: date
) -> Iterator[tuple[date, ChainId, Watermark]]:
    """The watermark of each day and chain; none where the chain had no block yet."""
    for chain in chains:
        for day in days.days_between(first, last):
            end = days.height_at(conn, chain, days.start_of(day + timedelta(days=1)))
            block = store.last_block(conn, chain, Height(0), Height(end - 1))
            if block is not None:
                yield day, chain, Watermark(block.height, block.hash, block.time)


def stored_watermarks(conn: Connection, day: date) -> Watermarks:
    """The watermarks that the figures of a day were computed with; of two, the lower."""
    c = day_blocks.c
    query = select(c.chain, c.height, c.block_hash, c.block_time).where(c.day == day)
    found: dict[ChainId, Watermark] = {}
    for chain, *values in conn.execute(query.order_by(c.height.desc())):
        found[chain] = Watermark(*values)
    return found
