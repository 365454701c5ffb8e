"""Loads all inputs of transfers from Postgres: a few statements for any number of transfers.

Movements' rows must be up to date with the facts: refold movements first.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, and_, func, select

from indexer.bridges.deposit_address.events import DepositRefunded
from indexer.bridges.tokens.events import Erc20Transfer
from indexer.config.networks import Network
from indexer.facts.proofs import BlockKey, find_unproven
from indexer.facts.store import events_by_key
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
from indexer.transfers.terms import TERMS, load_interchangeable
from warehouse_schema.facts import expiries, lost_sources
from warehouse_schema.identifiers import Address, TxHash, UnixSeconds
from warehouse_schema.intake import cancellations, quotes, submissions, transfers
from warehouse_schema.queries import any_of, unix_seconds
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
    """Rows of submissions, attempts, closed slots and obstacles (a cleared one counts twice)."""
    paid: list[Payment] = field(default_factory=list)
    returned: list[Payment] = field(default_factory=list)
    unproven: set[BlockKey] = field(default_factory=set)
    """Blocks with further payments."""


def load_transfers(
    conn: Connection, network: Network, ids: Collection[str]
) -> list[LoadedTransfer]:
    """The inputs of these transfers now, in order of their ids; unknown ids are skipped."""
    if not ids:
        return []
    query = (
        select(
            *TERMS,
            unix_seconds(cancellations.c.cancelled_at).label("cancelled_at"),
            unix_seconds(expiries.c.expired_at).label("expired_at"),
        )
        .join_from(transfers, quotes)
        .outerjoin(cancellations)
        .outerjoin(expiries, expiries.c.transfer == transfers.c.id)
        .where(transfers.c.id == any_of(ids))
    )
    closed: dict[str, tuple[UnixSeconds | None, UnixSeconds | None]] = {}
    terms: list[TransferTerms] = []
    for row in conn.execute(query):
        values = dict(row._mapping)
        closed[row.id] = values.pop("cancelled_at"), values.pop("expired_at")
        terms.append(TransferTerms(**values))
    unlabelled = [each for each in terms if each.mechanism != "cctp"]
    together = load_interchangeable(conn, unlabelled)
    found: dict[str, _Rows] = defaultdict(_Rows)
    _add_relay_rows(conn, {*ids, *(each.id for each in together)}, ids, found)
    named: dict[TxHash, set[str]] = defaultdict(set)
    for transfer, rows in found.items():
        for transaction in (*rows.submissions, *rows.attempts):
            named[transaction.tx].add(transfer)
    movements = load_movements(conn, network, terms, together, named)
    _add_deposits(conn, terms, found)
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
        loaded.append(
            LoadedTransfer(
                inputs,
                keys=tuple(sorted(moved.keys)),
                input_rows=own.count + (cancelled_at is not None),
                unproven=frozenset(own.unproven | moved.unproven),
            )
        )
    return loaded


def _add_relay_rows(
    conn: Connection, sent_by: Collection[str], ids: Collection[str], found: dict[str, _Rows]
) -> None:
    """Rows of clients and relay: transactions of all `sent_by`, the rest of `ids` only."""
    submitted = submissions.c
    query = (
        select(submitted.transfer, unix_seconds(submitted.submitted_at), submitted.tx_hash)
        .where(submitted.transfer == any_of(sent_by))
        .order_by(submitted.tx_hash)
    )
    for transfer, at, tx in conn.execute(query):
        found[transfer].submissions.append(SentTransaction(UnixSeconds(at), tx, "submit"))
        found[transfer].count += 1
    signed = attempts.c
    signings = (
        select(signed.subject, unix_seconds(signed.created_at), signed.tx_hash, signed.purpose)
        .where(signed.subject == any_of(sent_by))
        .order_by(signed.tx_hash)
    )
    for transfer, at, tx, purpose in conn.execute(signings):
        found[transfer].attempts.append(SentTransaction(UnixSeconds(at), tx, purpose))
        found[transfer].count += 1
    lost = lost_sources.c
    losses = (
        select(lost.transfer, lost.tx_hash, unix_seconds(lost.lost_at), lost.paid)
        .where(lost.transfer == any_of(ids))
        .order_by(lost.tx_hash, lost.lost_at, lost.block_hash)
    )
    for transfer, tx, at, paid in conn.execute(losses):
        # A transaction that was rewound twice counts once.
        found[transfer].rewound.setdefault(tx, RewoundSource(tx, UnixSeconds(at), paid))
    kinds = obstacles.c
    hindrances = (
        select(
            *(kinds.transfer, kinds.kind, kinds.detail),
            *(unix_seconds(kinds.since).label("since"), kinds.cleared_at),
        )
        .where(kinds.transfer == any_of(ids))
        .order_by(kinds.id)
    )
    for row in conn.execute(hindrances):
        found[row.transfer].count += 1 if row.cleared_at is None else 2
        if row.cleared_at is None:
            obstacle = Obstacle(UnixSeconds(row.since), row.kind, row.detail)
            found[row.transfer].obstacles.append(obstacle)
    _add_closed_slots(conn, ids, found)


def _add_closed_slots(conn: Connection, ids: Collection[str], found: dict[str, _Rows]) -> None:
    """Transactions of closed slots: dead ones, and submissions that failed in a ledger."""
    columns = slots.c
    hashes = (
        select(func.array_agg(attempts.c.tx_hash))
        .where(
            attempts.c.chain == columns.chain,
            attempts.c.account == columns.account,
            attempts.c.number == columns.number,
        )
        .scalar_subquery()
    )
    query = (
        select(
            *(columns.subject, columns.purpose, columns.key, columns.outcome),
            *(unix_seconds(columns.closed_at), hashes, submissions.c.signed),
            unix_seconds(submissions.c.submitted_at),
        )
        .outerjoin(
            submissions,
            and_(submissions.c.transfer == columns.subject, submissions.c.tx_hash == columns.key),
        )
        .where(columns.subject == any_of(ids), columns.outcome.is_not(None))
    )
    rows = conn.execute(query)
    for transfer, purpose, key, outcome, closed_at, sent, signed, submitted_at in rows:
        own = found[transfer]
        own.count += 1
        if (purpose, outcome) == ("submit", "reverted") and submitted_at is not None:
            own.failed.append(
                FailedTransaction(UnixSeconds(closed_at), TxHash(key), UnixSeconds(submitted_at))
            )
        # A submission that a ledger took has moved the money, even if no fact shows it yet: another
        # one must not be signed. Only an approval moves nothing; the burn is signed after it.
        is_applied = (purpose, outcome) == ("submit", "confirmed")
        if is_applied and (signed is None or _called_function(signed) != "approve"):
            continue
        own.dead |= {*sent, key} if purpose == "submit" else set(sent)


def _called_function(envelope: bytes) -> str | None:
    # Imported here: signed transactions of Stellar are few, and its SDK takes half a second of
    # processor time to import, of every follower.
    from indexer.chains.stellar.xdr.simulation import called_function

    return called_function(envelope)


def _add_deposits(
    conn: Connection, terms: Sequence[TransferTerms], found: dict[str, _Rows]
) -> None:
    by_address = {each.deposit_address: each for each in terms if each.deposit_address is not None}
    paid = events_by_key(conn, Erc20Transfer, "recipient", list(by_address))
    refunds = events_by_key(conn, DepositRefunded, "deposit", list(by_address))
    unproven = find_unproven(conn, (event.seen for event in (*paid, *refunds)))
    events: list[Erc20Transfer | DepositRefunded] = [*paid, *refunds]
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
