"""Cursors in `facts.cursors`. Every function works inside the caller's transaction."""

from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    bindparam,
    func,
    select,
    text,
    update,
)
from sqlalchemy.dialects import postgresql

from indexer.chains.raw import Upgrade
from indexer.errors import FollowerConflict
from indexer.facts.alarms import clear_alarm, raise_alarm
from indexer.facts.queries import CompiledQuery, fetch_all, rows_of
from indexer.facts.rows import RowBatch
from indexer.facts.sessions import check_lease, leases_of
from warehouse_schema import channels
from warehouse_schema.facts import cursors
from warehouse_schema.identifiers import BlockHash, ChainId, Height, UnixSeconds
from warehouse_schema.leases import Lease, lock_term
from warehouse_schema.notifications import queue_notifications, queued

PROTOCOL_AHEAD = "protocol_ahead"
"""Kind of alarm: a node is ready for a protocol that this build cannot read."""
_PROTOCOL = "protocol"
"""Subject of that alarm. Not the chain's id: alarms about it are cleared when the chain moves."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """A chain's last committed block, and the head that was known then.

    Stored blocks at or below `final_height` are finalized, at or below `safe_height` safe. None: no
    stored block is known to be.
    """

    chain: ChainId
    height: Height
    block_hash: BlockHash
    block_time: UnixSeconds
    head_height: Height
    head_time: UnixSeconds
    safe_height: Height | None = None
    final_height: Height | None = None

    @property
    def is_final(self) -> bool:
        """True when the last committed block is finalized."""
        return self.final_height is not None and self.final_height >= self.height

    def finalized(self, *, safe: Height, final: Height) -> "Cursor":
        """The cursor with these heights; neither ever goes down."""
        final = final if self.final_height is None else max(final, self.final_height)
        safe = max(final, safe if self.safe_height is None else max(safe, self.safe_height))
        return replace(self, safe_height=safe, final_height=final)


_COLUMNS = [cursors.c[field.name] for field in fields(Cursor)]
_PLACE = ("chain", "height", "block_hash")


def read_cursor(conn: Connection, chain: ChainId) -> Cursor | None:
    """The chain's cursor; None before its first range."""
    row = conn.execute(select(*_COLUMNS).where(cursors.c.chain == chain)).one_or_none()
    return None if row is None else Cursor(*row)


def move_cursor(conn: Connection, expected: Cursor | None, new: Cursor) -> None:
    """Compare and set the cursor (expected None: insert it), and take the chain off hold.

    Raises `FollowerConflict` unless the stored cursor is at `expected`, and `LeaseLost` when
    another process took a lease of the connection: the fence is part of the statement.
    """
    values = {field.name: getattr(new, field.name) for field in fields(Cursor)}
    if expected is None:
        check_lease(conn)
        statement = postgresql.insert(cursors).values(values).on_conflict_do_nothing()
        moved = conn.execute(statement.returning(cursors.c.chain)).all()
    else:
        parameters = {f"new_{name}": value for name, value in values.items()}
        parameters |= {f"expected_{name}": getattr(expected, name) for name in _PLACE}
        [moved] = fetch_all(conn, [(_move(leases_of(conn)), parameters)])
    if not moved:
        check_lease(conn)
        stood = "nowhere" if expected is None else f"at {expected.height} {expected.block_hash}"
        raise FollowerConflict(f"the cursor of {new.chain} did not stand {stood} any more")


@lru_cache(maxsize=8)  # A process has few leases, and another term of them after an outage.
def _move(leases: tuple[Lease, ...]) -> CompiledQuery[Any]:
    """Moves a cursor `new_…` that is still `expected_…`, while the leases are held."""
    statement = (
        update(cursors)
        .where(
            *(cursors.c[name] == _parameter("expected", name) for name in _PLACE),
            *map(_is_held, leases),
        )
        .values(
            **{column.name: _parameter("new", column.name) for column in _COLUMNS},
            held=None,
            failure=None,
            updated_at=func.clock_timestamp(),
            reported_at=func.clock_timestamp(),
        )
    )
    return rows_of(statement.returning(cursors.c.chain))


def _parameter(prefix: str, column: str) -> BindParameter[Any]:
    return bindparam(f"{prefix}_{column}", type_=cursors.c[column].type)


def _is_held(lease: Lease) -> ColumnElement[bool]:
    # As a CTE: Postgres runs a locking one by itself, and once.
    return select(lock_term(lease).cte()).exists()


def notify_ingested(conn: Connection, chain: ChainId, height: Height) -> None:
    """Announce with the commit that a chain's facts changed; `height` is its cursor's."""
    queue_notifications(conn, channels.INGESTED, [f"{chain}:{height}"])


def ingested_notice(chain: ChainId, height: Height) -> RowBatch:
    """The row of `notify_ingested`."""
    return RowBatch(
        [queued.c.channel, queued.c.payload], [(channels.INGESTED, f"{chain}:{height}")]
    )


def notify_changed(conn: Connection, chain: ChainId) -> None:
    """Announce that facts below the cursor changed. No effect before the first range."""
    cursor = read_cursor(conn, chain)
    if cursor is not None:
        notify_ingested(conn, chain, cursor.height)


def block_followers(conn: Connection) -> None:
    """Block all commits of ranges until this transaction ends."""
    conn.execute(text("LOCK TABLE facts.cursors IN SHARE MODE"))


def record_finality(conn: Connection, cursor: Cursor) -> None:
    """Store the cursor's safe and final heights."""
    _update(conn, cursor.chain, safe_height=cursor.safe_height, final_height=cursor.final_height)


def record_report(conn: Connection, chain: ChainId, failure: str | None) -> None:
    """Heartbeat of the chain's follower, with the node's failure if there is one.

    A committed range is a heartbeat as well. No effect before the first range.
    """
    _update(conn, chain, reported_at=func.clock_timestamp(), failure=failure)


def record_upgrade(conn: Connection, chain: ChainId, upgrade: Upgrade | None) -> None:
    """Store the upcoming protocol that this build cannot read, and raise or clear its alarm."""
    _update(conn, chain, protocol_ahead=None if upgrade is None else upgrade.protocol)
    if upgrade is None:
        clear_alarm(conn, chain, PROTOCOL_AHEAD, _PROTOCOL)
    else:
        raise_alarm(conn, chain, PROTOCOL_AHEAD, _PROTOCOL, upgrade.detail)


def put_on_hold(conn: Connection, chain: ChainId, reason: str) -> None:
    """Store why the chain stopped; the next committed range removes it.

    No effect before the first range: only the alarm shows it then.
    """
    _update(conn, chain, held=reason)


def _update(conn: Connection, chain: ChainId, **values: Any) -> None:
    conn.execute(update(cursors).where(cursors.c.chain == chain).values(**values))
