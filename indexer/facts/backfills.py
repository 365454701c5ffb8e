"""Backfills under way: how far each is committed, and how far folded.

A row moves in the transaction that writes what it stands for, and goes when its backfill is done.
It is deleted and written anew, because facts are never updated. Every function works inside the
caller's transaction.
"""

from dataclasses import astuple, dataclass, fields

from sqlalchemy import ColumnElement, Connection, and_, delete, insert, select

from warehouse_schema.facts import backfills
from warehouse_schema.identifiers import ChainId, Height


@dataclass(frozen=True, slots=True)
class Backfill:
    """How far a backfill is: its row."""

    chain: ChainId
    first: Height
    last: Height
    done: Height
    """Last height whose facts are committed; `first - 1` before any."""
    folded: Height
    """Last height whose movements are folded."""
    events: int
    """Raw events committed."""


_COLUMNS = [backfills.c[field.name] for field in fields(Backfill)]


def read_backfill(conn: Connection, chain: ChainId, first: Height, last: Height) -> Backfill:
    """Where a backfill of that very range stands; at its beginning if none is under way."""
    row = conn.execute(select(*_COLUMNS).where(_is_of(chain, first, last))).one_or_none()
    below = Height(first - 1)
    return Backfill(chain, first, last, below, below, 0) if row is None else Backfill(*row)


def unfinished_backfills(conn: Connection) -> list[Backfill]:
    """Every backfill that was begun and is not done, whether or not anybody is at it."""
    query = select(*_COLUMNS).order_by(backfills.c.chain, backfills.c.first, backfills.c.last)
    return [Backfill(*row) for row in conn.execute(query)]


def save_backfill(conn: Connection, now: Backfill) -> None:
    """Note how far it is."""
    delete_backfill(conn, now)
    values = dict(zip((column.name for column in _COLUMNS), astuple(now), strict=True))
    conn.execute(insert(backfills).values(values))


def delete_backfill(conn: Connection, now: Backfill) -> None:
    """It is done: another one of the range begins anew."""
    conn.execute(delete(backfills).where(_is_of(now.chain, now.first, now.last)))


def _is_of(chain: ChainId, first: Height, last: Height) -> ColumnElement[bool]:
    return and_(backfills.c.chain == chain, backfills.c.first == first, backfills.c.last == last)
