"""Comparison of the daily figures with the analysts' views.

Figures are folded in columns from the facts, a day at a time; views are SQL over the facts and the
order book. Where they differ, one is wrong, or its input changed without being counted.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    FromClause,
    Numeric,
    Table,
    and_,
    case,
    column,
    func,
    literal,
    or_,
    select,
    table,
)

from indexer.analytics.daily import BOOK, FIGURES, ROUTES, Figure, due_days, last_closed_day
from indexer.config.networks import Network
from warehouse_schema import daily as tables
from warehouse_schema.columns import BaseUnitsType
from warehouse_schema.metadata import ANALYTICS

_MAX_LISTED = 20
_STELLAR_UNIT, _EVM_UNIT = 10_000_000, 1_000_000
"""Base units of a whole USDC or USDT0."""


@dataclass(frozen=True, slots=True)
class _Pair:
    """A table and the view of the same figures, in whole units."""

    figure: Figure
    table: Table
    view: str
    view_names: Mapping[str, str]
    """Column of the table → column of the view; others have the same name."""


_PAIRS = (
    _Pair(
        BOOK,
        tables.provider_days,
        "provider_daily",
        {
            **{
                name: f"{name}_usdc"
                for name in ("released", "fee", "deposited", "withdrawn", "available", "locked")
            },
            "locked_seconds": "locked_usdc_seconds",
            "escrow_seconds": "escrow_usdc_seconds",
        },
    ),
    _Pair(
        BOOK,
        tables.market_days,
        "volume_daily",
        {"opened_amount": "opened_usdc", "released": "released_usdc", "fee": "fee_usdc"},
    ),
    _Pair(
        ROUTES,
        tables.route_days,
        "route_volume_daily",
        {
            "amount_sent": "sent_tokens",
            "amount_delivered": "delivered_tokens",
            "fee": "fee_tokens",
        },
    ),
)


def differences(engine: Engine, network: Network, figure: Figure | None = None) -> list[str]:
    """Differences between figures and views, in sentences; of one family of figures or of all.

    Of days that are closed, computed and not due again, in one snapshot; at most 20 of each table.
    A computed day is open again while a chain that was added catches up, and after a deep reorg.
    """
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as conn:
        due = {each.name: due_days(conn, network, each) for each in FIGURES}
        closed = {each.name: last_closed_day(conn, network, each) for each in FIGURES}
        return [
            sentence
            for pair in _PAIRS
            if figure in (None, pair.figure)
            if (last := closed[pair.figure.name]) is not None
            for sentence in _differences(conn, pair, due[pair.figure.name], last)
        ]


def _differences(conn: Connection, pair: _Pair, due: list[date], last: date) -> list[str]:
    columns = [each.name for each in pair.table.columns]
    keys = [each.name for each in pair.table.primary_key]
    day = pair.table.c.day
    stored = select(pair.table).where(day.not_in(due), day <= last).subquery("stored")
    viewed = _view_in_base_units(pair, columns)
    days = select(tables.days_done.c.day).where(
        tables.days_done.c.figure == pair.figure.name,
        tables.days_done.c.day.not_in(due),
        tables.days_done.c.day <= last,
    )
    of_days = select(viewed).where(viewed.c.day.in_(days)).subquery("of_days")
    joined = stored.join(
        of_days, and_(*(stored.c[key] == of_days.c[key] for key in keys)), full=True
    )
    differ = [
        stored.c[name].is_distinct_from(of_days.c[name])
        for name in columns
        # The table has no fiat where amounts are absurd; the view has.
        if name != "fiat"
    ]
    if "fiat" in columns:
        differ.append(stored.c.fiat != of_days.c.fiat)
    query = (
        select(
            *(stored.c[name].label(f"stored_{name}") for name in columns),
            *(of_days.c[name].label(f"view_{name}") for name in columns),
        )
        .select_from(joined)
        .where(or_(*differ))
        .order_by(*(func.coalesce(stored.c[key], of_days.c[key]) for key in keys))
        .limit(_MAX_LISTED)
    )
    return [_describe(pair, columns, keys, row._asdict()) for row in conn.execute(query)]


def _view_in_base_units(pair: _Pair, columns: list[str]) -> FromClause:
    """The view with the table's column names and units."""
    names = {name: pair.view_names.get(name, name) for name in columns}
    view = table(pair.view, *map(column, names.values()), schema=ANALYTICS)
    values: list[ColumnElement[Any]] = []
    for name, view_name in names.items():
        value: ColumnElement[Any] = view.c[view_name]
        if isinstance(pair.table.c[name].type, BaseUnitsType):
            unit: ColumnElement[Any] = literal(_STELLAR_UNIT, Numeric)
            if pair.figure is not BOOK:
                is_delivered = name == "amount_delivered"
                chain = view.c.dest_chain if is_delivered else view.c.source_chain
                unit = case((chain.like("stellar:%"), unit), else_=literal(_EVM_UNIT, Numeric))
            value = value * unit
        values.append(value.label(name))
    return select(*values).subquery("viewed")


def _describe(pair: _Pair, columns: list[str], keys: list[str], row: Mapping[str, Any]) -> str:
    side = "view" if row["stored_day"] is None else "stored"
    place = " ".join([pair.table.name, *(str(row[f"{side}_{key}"]) for key in keys)])
    if row["stored_day"] is None:
        return f"{place}: is not there, and {pair.view} has it"
    if row["view_day"] is None:
        return f"{place}: is there, and {pair.view} does not have it"
    changes = []
    for name in columns:
        stored, viewed = row[f"stored_{name}"], row[f"view_{name}"]
        if stored != viewed and stored is not None:
            # Without the decimals that a view carries along.
            text = f"{viewed.normalize():f}" if isinstance(viewed, Decimal) else str(viewed)
            changes.append(f"{name} is {stored} and {pair.view} says {text}")
    return f"{place}: {', '.join(changes)}"
