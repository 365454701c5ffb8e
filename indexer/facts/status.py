"""Ingestion status of each chain, the input of `indexer.facts.health`."""

from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import (
    ARRAY,
    Connection,
    Engine,
    Float,
    Select,
    Text,
    bindparam,
    case,
    cast,
    func,
    select,
)

from indexer.config.networks import Network
from warehouse_schema import locks
from warehouse_schema.facts import alarms, cursors, quarantined_ledgers
from warehouse_schema.identifiers import ChainId
from warehouse_schema.leases import INDEXER_LEASES, KINDS, RELAY_LEASES, LeaseState, lease_states


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
    unfollowed_seconds: float | None = None
    """Seconds since the lease of the last follower expired; None while a process has it, and after
    one gave it back. Does not depend on how long the follower's ranges take."""
    final_height: int | None = None
    """The highest block that no reorg removes; None while none is known."""


def follower_processes(engine: Engine, chain: ChainId) -> list[LeaseState]:
    """The process that follows a chain, and its standbys; empty without any."""
    with engine.connect() as conn:
        return lease_states(conn, INDEXER_LEASES, locks.FOLLOWER, name=chain)


def all_processes(conn: Connection) -> list[LeaseState]:
    """All leases that a process of the indexer or the relay has or waits for."""
    return [
        state
        for tables in (INDEXER_LEASES, RELAY_LEASES)
        for state in lease_states(conn, tables, *KINDS)
    ]


def chain_status(engine: Engine, network: Network) -> list[ChainStatus]:
    """Status of every chain of the network, in its order."""
    with engine.connect() as conn:
        return chain_status_on(conn, network)


def chain_status_on(conn: Connection, network: Network) -> list[ChainStatus]:
    """As `chain_status`, within a transaction: one statement."""
    chains = [chain.id for chain in network.chains]
    found = conn.execute(_statuses(), {"chains": chains})
    rows = {row.chain: ChainStatus(**row._mapping) for row in found}
    return [rows[chain] for chain in chains]


@cache
def _statuses() -> Select[Any]:
    """Rows of `ChainStatus` of `chains`."""
    # Outer join: a chain that was never read has a row as well.
    chains = bindparam("chains", type_=ARRAY(Text))
    each = func.unnest(chains).table_valued("chain").render_derived("each")
    open_alarms = select(func.count()).where(
        alarms.c.chain == each.c.chain, alarms.c.cleared_at.is_(None)
    )
    quarantined = select(func.count()).where(quarantined_ledgers.c.chain == each.c.chain)
    own, now, lease = cursors.c, func.now(), INDEXER_LEASES.leases.c
    expired = select(cast(func.extract("epoch", now - lease.expires_at), Float)).where(
        lease.kind == locks.FOLLOWER, lease.name == each.c.chain, lease.expires_at < now
    )
    lag_seconds = func.greatest(0, own.head_time - own.block_time)
    return select(
        each.c.chain,
        *(own.height, own.head_height, own.failure, own.held, own.protocol_ahead),
        own.final_height,
        (own.head_height - own.height).label("lag_blocks"),
        # `greatest` ignores null, which stands for a chain without a range.
        case((own.height.is_not(None), lag_seconds)).label("lag_seconds"),
        cast(func.extract("epoch", now - own.updated_at), Float).label("idle_seconds"),
        cast(func.extract("epoch", now - own.reported_at), Float).label("silent_seconds"),
        open_alarms.scalar_subquery().label("open_alarms"),
        quarantined.scalar_subquery().label("quarantined"),
        expired.scalar_subquery().label("unfollowed_seconds"),
    ).select_from(each.outerjoin(cursors, own.chain == each.c.chain))
