"""Loads all inputs of transfers from Postgres: a few statements for any number of transfers.

Movements' rows must be up to date with the facts: refold movements first.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, and_, func, select

from indexer.bridges.deposit_address.events import DepositRefunded
from indexer.bridges.tokens.events import Erc20Transfer
from indexer.config.networks import Network
from indexer.facts.proofs import BlockKey, find_unproven
from indexer.facts.queries import QueryCall, fetch_all, joined, rows_of
from indexer.facts.store import events_by_column
from indexer.transfers.inputs import (
    ChainPosition,
    FailedTransaction,
    Obstacle,
    Payment,
    RewoundSource,
    SentTransaction,
    TransferInputs,
    TransferTerms,
)
from indexer.transfers.load_movements import load_movements
from indexer.transfers.terms import INTERCHANGEABLE, TERMS
from warehouse_schema.facts import cursors, expiries, lost_sources
from warehouse_schema.identifiers import (
    Address,
    ChainId,
    EvmAddress,
    Height,
    TxHash,
    UnixSeconds,
)
from warehouse_schema.intake import cancellations, quotes, submissions, transfers
from warehouse_schema.queries import any_in, unix_seconds
from warehouse_schema.relay import attempts, obstacles, slots


@dataclass(frozen=True, slots=True)
class LoadedTransfer:
    """A transfer's inputs, and the keys by which its row is found again."""

    inputs: TransferInputs
    keys: tuple[str, ...]
    """Burn keys and guids of its movements."""
    input_rows: int
    """Rows of clients and relay among the inputs."""
    unproven: frozenset[BlockKey] = frozenset()
    """Blocks with further inputs, left out until their logs are proven."""


@dataclass(slots=True)
class _Rows:
    """What is stored of one transfer beside its terms and movements."""

    submissions: list[SentTransaction] = field(default_factory=list)
    attempts: list[SentTransaction] = field(default_factory=list)
    dead: set[TxHash] = field(default_factory=set)
    failed: list[FailedTransaction] = field(default_factory=list)
    obstacles: list[Obstacle] = field(default_factory=list)
    rewound: dict[TxHash, RewoundSource] = field(default_factory=dict)
    count: int = 0
    """Rows of closed slots and obstacles (a cleared one counts twice)."""
    paid: list[Payment] = field(default_factory=list)
    returned: list[Payment] = field(default_factory=list)
    unproven: set[BlockKey] = field(default_factory=set)
    """Blocks with further payments."""


_TERMS = rows_of(
    select(
        *TERMS,
        unix_seconds(cancellations.c.cancelled_at).label("cancelled_at"),
        unix_seconds(expiries.c.expired_at).label("expired_at"),
    )
    .join_from(transfers, quotes)
    .outerjoin(cancellations)
    .outerjoin(expiries, expiries.c.transfer == transfers.c.id)
    .where(transfers.c.id == any_in("ids"))
)
_FINALS = rows_of(
    select(cursors.c.chain, cursors.c.final_height).where(cursors.c.final_height.is_not(None))
)
_SUBMISSIONS = rows_of(
    select(
        *(submissions.c.transfer, unix_seconds(submissions.c.submitted_at).label("at")),
        submissions.c.tx_hash,
    )
    .where(submissions.c.transfer == any_in("ids"))
    .order_by(submissions.c.tx_hash)
)
_ATTEMPTS = rows_of(
    select(
        *(attempts.c.subject, unix_seconds(attempts.c.created_at).label("at")),
        *(attempts.c.tx_hash, attempts.c.purpose),
    )
    .where(attempts.c.subject == any_in("ids"))
    .order_by(attempts.c.tx_hash)
)
_LOST_SOURCES = rows_of(
    select(
        *(lost_sources.c.transfer, lost_sources.c.tx_hash),
        *(unix_seconds(lost_sources.c.lost_at).label("at"), lost_sources.c.paid),
    )
    .where(lost_sources.c.transfer == any_in("ids"))
    .order_by(lost_sources.c.tx_hash, lost_sources.c.lost_at, lost_sources.c.block_hash)
)
_OBSTACLES = rows_of(
    select(
        *(obstacles.c.transfer, obstacles.c.kind, obstacles.c.detail),
        *(unix_seconds(obstacles.c.since).label("since"), obstacles.c.cleared_at),
    )
    .where(obstacles.c.transfer == any_in("ids"))
    .order_by(obstacles.c.id)
)
_SLOT_HASHES = (
    select(func.array_agg(attempts.c.tx_hash))
    .where(
        attempts.c.chain == slots.c.chain,
        attempts.c.account == slots.c.account,
        attempts.c.number == slots.c.number,
    )
    .scalar_subquery()
)
_CLOSED_SLOTS = rows_of(
    select(
        *(slots.c.subject, slots.c.purpose, slots.c.key, slots.c.outcome),
        unix_seconds(slots.c.closed_at).label("closed_at"),
        _SLOT_HASHES.label("hashes"),
        submissions.c.signed,
        unix_seconds(submissions.c.submitted_at).label("submitted_at"),
    )
    .outerjoin(
        submissions,
        and_(submissions.c.transfer == slots.c.subject, submissions.c.tx_hash == slots.c.key),
    )
    .where(slots.c.subject == any_in("ids"), slots.c.outcome.is_not(None))
)
_PAID = events_by_column(Erc20Transfer, "recipient")
_RETURNED = events_by_column(DepositRefunded, "deposit")


