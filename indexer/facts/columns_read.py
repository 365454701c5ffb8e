"""Rows of a query as polars frames, by `COPY` out; the counterpart of `columns_copy`.

Frames come one after the other, because a query may give more than fits into memory. Values come as
stored: an empty text is not null. Base units have up to 78 digits in Postgres and 38 in a frame's
integer, so they come as text unless the caller knows that they are smaller (`read_frame`).
"""

import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl
from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    ColumnElement,
    Connection,
    Date,
    Integer,
    LargeBinary,
    Select,
    Text,
    func,
)
from sqlalchemy.types import TypeEngine

from indexer.facts.rows import copy_out
from warehouse_schema.columns import BaseUnitsType

BYTES_A_FRAME = 8 * 2**20
"""Text of one frame. Bytes are counted, because rows differ a thousandfold in size."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """Conversion of a column type."""

    dtype: pl.DataType
    finish: Callable[[pl.Expr], pl.Expr] | None = None
    """Text to that type; None: it is read as that."""


def _bytes_of(values: pl.Expr) -> pl.Expr:
    return values.str.slice(2).str.decode("hex")


_TEXTS, _BLOBS = pl.List(pl.String), pl.List(pl.Binary)

_KINDS: Mapping[type[TypeEngine[Any]], _Kind] = {
    Text: _Kind(pl.String()),
    BaseUnitsType: _Kind(pl.String()),
    BigInteger: _Kind(pl.Int64()),
    Integer: _Kind(pl.Int32()),
    Boolean: _Kind(pl.Boolean(), lambda values: values == "t"),
    Date: _Kind(pl.Date(), lambda values: values.str.to_date("%Y-%m-%d")),
    LargeBinary: _Kind(pl.Binary(), _bytes_of),
}
_ARRAYS: Mapping[type[TypeEngine[Any]], _Kind] = {
    Text: _Kind(_TEXTS, lambda values: values.str.json_decode(_TEXTS)),
    LargeBinary: _Kind(
        _BLOBS, lambda values: values.str.json_decode(_TEXTS).list.eval(_bytes_of(pl.element()))
    ),
}


def _kind(column: ColumnElement[Any]) -> _Kind:
    if isinstance(column.type, ARRAY):
        return _ARRAYS[type(column.type.item_type)]
    return _KINDS[type(column.type)]


def frame_schema(query: Select[Any]) -> dict[str, pl.DataType]:
    """Names and types of the frames of `read_frames`.

    Raises `KeyError` on a column of a type that no fact has.
    """
    return {column.name: _kind(column).dtype for column in query.selected_columns}


def read_frames(conn: Connection, query: Select[Any]) -> Iterator[pl.DataFrame]:
    """Rows of a query in order, some megabytes at a time; no frame for no rows.

    The transaction has to stay open until the last one. Raises SQLAlchemy's errors.
    """
    columns: list[Any] = list(query.selected_columns)
    # Arrays as JSON, which polars reads; Postgres's own array text has other quotes and escapes.
    as_text = query.with_only_columns(
        *(func.to_json(c).label(c.name) if isinstance(c.type, ARRAY) else c for c in columns)
    )
    parts: list[bytes] = []
    size = 0
    for row in copy_out(conn, as_text):
        parts.append(row)
        size += len(row)
        if size >= BYTES_A_FRAME:
            yield _frame(columns, b"".join(parts))
            parts, size = [], 0
    if parts:
        yield _frame(columns, b"".join(parts))


def read_frame(conn: Connection, query: Select[Any]) -> pl.DataFrame:
    """All rows of a query at once, base units as 128-bit integers.

    Raises polars's `InvalidOperationError` on a whole number that is larger.
    """
    frames = list(read_frames(conn, query))
    frame = pl.concat(frames) if frames else pl.DataFrame(schema=frame_schema(query))
    columns = query.selected_columns
    units = [column.name for column in columns if isinstance(column.type, BaseUnitsType)]
    return frame.with_columns(pl.col(units).cast(pl.Int128))


def _frame(columns: list[Any], text: bytes) -> pl.DataFrame:
    kinds = {column.name: _kind(column) for column in columns}
    schema = {n: kind.dtype if kind.finish is None else pl.String() for n, kind in kinds.items()}
    frame = pl.read_csv(io.BytesIO(text), has_header=False, schema=schema)
    return frame.select(
        pl.col(name) if kind.finish is None else kind.finish(pl.col(name))
        for name, kind in kinds.items()
    )
