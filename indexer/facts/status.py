"""How far each chain is, how late, and why one does not move."""

from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, Engine, Table, func, select

from indexer.networks import Chain, Network
from warehouse_schema.facts import alarms, cursors, quarantined_ledgers
from warehouse_schema.identifiers import ChainId

_HICCUP_SECONDS = 60
"""What a node that restarts or a line that drops may cost on any chain."""
_LATE_BLOCKS = 20


@dataclass(frozen=True, slots=True)
class ChainStatus:
    """One chain's ingestion. Heights are None before the first range was committed."""

    chain: ChainId
    height: int | None
    head_height: int | None
    lag_blocks: int | None
    lag_seconds: int | None
    idle_seconds: float | None
    """Seconds since the cursor last moved, by the database's clock."""
    held: str | None
    open_alarms: int
    quarantined: int = 0
    """Ledgers that nobody could decode so far."""


def late_after(chain: Chain) -> float:
    """From how many seconds on, behind its head or without a new block, a chain counts as late.

    A minute and 20 of its usual block times: one limit for whoever judges, so that the API does not
    turn clients away from a chain that operators are told is well.
    """
    return _HICCUP_SECONDS + _LATE_BLOCKS * chain.block_seconds


def chain_status(engine: Engine, network: Network) -> list[ChainStatus]:
    """The status of every chain of the network, in its order."""
    with engine.connect() as conn:
        return chain_status_on(conn, network)


def chain_status_on(conn: Connection, network: Network) -> list[ChainStatus]:
    """As `chain_status`, within a transaction."""
    idle = func.extract("epoch", func.now() - cursors.c.updated_at)
    rows = {row.chain: row for row in conn.execute(select(cursors, idle.label("idle")))}
    open_alarms = _by_chain(conn, alarms, alarms.c.cleared_at.is_(None))
    quarantined = _by_chain(conn, quarantined_ledgers)
    statuses = []
    for chain in network.chains:
        row = rows.get(chain.id)
        statuses.append(
            ChainStatus(
                chain=chain.id,
                height=row.height if row else None,
                head_height=row.head_height if row else None,
                lag_blocks=row.head_height - row.height if row else None,
                lag_seconds=max(0, row.head_time - row.block_time) if row else None,
                idle_seconds=float(row.idle) if row else None,
                held=row.held if row else None,
                open_alarms=open_alarms.get(chain.id, 0),
                quarantined=quarantined.get(chain.id, 0),
            )
        )
    return statuses


def _by_chain(conn: Connection, table: Table, *which: ColumnElement[bool]) -> dict[ChainId, int]:
    """How many rows of a table each chain has."""
    query = select(table.c.chain, func.count()).where(*which).group_by(table.c.chain)
    return dict(conn.execute(query).all())
