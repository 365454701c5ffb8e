"""What owners are told of their transfers: rows of `projections.transfer_events`.

They are written in the transaction that changes a transfer, so none is missed and none is told of
what did not happen. Each owner's have numbers of their own: whoever has all up to one and asks for
those above it has everything, for the lock under which they are given out is held until commit.
"""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Connection,
    Text,
    bindparam,
    func,
    insert,
    select,
)

from indexer.transfers.state_machine import Sep24Status, Stage
from warehouse_schema import channels, locks
from warehouse_schema.identifiers import StellarAddress
from warehouse_schema.projections import transfer_events
from warehouse_schema.row_locks import lock_names


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferChange:
    """A transfer of which something changed that its owner is shown. The rest is read then."""

    owner: StellarAddress
    transfer: str
    stage: Stage
    status: Sep24Status
    reason: str | None


def publish_changes(conn: Connection, news: Sequence[TransferChange]) -> None:
    """Number these, in their order, and write them. Holds the owners' locks until commit."""
    owners = sorted({each.owner for each in news})
    if not owners:
        return
    lock_names(conn, locks.TOLD, owners)
    numbers = _last_numbers(conn, owners)
    rows: list[dict[str, Any]] = []
    for each in news:
        numbers[each.owner] += 1
        rows.append({**asdict(each), "number": numbers[each.owner]})
    conn.execute(insert(transfer_events), rows)
    conn.execute(select(func.pg_notify(channels.TRANSFERS, _each("owners"))), {"owners": owners})


def _last_numbers(conn: Connection, owners: Collection[StellarAddress]) -> dict[str, int]:
    """The last that each was told; 0 for none. One look at the index each, however many."""
    asked = select(_each("owners").label("owner")).subquery()
    events = transfer_events.c
    last = select(func.max(events.number)).where(events.owner == asked.c.owner).scalar_subquery()
    query = select(asked.c.owner, func.coalesce(last, 0).label("last"))
    rows = conn.execute(query, {"owners": list(owners)})
    return {row.owner: row.last for row in rows}


def lock_keys() -> ColumnElement[int]:
    """Second keys of locks of the parameter `names`, of each once.

    Every session takes them in one order, or two of them could wait for each other.
    """
    keys = select(func.hashtext(_each("names")).label("key")).distinct().order_by("key").subquery()
    return keys.c.key


def _each(name: str) -> Any:
    """A row for each element of a parameter."""
    return func.unnest(bindparam(name, type_=ARRAY(Text)))
