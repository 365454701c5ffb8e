"""Owners' events: rows of `projections.transfer_events`.

Written in the transaction that changes a transfer, so an event exists exactly if the change does.
Each owner's events are numbered without gaps and become visible in that order: the lock under which
numbers are given is held until commit.
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any

from sqlalchemy import Connection, Text, bindparam, func, select

from indexer.facts.queries import joined, rows_of
from indexer.facts.row_locks import lock_and_fetch
from indexer.facts.rows import RowBatch, write_rows
from indexer.metrics.collectors import waiting
from indexer.tracing import note_changes
from indexer.transfers.state_machine import Sep24Status, Stage
from warehouse_schema import channels, locks
from warehouse_schema.identifiers import StellarAddress
from warehouse_schema.notifications import queued
from warehouse_schema.projections import transfer_events
from warehouse_schema.queries import SEPARATOR


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferChange:
    """A transfer whose owner is shown something else than before."""

    owner: StellarAddress
    transfer: str
    stage: Stage
    status: Sep24Status
    reason: str | None


_owners = select(
    func.unnest(func.string_to_array(bindparam("owners", type_=Text), SEPARATOR)).label("owner")
).subquery()
_LAST_NUMBERS = rows_of(
    # One index lookup per owner, however many events there are.
    select(
        _owners.c.owner,
        func.coalesce(
            select(func.max(transfer_events.c.number))
            .where(transfer_events.c.owner == _owners.c.owner)
            .scalar_subquery(),
            0,
        ).label("last"),
    )
)
_EVENT_COLUMNS = [
    *(transfer_events.c[field.name] for field in fields(TransferChange)),
    transfer_events.c.number,
]


def publish_changes(
    conn: Connection, changes: Sequence[TransferChange], also: Sequence[RowBatch] = ()
) -> None:
    """Number the changes in their order and write them, with other rows in one round trip.

    Holds the owners' locks until commit.
    """
    owners = sorted({each.owner for each in changes})
    if not owners:
        write_rows(conn, also)
        return
    with waiting("lock"):
        numbered = (_LAST_NUMBERS, {"owners": joined(owners)})
        [last] = lock_and_fetch(conn, locks.TRANSFER_EVENTS, owners, [numbered])
    numbers = {row.owner: row.last for row in last}
    rows: list[tuple[Any, ...]] = []
    for each in changes:
        numbers[each.owner] += 1
        rows.append((*astuple(each), numbers[each.owner]))
    notices = RowBatch(
        [queued.c.channel, queued.c.payload], [(channels.TRANSFERS, owner) for owner in owners]
    )
    write_rows(conn, [*also, RowBatch(_EVENT_COLUMNS, rows), notices])
    note_changes((each.transfer, each.stage) for each in changes)
