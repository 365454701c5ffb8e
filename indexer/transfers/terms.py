"""What transfers agreed on, as Postgres keeps it."""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Numeric,
    Select,
    bindparam,
    cast,
    extract,
    func,
    select,
)

from indexer.transfers.inputs import TransferTerms
from warehouse_schema.intake import quotes, transfers
from warehouse_schema.queries import any_of


def unix_seconds(column: Column[Any]) -> ColumnElement[int]:
    """A moment as whole unix seconds: those that had passed."""
    return cast(func.floor(extract("epoch", column)), BigInteger)


TERMS = (
    transfers.c.id,
    transfers.c.owner,
    quotes.c.mechanism,
    quotes.c.source_chain,
    quotes.c.source_address,
    quotes.c.source_token,
    quotes.c.dest_chain,
    quotes.c.dest_address,
    quotes.c.amount_in,
    quotes.c.min_refund,
    transfers.c.deposit_address,
    unix_seconds(transfers.c.started_at).label("started_at"),
    unix_seconds(transfers.c.expires_at).label("expires_at"),
)
"""The columns of `TransferTerms`, by its names."""


def any_amount(amounts: Collection[int]) -> ColumnElement[Any]:
    """What a column of base units equals if it is one of these."""
    return func.any(bindparam(None, sorted(set(amounts)), type_=ARRAY(Numeric(78, 0))))


def load_interchangeable(conn: Connection, terms: Sequence[TransferTerms]) -> list[TransferTerms]:
    """All transfers without a label on their money that may agree with one of these, these too.

    Their sends cannot be told apart but by their order, so they are looked at together.
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
    found = {each.id: each for each in (*terms, *_terms(conn, query))}
    return list(found.values())


def load_terms(conn: Connection, ids: Collection[str]) -> list[TransferTerms]:
    """Terms of these transfers; unknown ids are left out."""
    query = select(*TERMS).join_from(transfers, quotes).where(transfers.c.id == any_of(ids))
    return _terms(conn, query) if ids else []


def _terms(conn: Connection, query: Select[Any]) -> list[TransferTerms]:
    return [TransferTerms(**row._mapping) for row in conn.execute(query)]
