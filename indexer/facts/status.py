"""What the warehouse knows of each chain's ingestion; `indexer.facts.health` decides by it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Connection,
    Engine,
    ScalarSelect,
    Select,
    Table,
    Text,
    bindparam,
    func,
    select,
)

from indexer.config.networks import Network
from warehouse_schema.facts import alarms, cursors, quarantined_ledgers
from warehouse_schema.identifiers import ChainId


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
    silent_seconds: float | None
    """Seconds since the follower last reported, by the database's clock."""
    failure: str | None
    """Why the node could not be read when the follower last tried; None when it could."""
    held: str | None
    open_alarms: int
    quarantined: int = 0
    """Ledgers that nobody could decode so far."""
    protocol_ahead: int | None = None
    """Protocol that the node is ready for and the follower's build cannot read."""


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
    """The status of every chain of the network, in its order."""
    with engine.connect() as conn:
        return chain_status_on(conn, network)


def chain_status_on(conn: Connection, network: Network) -> list[ChainStatus]:
    """As `chain_status`, within a transaction: one statement."""
    rows = {row.chain: row for row in conn.execute(_statuses([c.id for c in network.chains]))}
    return [_status(rows[chain.id]) for chain in network.chains]


def _statuses(chains: Sequence[ChainId]) -> Select[Any]:
    """A row for each chain, whether or not anything of it was ever read."""
    given = bindparam("chains", list(chains), type_=ARRAY(Text))
    each = func.unnest(given).table_valued("chain").render_derived("each")
    open_alarms = _count(alarms, each.c.chain, alarms.c.cleared_at.is_(None))
    return select(
        each.c.chain,
        *(cursors.c[name] for name in _CURSOR_COLUMNS),
        func.extract("epoch", func.now() - cursors.c.updated_at).label("idle"),
        func.extract("epoch", func.now() - cursors.c.reported_at).label("silent"),
        open_alarms.label("open_alarms"),
        _count(quarantined_ledgers, each.c.chain).label("quarantined"),
    ).select_from(each.outerjoin(cursors, cursors.c.chain == each.c.chain))


def _count(
    table: Table, chain: ColumnElement[str], *which: ColumnElement[bool]
) -> ScalarSelect[int]:
    """How many rows of a table a chain has."""
    return select(func.count()).where(table.c.chain == chain, *which).scalar_subquery()


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
