"""Ledgers whose contents nobody could decode so far. Every function works inside the caller's
transaction.

Such a ledger has its block, no events, its bytes here, and an alarm. The indexer's role may insert
and delete here, not update: what is said of a ledger anew takes the place of what was said.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Literal, TypeAlias

import zstandard
from sqlalchemy import Column, ColumnElement, Connection, delete, func, insert, literal, select

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
"""What a row is written by; the rest is the database's clock."""


@dataclass(frozen=True, slots=True)
class QuarantinedLedger:
    """A row, without the ledger's bytes."""

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
    """A ledger that was just tried by that build, as values of `COLUMNS`."""
    block = ledger.block
    raw = zstandard.compress(ledger.raw)
    return (
        *(block.chain, block.height, block.hash, block.time),
        *("undecodable", ledger.reason, ledger.source, raw, build),
    )


def add_ledgers(conn: Connection, ledgers: Sequence[UnreadLedger], build: str) -> None:
    """Put ledgers into quarantine, and call for an operator. Their blocks are written elsewhere."""
    copy_into(conn, COLUMNS, (ledger_row(ledger, build) for ledger in ledgers))
    for ledger in ledgers:
        _raise(conn, ledger.block.chain, ledger.block.height, ledger.reason)


def sync_alarms(conn: Connection, chain: ChainId, first: Height, last: Height) -> None:
    """Let the alarms about the ledgers of `first … last` say what stands in quarantine."""
    list_ledgers = dict(
        conn.execute(
            select(_ledgers.height, _ledgers.reason).where(
                _ledgers.chain == chain, _ledgers.height.between(first, last)
            )
        ).all()
    )
    raised = select(alarms.c.subject).where(
        alarms.c.chain == chain, alarms.c.kind == ALARM, alarms.c.cleared_at.is_(None)
    )
    for subject in conn.scalars(raised).all():
        if first <= int(subject) <= last and int(subject) not in list_ledgers:
            clear_alarm(conn, chain, ALARM, subject)
    for height, reason in list_ledgers.items():
        _raise(conn, chain, height, reason)


def release_ledger(conn: Connection, chain: ChainId, height: Height) -> None:
    """Take a ledger out, and its alarm back. Its events are written elsewhere."""
    conn.execute(delete(quarantined_ledgers).where(*_key(chain, height)))
    clear_alarm(conn, chain, ALARM, str(height))


def record_retry(
    conn: Connection,
    chain: ChainId,
    height: Height,
    state: QuarantineState,
    reason: str,
    build: str,
) -> None:
    """Write down that a build tried in vain. Nothing happens if the ledger is not there."""
    told: dict[str, ColumnElement[Any]] = {
        "state": literal(state),
        "reason": literal(reason),
        "build": literal(build),
        "tried_at": func.clock_timestamp(),
    }
    columns = list(quarantined_ledgers.columns)
    # The row leaves and comes back in one statement, which hands over what it has deleted.
    leaving = (
        delete(quarantined_ledgers)
        .where(*_key(chain, height))
        .returning(*(told.get(column.name, column).label(column.name) for column in columns))
        .cte("leaving")
    )
    again = insert(quarantined_ledgers).from_select(columns, select(leaving))
    if conn.execute(again, execution_options={"preserve_rowcount": True}).rowcount:
        _raise(conn, chain, height, reason)


def list_ledgers(
    conn: Connection, chain: ChainId | None = None, *, untried_by: str | None = None
) -> list[QuarantinedLedger]:
    """Ledgers in quarantine, lowest first: of a chain, or of all; those a build has not tried."""
    query = select(*(_ledgers[field.name] for field in fields(QuarantinedLedger)))
    if chain is not None:
        query = query.where(_ledgers.chain == chain)
    if untried_by is not None:
        query = query.where(_ledgers.build != untried_by)
    rows = conn.execute(query.order_by(_ledgers.chain, _ledgers.height))
    return [QuarantinedLedger(*each) for each in rows]


def read_bytes(conn: Connection, chain: ChainId, height: Height) -> bytes | None:
    """The `LedgerCloseMeta` of a ledger in quarantine; None when it is not there."""
    raw = conn.scalar(select(_ledgers.raw).where(*_key(chain, height)))
    return None if raw is None else zstandard.decompress(raw)


def _key(chain: ChainId, height: Height) -> Iterator[ColumnElement[bool]]:
    yield _ledgers.chain == chain
    yield _ledgers.height == height


def _raise(conn: Connection, chain: ChainId, height: Height, reason: str) -> None:
    raise_alarm(conn, chain, ALARM, str(height), reason)
