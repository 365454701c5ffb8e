"""Progress of unfinished backfills in `facts.backfills`.

A row is written in the transaction of the facts it stands for, and deleted when its backfill is
done. Facts are never updated, so a change is a delete and an insert. Every function works inside
the caller's transaction.
"""

from dataclasses import astuple, dataclass, fields

from sqlalchemy import Connection, delete, insert, select

from warehouse_schema.facts import backfills
from warehouse_schema.identifiers import ChainId, Height


@dataclass(frozen=True, slots=True)
class Backfill:
    """Progress of one backfill: its row."""

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
    """Progress of the backfill of this exact range; a new one if none is stored."""
    own = backfills.c
    query = select(*_COLUMNS).where(own.chain == chain, own.first == first, own.last == last)
    row = conn.execute(query).one_or_none()
    below = Height(first - 1)
    return Backfill(chain, first, last, below, below, 0) if row is None else Backfill(*row)


def unfinished_backfills(conn: Connection) -> list[Backfill]:
    """Every backfill that began and is not done, running or not."""
    query = select(*_COLUMNS).order_by(backfills.c.chain, backfills.c.first, backfills.c.last)
    return [Backfill(*row) for row in conn.execute(query)]


def save_backfill(conn: Connection, progress: Backfill) -> None:
    """Store the progress."""
    delete_backfill(conn, progress)
    values = dict(zip((column.name for column in _COLUMNS), astuple(progress), strict=True))
    conn.execute(insert(backfills).values(values))


def delete_backfill(conn: Connection, progress: Backfill) -> None:
    """Delete the progress: a later backfill of the range starts anew."""
    own = backfills.c
    place = (own.chain == progress.chain, own.first == progress.first, own.last == progress.last)
    conn.execute(delete(backfills).where(*place))
