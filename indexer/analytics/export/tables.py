"""Exported tables, their file types, and their rows of a day.

Columns have the table's names and order, without `day`, which is the folder. Types are stable:

| in Postgres | in a file |
|---|---|
| text | string |
| bigint, integer | int64, int32; times are unix seconds as in the tables |
| boolean | boolean |
| bytea | binary |
| text[], bytea[] | list of string, list of binary |
| numeric(78,0) of a fact | string of its digits: an EVM word has 78, a Parquet decimal 38 |
| numeric(78,0) of a daily figure | decimal(38, 0): sums of amounts that exist |
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, TypeAlias

import polars as pl
from sqlalchemy import Column, Connection, Select, Table, select

from indexer.analytics.daily import BOOK, ROUTES
from indexer.facts.columns_read import frame_schema, read_frames
from indexer.facts.days import heights_of, ingested_chains
from warehouse_schema.columns import BaseUnitsType
from warehouse_schema.events import EVENT_TABLES
from warehouse_schema.facts import blocks, evm_logs, stellar_events
from warehouse_schema.identifiers import ChainId, Height

_FIGURE_UNITS = pl.Decimal(38, 0)


@dataclass(frozen=True, slots=True)
class ExportSet:
    """Tables whose days are written together."""

    name: str
    tables: tuple[Table, ...]


FACTS = ExportSet("facts", (blocks, evm_logs, stellar_events, *EVENT_TABLES.values()))
"""Every fact of a block: blocks, raw events, decoded events. Cursors, alarms and services' statuses
belong to no day."""

FIGURES = ExportSet("figures", (*BOOK.tables, *ROUTES.tables))
"""The daily figures."""

SETS = (FACTS, FIGURES)


def schema_of(table: Table) -> dict[str, pl.DataType]:
    """Names and types of a table's files."""
    columns = _columns(table)
    schema = frame_schema(select(*columns))
    if table in FIGURES.tables:
        units = [column.name for column in columns if isinstance(column.type, BaseUnitsType)]
        schema |= dict.fromkeys(units, _FIGURE_UNITS)
    return schema


HeightsByChain: TypeAlias = Mapping[ChainId, tuple[Height, Height]]
"""By chain: the first height of a day, and of the next day."""


def locate_day(conn: Connection, day: date) -> HeightsByChain:
    """The day's heights on every ingested chain."""
    return {chain: heights_of(conn, chain, day, day) for chain in ingested_chains(conn)}


def read_day(
    conn: Connection, table: Table, day: date, heights: HeightsByChain
) -> Iterator[pl.DataFrame]:
    """A table's rows of one day: facts by chain, height and position, figures by their key.

    In frames of some megabytes; the transaction has to stay open until the last.
    """
    schema = pl.Schema(schema_of(table))
    for query in _queries(table, day, heights):
        for frame in read_frames(conn, query):
            yield frame.cast(schema)


def _columns(table: Table) -> list[Column[Any]]:
    return [column for column in table.columns if column.name != "day"]


def _queries(table: Table, day: date, heights: HeightsByChain) -> Iterator[Select[Any]]:
    query = select(*_columns(table))
    if table in FIGURES.tables:
        yield query.where(table.c.day == day).order_by(*table.primary_key)
        return
    order = [table.c[name] for name in ("height", "position") if name in table.c]
    for chain, (begin, end) in heights.items():
        of_day = (table.c.chain == chain) & (table.c.height >= begin) & (table.c.height < end)
        yield query.where(of_day).order_by(*order)
