"""Queue of the Stellar transactions that owners signed and the api accepted."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Select, func, select, union_all

from warehouse_schema.identifiers import ChainId, TxHash
from warehouse_schema.intake import actions, quotes, submissions, transfers
from warehouse_schema.relay import slots

_MAX_NEW, _MAX_NEW_OF_OWNER = 50, 3
"""Submissions of one turn that have no slot yet, and of one owner among them. A submission that no
ledger will take stays queued until its time bounds end: it may delay its own owner only."""
_COMMIT_DELAY = timedelta(hours=1)
"""Ample: a submission is committed within moments of its `submitted_at`."""


@dataclass(frozen=True, slots=True)
class QueuedSubmission:
    """Stellar transaction that its owner signed."""

    transfer: str
    tx: TxHash
    """Hash of what the owner signed: the inner hash of any fee bump around it."""
    envelope: bytes
    """With all signatures."""


def oldest_waiting(conn: Connection, chain: ChainId, since: datetime | None) -> datetime:
    """Time before which no submission is waiting, or ever will be again.

    `since` is the previous result; None (at the start of a process) scans all submissions.
    """
    waiting = _waiting(chain, since).subquery()
    oldest = func.coalesce(func.min(waiting.c.submitted_at), func.clock_timestamp())
    found: datetime = conn.execute(select(oldest)).scalar_one()
    return found - _COMMIT_DELAY


def waiting_submissions(
    conn: Connection, chain: ChainId, since: datetime
) -> list[QueuedSubmission]:
    """Submissions that have no final outcome, by place in their owner's queue.

    All that have an open slot, which must be closed, and a random choice of others: a refused
    submission opens no slot and stays until its time bounds end, so in a fixed order owners of many
    such would delay all later ones. Only transactions that the service itself issued, no matter
    what the row says. `since` comes from `oldest_waiting`.
    """
    waiting = _waiting(chain, since).subquery()
    columns = waiting.c
    is_open = (
        select(slots.c.key)
        .where(
            slots.c.chain == chain,
            slots.c.account == columns.tx_hash,
            slots.c.purpose == "submit",
            slots.c.outcome.is_(None),
        )
        .exists()
    )
    # Limited apart from the open ones, which transactions that no ledger takes could fill.
    new = (
        select(waiting)
        .where(~is_open, columns.place <= _MAX_NEW_OF_OWNER)
        .order_by(columns.place, func.random())
        .limit(_MAX_NEW)
    )
    found = union_all(select(waiting).where(is_open), new).subquery().c
    query = select(found.transfer, found.tx_hash, found.signed).order_by(
        found.place, found.submitted_at, found.tx_hash
    )
    return [QueuedSubmission(row.transfer, row.tx_hash, row.signed) for row in conn.execute(query)]


def _waiting(chain: ChainId, since: datetime | None) -> Select[Any]:
    columns = submissions.c
    is_closed = (
        select(slots.c.key)
        .where(
            slots.c.chain == chain,
            # The account of such a slot is the hash of what the owner signed.
            slots.c.account == columns.tx_hash,
            slots.c.purpose == "submit",
            slots.c.outcome.is_not(None),
        )
        .exists()
    )
    place = func.row_number().over(
        partition_by=transfers.c.owner, order_by=(columns.submitted_at, columns.tx_hash)
    )
    query = (
        select(
            *(columns.transfer, columns.tx_hash, columns.signed, columns.submitted_at),
            place.label("place"),
        )
        .join_from(submissions, transfers, transfers.c.id == columns.transfer)
        .join(quotes, quotes.c.id == transfers.c.quote)
        .join(
            actions, (actions.c.transfer == transfers.c.id) & (actions.c.tx_hash == columns.tx_hash)
        )
        .where(columns.kind == "stellar_tx", quotes.c.source_chain == chain, ~is_closed)
    )
    return query if since is None else query.where(columns.submitted_at >= since)
