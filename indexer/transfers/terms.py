"""Terms of transfers, as Postgres stores them."""

import math
from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Any

from sqlalchemy import (
    ARRAY,
    Column,
    ColumnElement,
    Connection,
    Numeric,
    bindparam,
    func,
    select,
    tuple_,
)

from indexer.facts.queries import CompiledQuery
from indexer.transfers.inputs import TransferTerms
from warehouse_schema.intake import quotes, transfers
from warehouse_schema.queries import any_in, any_of, unix_seconds


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


def any_amount_in(parameter: str) -> ColumnElement[Any]:
    """`ANY` over amounts, for a column of base units; for a query that is compiled once."""
    return func.any(bindparam(parameter, type_=ARRAY(Numeric(78, 0))))


def load_terms(conn: Connection, ids: Collection[str]) -> list[TransferTerms]:
    """Terms of these transfers; unknown ids are skipped."""
    if not ids:
        return []
    query = select(*TERMS).join_from(transfers, quotes).where(transfers.c.id == any_of(ids))
    return [TransferTerms(**row._mapping) for row in conn.execute(query)]


def _interchangeable() -> CompiledQuery[TransferTerms]:
    known, their_quotes = transfers.alias("known"), quotes.alias("their_quotes")
    agreed = (
        select(their_quotes.c.mechanism, their_quotes.c.source_address, their_quotes.c.amount_in)
        .join_from(known, their_quotes)
        .where(known.c.id == any_in("ids"), their_quotes.c.mechanism != "cctp")
    )
    same = tuple_(quotes.c.mechanism, quotes.c.source_address, quotes.c.amount_in).in_(agreed)
    query = select(*TERMS).join_from(transfers, quotes).where(same)
    return CompiledQuery(query, lambda row: TransferTerms(**row._asdict()))


INTERCHANGEABLE = _interchangeable()
"""All transfers without a label that may agree with one of `ids`, these included.

Their sends differ by their order only, so they are matched together.
"""
