"""Locks until commit that the indexer's processes alone can take (`lock_tables` says why)."""

from collections.abc import Iterable
from zlib import crc32

from sqlalchemy import ARRAY, Connection, Integer, bindparam, func, select
from sqlalchemy.dialects.postgresql import insert

from warehouse_schema.lock_tables import rows

BUCKETS = 1_024
"""Rows of a kind. Two names that share one wait for each other, at most until a commit."""


def lock_names(conn: Connection, kind: int, names: Iterable[str]) -> None:
    """Lock these of a kind. `kind` is a number of `warehouse_schema.locks`."""
    _lock(conn, kind, {crc32(name.encode()) % BUCKETS for name in names})


def lock_all(conn: Connection, kind: int) -> None:
    """Lock all of a kind: for many names at once."""
    _lock(conn, kind, set(range(BUCKETS)))


def _lock(conn: Connection, kind: int, numbers: set[int]) -> None:
    """Every session takes the rows in one order, or two of them could wait for each other."""
    if not numbers:
        return
    wanted = bindparam("numbers", sorted(numbers), type_=ARRAY(Integer))
    columns = rows.c
    found = select(columns.number).where(columns.kind == kind, columns.number == func.any(wanted))
    locked = conn.scalars(found.order_by(columns.number).with_for_update()).all()
    if len(locked) < len(numbers):
        missing = [{"kind": kind, "number": number} for number in sorted(numbers)]
        conn.execute(insert(rows).values(missing).on_conflict_do_nothing())
        conn.execute(found.order_by(columns.number).with_for_update())
