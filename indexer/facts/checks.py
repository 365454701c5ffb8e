"""Consistency checks of stored facts. Each returns faults as sentences for an operator."""

from sqlalchemy import ColumnElement, Engine, FromClause, and_, exists, func, select

from indexer.facts import quarantine
from indexer.facts.alarms import open_alarms
from warehouse_schema.facts import backfills, blocks, cursors
from warehouse_schema.identifiers import ChainId, Height

_MAX_LISTED = 20
"""Faults listed of each kind."""


def block_faults(engine: Engine, chain: ChainId, since: Height | None = None) -> list[str]:
    """Missing blocks, parent hashes that do not match, a cursor that is not at the top block.

    Of blocks from `since` on, or of all; at most 20 of each kind. Blocks that an unfinished
    backfill has still to read are not missing.
    """

    def among(table: FromClause) -> list[ColumnElement[bool]]:
        every = table.c.chain == chain
        return [every] if since is None else [every, table.c.height >= since]

    this = blocks.alias("this")
    below = blocks.alias("below")
    previous = func.lag(blocks.c.height).over(order_by=blocks.c.height).label("previous")
    heights = select(blocks.c.height, previous).where(*among(blocks)).subquery()

    def is_pending(height: ColumnElement[int]) -> ColumnElement[bool]:
        span = backfills.alias()
        return exists().where(span.c.chain == chain, span.c.done < height, height <= span.c.last)

    holes = (
        select(heights.c.previous, heights.c.height)
        .where(
            heights.c.height != heights.c.previous + 1,
            # Whole spans may be missing between the two.
            ~(is_pending(heights.c.previous + 1) & is_pending(heights.c.height - 1)),
        )
        .order_by(heights.c.height)
        .limit(_MAX_LISTED)
    )
    broken = (
        select(this.c.height, this.c.parent_hash, below.c.hash)
        .join(below, and_(below.c.chain == this.c.chain, below.c.height == this.c.height - 1))
        .where(*among(this), this.c.parent_hash != below.c.hash)
        .order_by(this.c.height)
        .limit(_MAX_LISTED)
    )
    top = select(func.max(blocks.c.height)).where(blocks.c.chain == chain).scalar_subquery()
    astray = select(cursors.c.height, top.label("top")).where(
        cursors.c.chain == chain, cursors.c.height != top
    )
    with engine.connect() as conn:
        return [
            *(f"{chain}: no block between {low} and {high}" for low, high in conn.execute(holes)),
            *(
                f"{chain}: block {height} names parent {parent}, stored is {stored}"
                for height, parent, stored in conn.execute(broken)
            ),
            *(
                f"{chain}: the cursor is at {height}, the highest stored block is {highest}"
                for height, highest in conn.execute(astray)
            ),
        ]


def alarm_lines(engine: Engine, chain: ChainId) -> list[str]:
    """The chain's oldest open alarms; at most 20."""
    with engine.connect() as conn:
        found = open_alarms(conn, chain, _MAX_LISTED)
    return [f"{alarm.kind} {alarm.subject}: {alarm.detail}" for alarm in found]


def quarantine_lines(engine: Engine, chain: ChainId) -> list[str]:
    """Quarantined ledgers of the chain, and why."""
    with engine.connect() as conn:
        return [
            f"{ledger.height} ({ledger.state}): {ledger.reason}"
            for ledger in quarantine.list_ledgers(conn, chain)
        ]
