"""Ingestion status of each chain, the input of `indexer.facts.health`."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ARRAY, Connection, Engine, Text, bindparam, func, select

from indexer.config.networks import Network
from warehouse_schema.facts import alarms, cursors, quarantined_ledgers
from warehouse_schema.identifiers import ChainId


@dataclass(frozen=True, slots=True)
class ChainStatus:
    """One chain's ingestion. Heights are None before the first committed range."""

    chain: ChainId
    height: int | None
    head_height: int | None
    lag_blocks: int | None
    lag_seconds: int | None
    idle_seconds: float | None
    """Seconds since the cursor last moved, by the database's clock."""
    silent_seconds: float | None
    """Seconds since the follower's last heartbeat, by the database's clock."""
    failure: str | None
    """Why the follower's last read of the node failed; None when it did not."""
    held: str | None
    open_alarms: int
    quarantined: int = 0
    """Ledgers that could not be decoded."""
    protocol_ahead: int | None = None
    """Protocol that the node supports and the follower's build cannot read."""


_CURSOR_COLUMNS = (
    "height",
    "head_height",
    "block_time",
    "head_time",
    "held",
    "failure",
    "protocol_ahead",
)


def chain_status(engine: Engine, network: Network) -> list[ChainStatus]:
    """Status of every chain of the network, in its order."""
    with engine.connect() as conn:
        return chain_status_on(conn, network)


def chain_status_on(conn: Connection, network: Network) -> list[ChainStatus]:
    """As `chain_status`, within a transaction: one statement."""
    # Outer join: a chain that was never read has a row as well.
    chains = bindparam("chains", [chain.id for chain in network.chains], type_=ARRAY(Text))
    each = func.unnest(chains).table_valued("chain").render_derived("each")
    open_alarms = select(func.count()).where(
        alarms.c.chain == each.c.chain, alarms.c.cleared_at.is_(None)
    )
    quarantined = select(func.count()).where(quarantined_ledgers.c.chain == each.c.chain)
    query = select(
        each.c.chain,
        *(cursors.c[name] for name in _CURSOR_COLUMNS),
        func.extract("epoch", func.now() - cursors.c.updated_at).label("idle"),
        func.extract("epoch", func.now() - cursors.c.reported_at).label("silent"),
        open_alarms.scalar_subquery().label("open_alarms"),
        quarantined.scalar_subquery().label("quarantined"),
    ).select_from(each.outerjoin(cursors, cursors.c.chain == each.c.chain))
    rows = {row.chain: row for row in conn.execute(query)}
    return [_status(rows[chain.id]) for chain in network.chains]


def _status(row: Any) -> ChainStatus:
    is_read = row.height is not None
    return ChainStatus(
        chain=row.chain,
        height=row.height,
        head_height=row.head_height,
        lag_blocks=row.head_height - row.height if is_read else None,
        lag_seconds=max(0, row.head_time - row.block_time) if is_read else None,
        idle_seconds=float(row.idle) if is_read else None,
        silent_seconds=float(row.silent) if is_read else None,
        failure=row.failure,
        held=row.held,
        open_alarms=row.open_alarms,
        quarantined=row.quarantined,
        protocol_ahead=row.protocol_ahead,
    )
