"""Ledgers that could not be decoded, in `facts.quarantined_ledgers`.

Such a ledger has its block, no events, its bytes here, and an alarm. Every function works inside
the caller's transaction. The indexer's role may insert and delete these rows, not update them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Literal, TypeAlias

from sqlalchemy import Column, ColumnElement, Connection, delete, func, insert, select

from indexer.chains.raw import UnreadLedger
from indexer.facts.alarms import clear_alarm, raise_alarm
from indexer.facts.rows import copy_into
from warehouse_schema.facts import alarms, quarantined_ledgers
from warehouse_schema.identifiers import BlockHash, ChainId, Height, UnixSeconds

ALARM = "quarantined"

QuarantineState: TypeAlias = Literal["undecodable", "damaged"]

_ledgers = quarantined_ledgers.c
COLUMNS: Sequence[Column[Any]] = [
    _ledgers[name]
    for name in (
        *("chain", "height", "block_hash", "block_time"),
        *("state", "reason", "source", "raw", "build"),
    )
]
"""Columns of `ledger_row`; the others default to the database's clock."""


@dataclass(frozen=True, slots=True)
class QuarantinedLedger:
    """A row without the ledger's bytes."""

    chain: ChainId
    height: Height
    block_hash: BlockHash
    block_time: UnixSeconds
    state: QuarantineState
    reason: str
    source: str
    build: str
    first_tried_at: datetime
    tried_at: datetime

    def __str__(self) -> str:
        """One line for an operator."""
        return (
            f"{self.chain} {self.height} {self.state}, read from {self.source}, last tried by build"
            f" {self.build} at {self.tried_at:%Y-%m-%d %H:%M:%S%z}: {self.reason}"
        )


def ledger_row(ledger: UnreadLedger, build: str) -> tuple[Any, ...]:
    """Values of `COLUMNS` for a ledger that this build just failed to decode."""
    # Imported here and below: it costs each start 8 ms, and ledgers are seldom quarantined.
    import zstandard

    block = ledger.block
    raw = zstandard.compress(ledger.raw)
    return (
        *(block.chain, block.height, block.hash, block.time),
        *("undecodable", ledger.reason, ledger.source, raw, build),
    )


def add_ledgers(conn: Connection, ledgers: Sequence[UnreadLedger], build: str) -> None:
    """Quarantine ledgers and raise their alarms. Does not write their blocks."""
    copy_into(conn, COLUMNS, (ledger_row(ledger, build) for ledger in ledgers))
    for ledger in ledgers:
        block = ledger.block
        raise_alarm(conn, block.chain, ALARM, str(block.height), ledger.reason)


def sync_alarms(conn: Connection, chain: ChainId, first: Height, last: Height) -> None:
    """Make the alarms about the ledgers of `first … last` those of the stored quarantine."""
    in_range = (_ledgers.chain == chain, _ledgers.height.between(first, last))
    stored = dict(conn.execute(select(_ledgers.height, _ledgers.reason).where(*in_range)).all())
    raised = select(alarms.c.subject).where(
        alarms.c.chain == chain, alarms.c.kind == ALARM, alarms.c.cleared_at.is_(None)
    )
    for subject in conn.scalars(raised).all():
        if first <= int(subject) <= last and int(subject) not in stored:
            clear_alarm(conn, chain, ALARM, subject)
    for height, reason in stored.items():
        raise_alarm(conn, chain, ALARM, str(height), reason)


def release_ledger(conn: Connection, chain: ChainId, height: Height) -> None:
    """Delete a ledger from quarantine and clear its alarm. Does not write its events."""
    conn.execute(delete(quarantined_ledgers).where(_is_ledger(chain, height)))
    clear_alarm(conn, chain, ALARM, str(height))


def record_retry(
    conn: Connection,
    chain: ChainId,
    height: Height,
    state: QuarantineState,
    reason: str,
    build: str,
) -> None:
    """Record a failed retry by a build. No effect if the ledger is not in quarantine."""
    deleted = delete(quarantined_ledgers).where(_is_ledger(chain, height))
    row = conn.execute(deleted.returning(quarantined_ledgers)).one_or_none()
    if row is not None:
        new = {"state": state, "reason": reason, "build": build, "tried_at": func.clock_timestamp()}
        conn.execute(insert(quarantined_ledgers).values({**row._mapping, **new}))
        raise_alarm(conn, chain, ALARM, str(height), reason)


def list_ledgers(
    conn: Connection, chain: ChainId | None = None, *, untried_by: str | None = None
) -> list[QuarantinedLedger]:
    """Ledgers in quarantine, lowest first: of a chain or all; optionally not tried by a build."""
    query = select(*(_ledgers[field.name] for field in fields(QuarantinedLedger)))
    if chain is not None:
        query = query.where(_ledgers.chain == chain)
    if untried_by is not None:
        query = query.where(_ledgers.build != untried_by)
    rows = conn.execute(query.order_by(_ledgers.chain, _ledgers.height))
    return [QuarantinedLedger(*row) for row in rows]


def read_bytes(conn: Connection, chain: ChainId, height: Height) -> bytes | None:
    """The `LedgerCloseMeta` of a ledger in quarantine; None when it is not there."""
    import zstandard

    raw = conn.scalar(select(_ledgers.raw).where(_is_ledger(chain, height)))
    return None if raw is None else zstandard.decompress(raw)


def _is_ledger(chain: ChainId, height: Height) -> ColumnElement[bool]:
    return (_ledgers.chain == chain) & (_ledgers.height == height)
