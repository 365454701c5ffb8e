"""Locks until commit that the indexer's processes alone can take (`lock_tables` says why)."""

from collections.abc import Collection, Sequence
from operator import itemgetter
from typing import Any
from zlib import crc32

from sqlalchemy import ARRAY, Connection, Integer, bindparam, func, select

from indexer.facts.queries import CompiledQuery, QueryCall, fetch_all
from warehouse_schema.lock_tables import rows

BUCKETS = 1_024
"""Rows of a kind; the migration makes them. Two names that share one wait for each other, at most
until a commit."""
_NAMES_OF_ALL = 4 * BUCKETS
"""So many names are of nearly all rows: all are locked, without finding out which."""

_LOCK = CompiledQuery[int](
    select(rows.c.number)
    .where(
        rows.c.kind == bindparam("wanted_kind", type_=Integer),
        rows.c.number == func.any(bindparam("numbers", type_=ARRAY(Integer))),
    )
    .order_by(rows.c.number)
    .with_for_update(),
    itemgetter(0),
)


def lock_names(conn: Connection, kind: int, names: Collection[str]) -> None:
    """Lock these of a kind, in one order, or two sessions could wait for each other.

    `kind` is a number of `warehouse_schema.locks`. The migration makes all rows. Made here, one
    session could hold a row and wait for another session's new one, and the other the reverse.
    The lock ends with the caller's transaction, which must have begun.
    """
    lock_and_fetch(conn, kind, names, [])


def lock_and_fetch(
    conn: Connection, kind: int, names: Collection[str], calls: Sequence[QueryCall]
) -> list[list[Any]]:
    """`lock_names`, then `fetch_all`, in one round trip.

    The queries see what the last holder of each lock committed.
    """
    numbers = _numbers(names)
    if not numbers:
        return fetch_all(conn, calls)
    wanted = {"wanted_kind": kind, "numbers": sorted(numbers)}
    locked, *found = fetch_all(conn, [(_LOCK, wanted), *calls])
    if len(locked) < len(numbers):
        missing = sorted(set(numbers).difference(locked))
        raise RuntimeError(f"locks.rows lacks rows of kind {kind}: {missing[:5]}")
    return found


def _numbers(names: Collection[str]) -> Collection[int]:
    """Rows of names; of very many, all."""
    if len(names) > _NAMES_OF_ALL:
        return range(BUCKETS)
    return {crc32(name.encode()) % BUCKETS for name in names}
