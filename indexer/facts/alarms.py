"""Alarms in `facts.alarms`. Every function works inside the caller's transaction."""

from dataclasses import dataclass, fields

from sqlalchemy import ColumnElement, Connection, func, select, update
from sqlalchemy.dialects import postgresql

from warehouse_schema.facts import alarms
from warehouse_schema.identifiers import ChainId
from warehouse_schema.queries import any_of


@dataclass(frozen=True, slots=True)
class Alarm:
    """A condition that an operator must look at, until it is cleared."""

    chain: ChainId
    kind: str
    subject: str
    detail: str


def raise_alarm(conn: Connection, chain: ChainId, kind: str, subject: str, detail: str) -> None:
    """Open an alarm, or update the detail of the open one of that kind and subject."""
    row = {"chain": chain, "kind": kind, "subject": subject, "detail": detail}
    conn.execute(
        postgresql.insert(alarms)
        .values(row)
        .on_conflict_do_update(
            index_elements=["chain", "kind", "subject"],
            index_where=alarms.c.cleared_at.is_(None),
            set_={"detail": detail},
        )
    )


def clear_alarm(conn: Connection, chain: ChainId, kind: str, subject: str) -> None:
    """Clear the open alarm of that kind and subject, if there is one."""
    _clear(conn, chain, alarms.c.kind == kind, alarms.c.subject == subject)


def clear_alarms_about(conn: Connection, chain: ChainId, *subjects: str) -> int:
    """Clear open alarms of every kind about these subjects. Returns how many."""
    return _clear(conn, chain, alarms.c.subject == any_of(subjects))


def _clear(conn: Connection, chain: ChainId, *conditions: ColumnElement[bool]) -> int:
    is_open = alarms.c.cleared_at.is_(None)
    cleared = update(alarms).where(alarms.c.chain == chain, *conditions, is_open)
    return conn.execute(cleared.values(cleared_at=func.clock_timestamp())).rowcount


def open_alarms(
    conn: Connection, chain: ChainId | None = None, limit: int | None = None
) -> list[Alarm]:
    """Open alarms, of a chain or of all, oldest first."""
    columns = [alarms.c[field.name] for field in fields(Alarm)]
    query = select(*columns).where(alarms.c.cleared_at.is_(None)).order_by(alarms.c.id).limit(limit)
    if chain is not None:
        query = query.where(alarms.c.chain == chain)
    return [Alarm(*row) for row in conn.execute(query)]
