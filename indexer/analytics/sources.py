"""Input frames of the daily figures, read from facts and movements."""

from datetime import date
from typing import Any

import polars as pl
from sqlalchemy import (
    Connection,
    Table,
    Text,
    func,
    literal,
    null,
    or_,
    select,
    union_all,
)

from indexer.facts.columns_read import read_frame
from indexer.facts.days import heights_of
from warehouse_schema.columns import BaseUnitsType, day_of
from warehouse_schema.events import (
    escrow_deposits,
    escrow_withdrawals,
    orders_cancelled,
    orders_expired,
    orders_fulfilled,
    orders_opened,
)
from warehouse_schema.identifiers import ChainId, Height
from warehouse_schema.projections import movements

_ENDINGS = {
    "fulfilled": orders_fulfilled,
    "cancelled": orders_cancelled,
    "expired": orders_expired,
}
_ESCROW = (escrow_deposits, escrow_withdrawals, orders_opened, *_ENDINGS.values())


def order_frames(
    conn: Connection, chain: ChainId, first: date, last: date
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Openings of the orders that were active in these days, and terminal events of these days."""
    begin, end = heights_of(conn, chain, first, last)
    o = orders_opened.c
    query = select(
        *(o.order_id, o.provider, o.taker, o.direction, o.rail, o.currency),
        *(o.amount, o.fiat_amount, o.lp_lock, o.expires_at, o.block_time, o.height, o.position),
    ).where(o.chain == chain, o.height < end)
    for table in _ENDINGS.values():
        e = table.c
        same = (e.order_id == o.order_id) & (e.provider == o.provider) & (e.taker == o.taker)
        later = (e.height > o.height) | ((e.height == o.height) & (e.position > o.position))
        ended_before = select(1).where(e.chain == o.chain, same, later, e.height < begin)
        query = query.where(~ended_before.exists())
    return read_frame(conn, query), _endings(conn, chain, begin, end)


def _endings(conn: Connection, chain: ChainId, begin: Height, end: Height) -> pl.DataFrame:
    parts = []
    for ending, table in _ENDINGS.items():
        settles = table is orders_fulfilled
        parts.append(
            select(
                *(table.c[name] for name in ("order_id", "provider", "taker")),
                literal(ending, Text).label("ending"),
                *(
                    (table.c[name] if settles else null().cast(kind)).label(name)
                    for name, kind in (
                        ("released", BaseUnitsType),
                        ("fee", BaseUnitsType),
                        ("claim", Text),
                    )
                ),
                *(table.c[name] for name in ("block_time", "height", "position")),
            ).where(table.c.chain == chain, table.c.height >= begin, table.c.height < end)
        )
    return read_frame(conn, select(union_all(*parts).subquery()))


def balance_frame(conn: Connection, chain: ChainId, first: date, last: date) -> pl.DataFrame:
    """Escrow events of these days, and each provider's last one before them."""
    begin, end = heights_of(conn, chain, first, last)
    events = union_all(*(_balances(table, chain, end) for table in _ESCROW)).subquery()
    from_last = func.row_number().over(
        partition_by=events.c.provider,
        order_by=(events.c.height.desc(), events.c.position.desc()),
    )
    before = select(events, from_last.label("from_last")).where(events.c.height < begin).subquery()
    names = [column.name for column in events.c]
    wanted = union_all(
        select(events).where(events.c.height >= begin),
        select(*(before.c[name] for name in names)).where(before.c.from_last == 1),
    )
    return read_frame(conn, select(wanted.subquery()))


def _balances(table: Table, chain: ChainId, end: Height) -> Any:
    none = literal(0, BaseUnitsType)
    return select(
        *(table.c[name] for name in ("provider", "height", "position", "block_time")),
        *(table.c[name] for name in ("free_after", "locked_after")),
        (table.c.amount if table is escrow_deposits else none).label("deposited"),
        (table.c.amount if table is escrow_withdrawals else none).label("withdrawn"),
    ).where(table.c.chain == chain, table.c.height < end)


def movement_frame(conn: Connection, first: date, last: date) -> pl.DataFrame:
    """Movements that were sent or delivered in these days."""
    m = movements.c
    in_days = or_(*(day_of(name).between(first, last) for name in ("sent_at", "delivered_at")))
    query = select(
        *(m.mechanism, m.source_chain, m.dest_chain, m.amount_in, m.amount_out),
        *(m.fee, m.sent_at, m.delivered_at),
    )
    return read_frame(conn, query.where(in_days))