def load_transfers(
    conn: Connection, network: Network, ids: Collection[str]
) -> list[LoadedTransfer]:
    """The inputs of these transfers now, in order of their ids; unknown ids are skipped."""
    if not ids:
        return []
    values = {"ids": joined(ids)}
    first = (_TERMS, INTERCHANGEABLE, _FINALS, _LOST_SOURCES, _OBSTACLES, _CLOSED_SLOTS)
    agreed, together, heights, lost, hindrances, closed_slots = fetch_all(
        conn, [(query, values) for query in first]
    )
    closed: dict[str, tuple[UnixSeconds | None, UnixSeconds | None]] = {}
    terms: list[TransferTerms] = []
    for row in agreed:
        fields = row._asdict()
        closed[row.id] = fields.pop("cancelled_at"), fields.pop("expired_at")
        terms.append(TransferTerms(**fields))
    by_address = {each.deposit_address: each for each in terms if each.deposit_address is not None}
    sent_by = {"ids": joined({*ids, *(each.id for each in together)})}
    addresses = {"values": joined(by_address)}
    at_addresses: list[QueryCall] = []
    if by_address:
        at_addresses = [(_PAID, addresses), (_RETURNED, addresses)]
    submitted, signed, *deposited = fetch_all(
        conn, [(_SUBMISSIONS, sent_by), (_ATTEMPTS, sent_by), *at_addresses]
    )
    found: dict[str, _Rows] = defaultdict(_Rows)
    named: dict[TxHash, set[str]] = defaultdict(set)
    for row in submitted:
        found[row.transfer].submissions.append(SentTransaction(row.at, row.tx_hash, "submit"))
        named[row.tx_hash].add(row.transfer)
    for row in signed:
        found[row.subject].attempts.append(SentTransaction(row.at, row.tx_hash, row.purpose))
        named[row.tx_hash].add(row.subject)
    for row in lost:
        # A transaction that was rewound twice counts once.
        source = RewoundSource(row.tx_hash, row.at, row.paid)
        found[row.transfer].rewound.setdefault(row.tx_hash, source)
    for row in hindrances:
        found[row.transfer].count += 1 if row.cleared_at is None else 2
        if row.cleared_at is None:
            found[row.transfer].obstacles.append(Obstacle(row.since, row.kind, row.detail))
    _add_closed_slots(closed_slots, found)
    finals: dict[ChainId, Height] = {row.chain: row.final_height for row in heights}
    movements = load_movements(conn, network, terms, together, named, finals)
    _add_deposits(conn, by_address, [event for events in deposited for event in events], found)
    loaded: list[LoadedTransfer] = []
    for each in sorted(terms, key=lambda each: each.id):
        own, moved = found[each.id], movements[each.id]
        cancelled_at, expired_at = closed[each.id]
        inputs = TransferInputs(
            terms=each,
            cancelled_at=cancelled_at,
            expired_at=expired_at,
            submissions=tuple(own.submissions),
            attempts=tuple(own.attempts),
            dead=frozenset(own.dead),
            failed=tuple(sorted(own.failed)),
            rewound=tuple(own.rewound.values()),
            paid=tuple(own.paid),
            returned=tuple(own.returned),
            matched=tuple(moved.matched),
            extras=tuple(moved.extras),
            obstacles=tuple(own.obstacles),
        )
        written = len(own.submissions) + len(own.attempts) + own.count
        loaded.append(
            LoadedTransfer(
                inputs,
                keys=tuple(sorted(moved.keys)),
                input_rows=written + (cancelled_at is not None),
                unproven=frozenset(own.unproven | moved.unproven),
            )
        )
    return loaded


def _add_closed_slots(rows: Collection[Any], found: dict[str, _Rows]) -> None:
    """Transactions of closed slots: dead ones, and submissions that failed in a ledger."""
    for row in rows:
        own = found[row.subject]
        own.count += 1
        if (row.purpose, row.outcome) == ("submit", "reverted") and row.submitted_at is not None:
            own.failed.append(FailedTransaction(row.closed_at, TxHash(row.key), row.submitted_at))
        # A submission that a ledger took has moved the money, even if no fact shows it yet: another
        # one must not be signed. Only an approval moves nothing; the burn is signed after it.
        is_applied = (row.purpose, row.outcome) == ("submit", "confirmed")
        if is_applied and (row.signed is None or _called_function(row.signed) != "approve"):
            continue
        own.dead |= {*row.hashes, row.key} if row.purpose == "submit" else set(row.hashes)


def _called_function(envelope: bytes) -> str | None:
    # Imported here: signed transactions of Stellar are few, and its SDK takes half a second of
    # processor time to import, of every follower.
    from indexer.chains.stellar.xdr.simulation import called_function

    return called_function(envelope)


def _add_deposits(
    conn: Connection,
    by_address: Mapping[EvmAddress, TransferTerms],
    events: Collection[Erc20Transfer | DepositRefunded],
    found: dict[str, _Rows],
) -> None:
    unproven = find_unproven(conn, (event.seen for event in events))
    for event in events:
        seen = event.seen
        address = event.recipient if isinstance(event, Erc20Transfer) else event.deposit
        transfer = by_address[address]
        # An address is the same on all chains; the transfer has payments of its source chain only.
        if seen.chain != transfer.source_chain:
            continue
        own = found[transfer.id]
        if (seen.chain, seen.block_hash) in unproven:
            own.unproven.add((seen.chain, seen.block_hash))
            continue
        payment = Payment(ChainPosition.of(seen), Address(event.token), event.amount)
        (own.paid if isinstance(event, Erc20Transfer) else own.returned).append(payment)
