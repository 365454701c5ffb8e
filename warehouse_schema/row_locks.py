"""Locks until commit that the indexer's processes alone can take (`lock_tables` says why)."""

from collections.abc import Iterable
from zlib import crc32

from sqlalchemy import ARRAY, Connection, Integer, bindparam, func, select

from warehouse_schema.lock_tables import rows

BUCKETS = 1_024
"""Rows of a kind; the migration makes them. Two names that share one wait for each other, at most
until a commit."""


def lock_names(conn: Connection, kind: int, names: Iterable[str]) -> None:
    """Lock these of a kind, in one order, or two sessions could wait for each other.

    `kind` is a number of `warehouse_schema.locks`. The migration makes all rows. Made here, one
    session could hold a row and wait for another session's new one, and the other the reverse.
    """
    numbers = {crc32(name.encode()) % BUCKETS for name in names}
    if not numbers:
        return
    wanted = bindparam("numbers", sorted(numbers), type_=ARRAY(Integer))
    columns = rows.c
    found = select(columns.number).where(columns.kind == kind, columns.number == func.any(wanted))
    locked = conn.scalars(found.order_by(columns.number).with_for_update()).all()
    if len(locked) < len(numbers):
        missing = sorted(numbers.difference(locked))
        raise RuntimeError(f"locks.rows lacks rows of kind {kind}: {missing[:5]}")
