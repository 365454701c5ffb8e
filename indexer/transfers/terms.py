"""Terms of transfers, as Postgres stores them."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from typing import Any

from sqlalchemy import ARRAY, Column, ColumnElement, Connection, Numeric, bindparam, func, select

from indexer.transfers.inputs import TransferTerms
from warehouse_schema.intake import quotes, transfers
from warehouse_schema.queries import any_of, unix_seconds


def columns_of(dataclass: type[Any]) -> list[Column[Any]]:
    """Columns of transfers and quotes by a dataclass's fields; of both tables, the transfer's."""
    return [
        (transfers if field.name in transfers.c else quotes).c[field.name]
        for field in fields(dataclass)
    ]


def terms_columns(kind: type[TransferTerms]) -> list[ColumnElement[Any]]:
    """`columns_of` terms, times as unix seconds."""
    return [
        unix_seconds(column).label(column.name) if column.name.endswith("_at") else column
        for column in columns_of(kind)
    ]


TERMS = terms_columns(TransferTerms)


def terms_of(columns: Mapping[str, Any]) -> TransferTerms:
    """Terms of a transfer's and its quote's columns; of both tables, the transfer's."""
    values = {field.name: columns[field.name] for field in fields(TransferTerms)}
    seconds = {
        name: math.floor(moment.timestamp())
        for name, moment in values.items()
        if name.endswith("_at")
    }
    return TransferTerms(**values | seconds)


def any_amount(amounts: Collection[int]) -> ColumnElement[Any]:
    """`ANY` over amounts, for a column of base units."""
    return func.any(bindparam(None, sorted(set(amounts)), type_=ARRAY(Numeric(78, 0))))


def load_terms(conn: Connection, ids: Collection[str]) -> list[TransferTerms]:
    """Terms of these transfers; unknown ids are skipped."""
    if not ids:
        return []
    query = select(*TERMS).join_from(transfers, quotes).where(transfers.c.id == any_of(ids))
    return [TransferTerms(**row._mapping) for row in conn.execute(query)]


def load_interchangeable(conn: Connection, terms: Sequence[TransferTerms]) -> list[TransferTerms]:
    """All transfers without a label that may agree with one of these, these included.

    Their sends are told apart by their order only, so they are matched together.
    """
    if not terms:
        return []
    query = (
        select(*TERMS)
        .join_from(transfers, quotes)
        .where(
            quotes.c.mechanism == any_of(sorted({each.mechanism for each in terms})),
            quotes.c.source_address == any_of(sorted({each.source_address for each in terms})),
            quotes.c.amount_in == any_amount([each.amount_in for each in terms]),
        )
    )
    rows = (TransferTerms(**row._mapping) for row in conn.execute(query))
    return list({each.id: each for each in (*terms, *rows)}.values())
