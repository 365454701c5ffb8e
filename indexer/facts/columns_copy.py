"""Rows and frames as the text that `COPY` reads.

Any thread can make the text, a file can hold it, and one connection writes it. Binary `COPY` would
cost Postgres a fifth less and this side ten times more: polars writes separated text fast and no
other format that Postgres reads.
"""

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
from sqlalchemy import ARRAY, Column, Connection, LargeBinary, Table

from indexer.facts.rows import copy_in
from warehouse_schema.daily import market_days, provider_days, route_days
from warehouse_schema.events import EVENT_TABLES
from warehouse_schema.facts import blocks, evm_logs, quarantined_ledgers, stellar_events
from warehouse_schema.projections import movements

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        *(blocks, quarantined_ledgers, evm_logs, stellar_events, *EVENT_TABLES.values()),
        *(movements, provider_days, market_days, route_days),
    )
}
"""Tables that may be written from text, by name."""

_SLICE = 10_000
"""Rows made into text at a time: what is made on the way takes twice the space of the text."""
_NULL = "\\N"
_ESCAPED = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})
"""Characters with a meaning in COPY's text format."""


@dataclass(frozen=True, slots=True)
class CopyText:
    """Rows of one table as COPY text."""

    table: str
    """Key of `TABLES`."""
    columns: tuple[str, ...]
    rows: int
    text: bytes


def text_of_frame(table: Table, frame: pl.DataFrame) -> CopyText:
    """COPY text of a frame whose columns are named as the table's.

    Integers, dates, texts of hex or plain words (nothing is escaped), bytes as `0x` and hex, and
    lists of such texts or bytes. Raises `TypeError` on a column of another kind.
    """
    columns = []
    for name, kind in frame.schema.items():
        values, column = pl.col(name), table.c[name]
        if isinstance(column.type, LargeBinary) and kind == pl.String:
            columns.append(pl.concat_str(pl.lit(r"\\x"), values.str.slice(2)).alias(name))
        elif isinstance(column.type, ARRAY) and kind == pl.List(pl.String):
            elements = values
            if isinstance(column.type.item_type, LargeBinary):
                elements = values.list.eval(_quoted_bytes(pl.element()))
            listed = pl.concat_str(pl.lit("{"), elements.list.join(","), pl.lit("}"))
            columns.append(listed.alias(name))
        elif kind == pl.String or kind.is_integer():
            columns.append(values)
        elif kind == pl.Date:
            columns.append(values.cast(pl.String))
        else:
            raise TypeError(f"{column} is a {kind}, which is neither integer nor text")
    text = io.BytesIO()
    for part in frame.iter_slices(_SLICE):
        part.select(columns).write_csv(
            text, separator="\t", include_header=False, quote_style="never", null_value=_NULL
        )
    return CopyText(table.name, tuple(frame.columns), frame.height, text.getvalue())


def _quoted_bytes(digits: pl.Expr) -> pl.Expr:
    """Bytes as an element of an array: quoted, with a backslash that COPY and arrays escape."""
    return pl.concat_str(pl.lit(r'"\\\\x'), digits.str.slice(2), pl.lit('"'))


def text_of_rows(columns: Sequence[Column[Any]], rows: Iterable[Sequence[Any]]) -> CopyText:
    """COPY text of rows of Python values, as for `rows.copy_into`, except JSON."""
    (table,) = {column.table.name for column in columns}
    lines = ["\t".join(map(_field, row)) for row in rows]
    text = "".join(f"{line}\n" for line in lines)
    return CopyText(table, tuple(column.name for column in columns), len(lines), text.encode())


def _field(value: Any) -> str:
    match value:
        case None:
            return _NULL
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case str():
            return value.translate(_ESCAPED)
        case bytes():
            return rf"\\x{value.hex()}"
        case tuple() | list():
            elements = ",".join(map(_element, value))
            return f"{{{elements}}}".translate(_ESCAPED)
    raise TypeError(f"a {type(value).__name__} cannot be copied")


def _element(value: str | bytes) -> str:
    """A quoted element of an array."""
    text = f"\\x{value.hex()}" if isinstance(value, bytes) else value
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def copy_text(conn: Connection, copied: CopyText) -> None:
    """Append the rows, as part of the connection's transaction.

    Raises SQLAlchemy's errors, as `Connection.execute` does.
    """
    with copy_in(conn, TABLES[copied.table], copied.columns) as copy:
        copy.write(copied.text)
