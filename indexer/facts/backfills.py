"""Progress of unfinished backfills in `facts.backfills`: a row for each span.

A row is written in the transaction of the facts it stands for. All rows of a backfill are deleted
when it is done. Facts are never updated, so a change is a delete and an insert. Every function
works inside the caller's transaction.
"""

from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields

from sqlalchemy import Connection, delete, func, insert, select

from warehouse_schema.facts import backfills
from warehouse_schema.identifiers import ChainId, Height


@dataclass(frozen=True, slots=True)
class BackfillSpan:
    """Progress of one span: its row."""

    chain: ChainId
    range_first: Height
    range_last: Height
    """First and last height of the backfill."""
    first: Height
    last: Height
    """First and last height of the span."""
    done: Height
    """Last height whose facts are committed; `first - 1` before any."""
    folded: Height
    """Last height whose movements are folded."""
    events: int
    """Raw events committed."""


@dataclass(frozen=True, slots=True)
class BackfillTotals:
    """Progress of a whole backfill."""

    chain: ChainId
    first: Height
    last: Height
    committed: int
    """Blocks whose facts are committed."""
    folded: int
    """Blocks whose movements are folded."""
    events: int
    """Raw events committed."""

    @property
    def blocks(self) -> int:
        """All blocks of the range."""
        return self.last - self.first + 1


_COLUMNS = [backfills.c[field.name] for field in fields(BackfillSpan)]
_own = backfills.c


def read_spans(conn: Connection, chain: ChainId, first: Height, last: Height) -> list[BackfillSpan]:
    """The spans of the backfill of this exact range, by height; none before it is planned."""
    query = select(*_COLUMNS).where(
        _own.chain == chain, _own.range_first == first, _own.range_last == last
    )
    return [BackfillSpan(*row) for row in conn.execute(query.order_by(_own.first))]


def read_totals(conn: Connection, chain: ChainId, first: Height, last: Height) -> BackfillTotals:
    """Progress of the backfill of this exact range."""
    query = select(
        func.coalesce(func.sum(_own.done - _own.first + 1), 0),
        func.coalesce(func.sum(_own.folded - _own.first + 1), 0),
        func.coalesce(func.sum(_own.events), 0),
    ).where(_own.chain == chain, _own.range_first == first, _own.range_last == last)
    committed, folded, events = conn.execute(query).one()
    return BackfillTotals(chain, first, last, int(committed), int(folded), int(events))


def unfinished_totals(conn: Connection) -> list[BackfillTotals]:
    """Progress of every backfill that began and is not done, running or not."""
    which = (_own.chain, _own.range_first, _own.range_last)
    query = select(*which).distinct().order_by(*which)
    return [read_totals(conn, *row) for row in conn.execute(query).all()]


def unfinished_backfills(conn: Connection) -> list[BackfillSpan]:
    """The spans of every backfill that began and is not done, running or not."""
    order = (_own.chain, _own.range_first, _own.range_last, _own.first)
    return [BackfillSpan(*row) for row in conn.execute(select(*_COLUMNS).order_by(*order))]


def save_spans(conn: Connection, spans: Iterable[BackfillSpan]) -> None:
    """Store spans that have no row."""
    names = [column.name for column in _COLUMNS]
    conn.execute(
        insert(backfills), [dict(zip(names, astuple(span), strict=True)) for span in spans]
    )


def claim_span(conn: Connection, span: BackfillSpan) -> bool:
    """Delete the row of a span if it is still as given, so that a new one can be stored.

    Until the caller's transaction ends, other sessions wait here for the same span. False when
    another session has written it, or the backfill is done.
    """
    place = (getattr(_own, name) == getattr(span, name) for name in _IDENTITY)
    as_given = (_own.done == span.done, _own.folded == span.folded)
    return conn.execute(delete(backfills).where(*place, *as_given)).rowcount == 1


_IDENTITY = ("chain", "range_first", "range_last", "first", "last")


def delete_backfill(conn: Connection, chain: ChainId, first: Height, last: Height) -> None:
    """Delete the progress: a later backfill of the range starts anew."""
    place = (_own.chain == chain, _own.range_first == first, _own.range_last == last)
    conn.execute(delete(backfills).where(*place))
