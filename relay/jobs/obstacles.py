"""Rows of obstacles, which say why transfers cannot go on; the fold of transfers reads them.

The caller commits. All times are of the database's clock.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from sqlalchemy import Connection, func, insert, select, text, update

from indexer.transfers import state_machine
from warehouse_schema import channels
from warehouse_schema.identifiers import Address, AssetId, BaseUnits, ChainId
from warehouse_schema.notifications import queue_notifications
from warehouse_schema.relay import obstacles

ObstacleKind: TypeAlias = Literal["no_trustline", "frozen", "paused", "would_fail"]

# Transfers that wait for an extra delivery count, too: the same recipient can clear the obstacle.
# A union of two indexed queries: one condition for both would read every transfer.
_AWAITED = text("""
    WITH concerned AS (
        SELECT transfer FROM projections.transfer_states
        WHERE stage = ANY(:needs_delivery)
        UNION
        SELECT transfer FROM relay.obstacles WHERE cleared_at IS NULL AND kind <> 'would_fail'
    )
    SELECT s.transfer, q.dest_address, q.dest_asset, q.amount_out, o.kind, o.detail,
           s.stage = ANY(:undelivered) AS waits
    FROM concerned c
    JOIN projections.transfer_states s ON s.transfer = c.transfer
    JOIN intake.transfers t ON t.id = s.transfer
    JOIN intake.quotes q ON q.id = t.quote
    LEFT JOIN relay.obstacles o ON o.transfer = s.transfer AND o.cleared_at IS NULL
    WHERE q.dest_chain = :chain AND q.source_chain <> :chain
    ORDER BY s.transfer
""")

_STAGES = {
    "needs_delivery": list(state_machine.NEEDS_DELIVERY),
    "undelivered": list(state_machine.UNDELIVERED),
}


@dataclass(frozen=True, slots=True)
class PaymentObstacle:
    """Why a transfer cannot go on."""

    kind: ObstacleKind
    detail: str
    """Sentence for the owner."""


@dataclass(frozen=True, slots=True)
class AwaitedRecipient:
    """Recipient of a transfer that waits for its delivery on a chain, or has an obstacle."""

    transfer: str
    recipient: Address
    asset: AssetId
    amount: BaseUnits
    """Minimum payment, base units of the chain."""
    current: PaymentObstacle | None
    waits: bool
    """A delivery is still due."""


def awaited_recipients(conn: Connection, chain: ChainId) -> Sequence[AwaitedRecipient]:
    """Awaited recipients of a chain, by transfer id."""
    return [
        AwaitedRecipient(
            transfer=row.transfer,
            recipient=row.dest_address,
            asset=row.dest_asset,
            amount=BaseUnits(int(row.amount_out)),
            current=None if row.kind is None else PaymentObstacle(row.kind, row.detail),
            waits=row.waits,
        )
        for row in conn.execute(_AWAITED, {"chain": chain} | _STAGES)
    ]


def set_obstacle(conn: Connection, transfer: str, obstacle: PaymentObstacle | None) -> None:
    """Replace a transfer's obstacle and notify the fold of transfers; no write without change."""
    columns = obstacles.c
    current = (columns.transfer == transfer, columns.cleared_at.is_(None))
    row = conn.execute(select(columns.kind, columns.detail).where(*current)).one_or_none()
    if obstacle == (None if row is None else PaymentObstacle(row.kind, row.detail)):
        return
    conn.execute(update(obstacles).where(*current).values(cleared_at=func.clock_timestamp()))
    if obstacle is not None:
        values = {"transfer": transfer, "kind": obstacle.kind, "detail": obstacle.detail}
        conn.execute(insert(obstacles).values(values))
    queue_notifications(conn, channels.INTAKE, [transfer])
