"""Rows that say why transfers cannot go on; the fold of transfers reads them.

The caller commits. Every moment is the database's clock.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from sqlalchemy import Connection, func, insert, select, text, update

from warehouse_schema import channels
from warehouse_schema.identifiers import Address, AssetId, BaseUnits, ChainId
from warehouse_schema.relay import obstacles

ObstacleKind: TypeAlias = Literal["no_trustline", "frozen", "paused", "would_fail"]

# What an extra delivery of a transfer waits for is the same recipient's to mend. Two indexes find
# what is looked at; one condition for both would have every transfer read.
_AWAITED = text("""
    WITH concerned AS (
        SELECT transfer FROM projections.transfer_states
        WHERE stage IN ('DELIVERING', 'AWAITING_TRUSTLINE')
        UNION
        SELECT transfer FROM relay.obstacles WHERE cleared_at IS NULL AND kind <> 'would_fail'
    )
    SELECT s.transfer, q.dest_address, q.dest_asset, q.amount_out, o.kind, o.detail,
           s.stage IN ('DELIVERING', 'AWAITING_TRUSTLINE', 'ON_HOLD') AS waits
    FROM concerned c
    JOIN projections.transfer_states s ON s.transfer = c.transfer
    JOIN intake.transfers t ON t.id = s.transfer
    JOIN intake.quotes q ON q.id = t.quote
    LEFT JOIN relay.obstacles o ON o.transfer = s.transfer AND o.cleared_at IS NULL
    WHERE q.dest_chain = :chain AND q.source_chain <> :chain
    ORDER BY s.transfer
""")


@dataclass(frozen=True, slots=True)
class PaymentObstacle:
    """Why a transfer cannot go on."""

    kind: ObstacleKind
    detail: str
    """A sentence for who asks."""


@dataclass(frozen=True, slots=True)
class AwaitedRecipient:
    """A transfer that is to be delivered on a chain, or has an obstacle that stands."""

    transfer: str
    recipient: Address
    asset: AssetId
    amount: BaseUnits
    """Least that is to be paid, base units of the chain."""
    standing: PaymentObstacle | None
    waits: bool
    """Whether a delivery is still to come."""


def awaited_recipients(conn: Connection, chain: ChainId) -> Sequence[AwaitedRecipient]:
    """All of them, by their ids."""
    return [
        AwaitedRecipient(
            transfer=row.transfer,
            recipient=row.dest_address,
            asset=row.dest_asset,
            amount=BaseUnits(int(row.amount_out)),
            standing=None if row.kind is None else PaymentObstacle(row.kind, row.detail),
            waits=row.waits,
        )
        for row in conn.execute(_AWAITED, {"chain": chain})
    ]


def set_if_changed(conn: Connection, transfer: str, found: PaymentObstacle | None) -> None:
    """As `settle`, unless that very thing stands already, or nothing does."""
    columns = obstacles.c
    query = select(columns.kind, columns.detail)
    query = query.where(columns.transfer == transfer, columns.cleared_at.is_(None))
    row = conn.execute(query).one_or_none()
    if found != (None if row is None else PaymentObstacle(row.kind, row.detail)):
        replace_obstacle(conn, transfer, found)


def replace_obstacle(conn: Connection, transfer: str, found: PaymentObstacle | None) -> None:
    """What was found is what stands from now on; who keeps transfers is told."""
    columns = obstacles.c
    standing = (columns.transfer == transfer, columns.cleared_at.is_(None))
    conn.execute(update(obstacles).where(*standing).values(cleared_at=func.clock_timestamp()))
    if found is not None:
        row = {"transfer": transfer, "kind": found.kind, "detail": found.detail}
        conn.execute(insert(obstacles).values(row))
    conn.execute(select(func.pg_notify(channels.INTAKE, transfer)))
