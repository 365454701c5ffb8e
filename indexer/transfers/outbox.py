"""Owners' events: rows of `projections.transfer_events`.

Written in the transaction that changes a transfer, so an event exists exactly if the change does.
Each owner's events are numbered without gaps and become visible in that order: the lock under which
numbers are given is held until commit.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import ARRAY, Connection, Text, bindparam, func, insert, select

from indexer.metrics.collectors import waiting
from indexer.tracing import note_changes
from indexer.transfers.state_machine import Sep24Status, Stage
from warehouse_schema import channels, locks
from warehouse_schema.identifiers import StellarAddress
from warehouse_schema.notifications import queue_notifications
from warehouse_schema.projections import transfer_events
from warehouse_schema.row_locks import lock_names


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferChange:
    """A transfer whose owner is shown something else than before."""

    owner: StellarAddress
    transfer: str
    stage: Stage
    status: Sep24Status
    reason: str | None


def publish_changes(conn: Connection, changes: Sequence[TransferChange]) -> None:
    """Number the changes in their order and write them. Holds the owners' locks until commit."""
    owners = sorted({each.owner for each in changes})
    if not owners:
        return
    with waiting("lock"):
        lock_names(conn, locks.TRANSFER_EVENTS, owners)
    each_owner = func.unnest(bindparam("owners", owners, type_=ARRAY(Text)))
    # One index lookup per owner, however many events there are.
    wanted = select(each_owner.label("owner")).subquery()
    events = transfer_events.c
    last = select(func.max(events.number)).where(events.owner == wanted.c.owner).scalar_subquery()
    query = select(wanted.c.owner, func.coalesce(last, 0).label("last"))
    numbers = {row.owner: row.last for row in conn.execute(query)}
    rows: list[dict[str, Any]] = []
    for each in changes:
        numbers[each.owner] += 1
        rows.append({**asdict(each), "number": numbers[each.owner]})
    conn.execute(insert(transfer_events), rows)
    queue_notifications(conn, channels.TRANSFERS, owners)
    note_changes((each.transfer, each.stage) for each in changes)
