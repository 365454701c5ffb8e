"""Do the daily figures say what the views say?

The two come by different ways: the figures are folded in columns from the facts, a day at a time;
the views are plain SQL over the facts and the order book. Where they differ, one of them is wrong,
or what one of them reads was changed without a trace.
"""

from collections.abc import Mapping
from dataclasses import dataclass
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

from indexer.analytics.daily import BOOK, FIGURES, ROUTES, Figure, due_days
from indexer.config.networks import Network
from warehouse_schema import projections as tables
from warehouse_schema.columns import BaseUnitsType
from warehouse_schema.metadata import ANALYTICS

_SHOWN = 20
_USDC = 10_000_000
_EVM = 1_000_000


@dataclass(frozen=True, slots=True)
class _Pair:
    """A table and the view that says the same, in whole units."""

    figure: Figure
    table: Table
    view: str
    named: Mapping[str, str]
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
    """Where figures and views differ, in sentences; of one family of figures or of all.

    Looks at the days that are computed and not due again, in one snapshot. Names at most 20 of each
    table.
    """
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as conn:
        due = {each.name: due_days(conn, network, each) for each in FIGURES}
        return [
            sentence
            for pair in _PAIRS
            if figure in (None, pair.figure)
            for sentence in _differences(conn, pair, due[pair.figure.name])
        ]


def _differences(conn: Connection, pair: _Pair, due: list[Any]) -> list[str]:
    columns = [each.name for each in pair.table.columns]
    keys = [each.name for each in pair.table.primary_key]
    stored, said = _standing(pair, due), _viewed(pair, columns)
    days = select(tables.days_done.c.day).where(
        tables.days_done.c.figure == pair.figure.name, tables.days_done.c.day.not_in(due)
    )
    of_days = select(said).where(said.c.day.in_(days)).subquery("said")
    joined = stored.join(
        of_days, and_(*(stored.c[key] == of_days.c[key] for key in keys)), full=True
    )
    differ = [
        stored.c[name].is_distinct_from(of_days.c[name])
        for name in columns
        # A market's fiat is left out where it is absurd; the view works it out all the same.
        if name != "fiat"
    ]
    if "fiat" in columns:
        differ.append(stored.c.fiat != of_days.c.fiat)
    query = (
        select(
            *(stored.c[name].label(f"stored_{name}") for name in columns),
            *(of_days.c[name].label(f"said_{name}") for name in columns),
        )
        .select_from(joined)
        .where(or_(*differ))
        .order_by(*(func.coalesce(stored.c[key], of_days.c[key]) for key in keys))
        .limit(_SHOWN)
    )
    return [_in_words(pair, columns, keys, row._asdict()) for row in conn.execute(query)]


def _standing(pair: _Pair, due: list[Any]) -> FromClause:
    stored = pair.table
    return select(stored).where(stored.c.day.not_in(due)).subquery("stored")


def _viewed(pair: _Pair, columns: list[str]) -> FromClause:
    """The view with the table's column names and units."""
    names = {name: pair.named.get(name, name) for name in columns}
    view = table(pair.view, *map(column, names.values()), schema=ANALYTICS)
    return select(
        *(
            (_in_base_units(view, pair, name) if _is_amount(pair, name) else view.c[own]).label(
                name
            )
            for name, own in names.items()
        )
    ).subquery("viewed")


def _is_amount(pair: _Pair, name: str) -> bool:
    return isinstance(pair.table.c[name].type, BaseUnitsType)


def _in_base_units(view: FromClause, pair: _Pair, name: str) -> ColumnElement[Any]:
    whole = view.c[pair.named.get(name, name)]
    if pair.figure is BOOK:
        return whole * literal(_USDC, Numeric)
    chain = view.c.dest_chain if name == "amount_delivered" else view.c.source_chain
    unit = case((chain.like("stellar:%"), literal(_USDC, Numeric)), else_=literal(_EVM, Numeric))
    return whole * unit


def _in_words(pair: _Pair, columns: list[str], keys: list[str], row: Mapping[str, Any]) -> str:
    if row["stored_day"] is None:
        return f"{_place(pair, keys, row, 'said')}: is not there, and {pair.view} has it"
    place = _place(pair, keys, row, "stored")
    if row["said_day"] is None:
        return f"{place}: is there, and {pair.view} does not have it"
    pairs = ((name, row[f"stored_{name}"], row[f"said_{name}"]) for name in columns)
    told = (
        f"{name} is {stored} and {pair.view} says {_shown(said)}"
        for name, stored, said in pairs
        if stored != said and stored is not None
    )
    return f"{place}: {', '.join(told)}"


def _place(pair: _Pair, keys: list[str], row: Mapping[str, Any], side: str) -> str:
    return " ".join([pair.table.name, *(str(row[f"{side}_{key}"]) for key in keys)])


def _shown(value: Any) -> str:
    """A whole number without the decimals that a view carries along."""
    return f"{value.normalize():f}" if isinstance(value, Decimal) else str(value)
