"""What Postgres knows of some transfers, as the evidence that the fold rests on.

A few statements for any number of transfers. The movements' rows have to be those of the facts
already: a refold of movements comes first.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection, Select, and_, func, select

from indexer.bridges.tokens.events import DepositRefunded, Erc20Transfer
from indexer.chains.stellar.xdr.simulation import called_function
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
from indexer.transfers.load_movements import movements_of
from indexer.transfers.terms import TERMS, load_interchangeable, unix_seconds
from warehouse_schema.facts import expiries, lost_sources
from warehouse_schema.identifiers import Address, TxHash, UnixSeconds
from warehouse_schema.intake import cancellations, quotes, submissions, transfers
from warehouse_schema.queries import any_of
from warehouse_schema.relay import attempts, obstacles, slots


@dataclass(frozen=True, slots=True)
class LoadedTransfer:
    """A transfer's evidence, and how its row is found again."""

    inputs: TransferInputs
    keys: tuple[str, ...]
    """Burn keys and guids of its movements."""
    input_rows: int
    """Rows of clients and relay among the evidence."""
    unproven: frozenset[BlockKey] = frozenset()
    """Blocks that hold more of it, left out until their logs are proven."""


def load_transfers(
    conn: Connection, network: Network, ids: Collection[str]
) -> list[LoadedTransfer]:
    """What is known of these transfers now, in order of their ids; unknown ids are left out."""
    if not ids:
        return []
    begun = [_begun(row) for row in conn.execute(_transfers().where(transfers.c.id == any_of(ids)))]
    terms = [each.terms for each in begun]
    together = load_interchangeable(conn, [each for each in terms if each.mechanism != "cctp"])
    all_ids = {*ids, *(each.id for each in together)}
    submitted, signed = _submissions(conn, all_ids), _attempts(conn, all_ids)
    moved = movements_of(conn, network, terms, together, _named(submitted, signed))
    lost, over = _lost(conn, ids), _over(conn, ids)
    deposits = _deposits(conn, terms)
    hindered = _hindered(conn, ids)
    return [
        LoadedTransfer(
            replace(
                each,
                submissions=tuple(submitted[each.terms.id]),
                attempts=tuple(signed[each.terms.id]),
                dead=frozenset(over[each.terms.id].dead),
                failed=tuple(sorted(over[each.terms.id].failed)),
                rewound=tuple(lost[each.terms.id]),
                paid=tuple(deposits.paid[each.terms.id]),
                returned=tuple(deposits.returned[each.terms.id]),
                matched=tuple(moved[each.terms.id].matched),
                extras=tuple(moved[each.terms.id].extras),
                obstacles=tuple(hindered[each.terms.id].standing),
            ),
            keys=tuple(sorted(moved[each.terms.id].keys)),
            input_rows=len(submitted[each.terms.id])
            + len(signed[each.terms.id])
            + over[each.terms.id].slots
            + hindered[each.terms.id].rows
            + (each.cancelled_at is not None),
            unproven=frozenset(deposits.unproven[each.terms.id] | moved[each.terms.id].unproven),
        )
        for each in sorted(begun, key=lambda each: each.terms.id)
    ]


def _named(*sent: Mapping[str, Iterable[SentTransaction]]) -> Mapping[TxHash, set[str]]:
    """Transaction → the transfers that it was submitted or signed for."""
    found: dict[TxHash, set[str]] = defaultdict(set)
    for by_transfer in sent:
        for transfer, own in by_transfer.items():
            for each in own:
                found[each.tx].add(transfer)
    return found


def _transfers() -> Select[Any]:
    return (
        select(
            *TERMS,
            unix_seconds(cancellations.c.cancelled_at).label("cancelled_at"),
            unix_seconds(expiries.c.expired_at).label("expired_at"),
        )
        .join_from(transfers, quotes)
        .outerjoin(cancellations)
        .outerjoin(expiries, expiries.c.transfer == transfers.c.id)
    )


def _begun(row: Any) -> TransferInputs:
    values = dict(row._mapping)
    cancelled_at, expired_at = values.pop("cancelled_at"), values.pop("expired_at")
    return TransferInputs(
        terms=TransferTerms(**values), cancelled_at=cancelled_at, expired_at=expired_at
    )


def _submissions(conn: Connection, ids: Collection[str]) -> dict[str, list[SentTransaction]]:
    columns = submissions.c
    query = (
        select(columns.transfer, unix_seconds(columns.submitted_at), columns.tx_hash)
        .where(columns.transfer == any_of(ids))
        .order_by(columns.tx_hash)
    )
    found: dict[str, list[SentTransaction]] = defaultdict(list)
    for transfer, at, tx in conn.execute(query):
        found[transfer].append(SentTransaction(UnixSeconds(at), tx, "submit"))
    return found


def _attempts(conn: Connection, ids: Collection[str]) -> dict[str, list[SentTransaction]]:
    columns = attempts.c
    query = (
        select(columns.subject, unix_seconds(columns.created_at), columns.tx_hash, columns.purpose)
        .where(columns.subject == any_of(ids))
        .order_by(columns.tx_hash)
    )
    found: dict[str, list[SentTransaction]] = defaultdict(list)
    for transfer, at, tx, purpose in conn.execute(query):
        found[transfer].append(SentTransaction(UnixSeconds(at), tx, purpose))
    return found


@dataclass(slots=True)
class _Over:
    """What the relay closed of a transfer."""

    dead: set[TxHash] = field(default_factory=set)
    """What nobody waits for any more."""
    failed: list[FailedTransaction] = field(default_factory=list)
    slots: int = 0


def _over(conn: Connection, ids: Collection[str]) -> dict[str, _Over]:
    """What can take no effect any more, or took all of it in a block that is ingested and stays."""
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
            columns.subject,
            columns.purpose,
            columns.key,
            columns.outcome,
            unix_seconds(columns.closed_at).label("closed_at"),
            hashes,
            submissions.c.signed,
            unix_seconds(submissions.c.submitted_at).label("submitted_at"),
        )
        .outerjoin(
            submissions,
            and_(submissions.c.transfer == columns.subject, submissions.c.tx_hash == columns.key),
        )
        .where(columns.subject == any_of(ids), columns.outcome.is_not(None))
    )
    found: dict[str, _Over] = defaultdict(_Over)
    for transfer, purpose, key, outcome, closed_at, sent, signed, submitted_at in conn.execute(
        query
    ):
        over = found[transfer]
        over.slots += 1
        if (purpose, outcome) == ("submit", "failed") and submitted_at is not None:
            failure = FailedTransaction(
                UnixSeconds(closed_at), TxHash(key), UnixSeconds(submitted_at)
            )
            over.failed.append(failure)
        transactions = {*sent, key} if purpose == "submit" else set(sent)
        if (purpose, outcome) != ("submit", "done") or not _moves_money(signed):
            over.dead |= transactions
    return found


def _moves_money(signed: bytes | None) -> bool:
    """Whether what an owner signed does more than allow another to move it.

    One that a ledger took has moved the money, even if nothing tells of it here, and nobody signs
    another; after an approval the burn is to be signed.
    """
    return signed is None or called_function(signed) != "approve"


@dataclass(slots=True)
class _Hindered:
    """What the relay found of a transfer's recipient."""

    standing: list[Obstacle] = field(default_factory=list)
    rows: int = 0
    """That were written, and that were cleared."""


def _hindered(conn: Connection, ids: Collection[str]) -> dict[str, _Hindered]:
    columns = obstacles.c
    query = (
        select(
            *(
                columns.transfer,
                columns.kind,
                columns.detail,
                unix_seconds(columns.since).label("since"),
            ),
            columns.cleared_at.is_(None).label("stands"),
        )
        .where(columns.transfer == any_of(ids))
        .order_by(columns.id)
    )
    found: dict[str, _Hindered] = defaultdict(_Hindered)
    for row in conn.execute(query):
        hindered = found[row.transfer]
        hindered.rows += 1 if row.stands else 2
        if row.stands:
            hindered.standing.append(Obstacle(UnixSeconds(row.since), row.kind, row.detail))
    return found


def _lost(conn: Connection, ids: Collection[str]) -> dict[str, list[RewoundSource]]:
    columns = lost_sources.c
    query = (
        select(columns.transfer, columns.tx_hash, unix_seconds(columns.lost_at), columns.paid)
        .where(columns.transfer == any_of(ids))
        .order_by(columns.tx_hash, columns.lost_at, columns.block_hash)
    )
    found: dict[str, dict[str, RewoundSource]] = defaultdict(dict)
    for transfer, tx, at, paid in conn.execute(query):
        # Taken back twice it is one transaction all the same.
        found[transfer].setdefault(tx, RewoundSource(tx, UnixSeconds(at), paid))
    return defaultdict(list, {transfer: [*lost.values()] for transfer, lost in found.items()})


@dataclass(slots=True)
class _Deposits:
    """What was paid to deposit addresses, and what these gave back, by transfer."""

    paid: dict[str, list[Payment]] = field(default_factory=lambda: defaultdict(list))
    returned: dict[str, list[Payment]] = field(default_factory=lambda: defaultdict(list))
    unproven: dict[str, set[BlockKey]] = field(default_factory=lambda: defaultdict(set))


def _deposits(conn: Connection, terms: Iterable[TransferTerms]) -> _Deposits:
    of_address = {each.deposit_address: each for each in terms if each.deposit_address is not None}
    paid = events_by_key(conn, Erc20Transfer, "recipient", list(of_address))
    refunds = events_by_key(conn, DepositRefunded, "deposit", list(of_address))
    unproven = find_unproven(conn, (event.seen for event in (*paid, *refunds)))
    found = _Deposits()
    for event in paid:
        _note(found, found.paid, of_address[event.recipient], event, unproven)
    for refund in refunds:
        _note(found, found.returned, of_address[refund.deposit], refund, unproven)
    return found


def _note(
    found: _Deposits,
    into: dict[str, list[Payment]],
    terms: TransferTerms,
    event: Erc20Transfer | DepositRefunded,
    unproven: Collection[BlockKey],
) -> None:
    """An address is the same on all chains; what is paid on another one is not the transfer's."""
    seen = event.seen
    if seen.chain != terms.source_chain:
        return
    if (seen.chain, seen.block_hash) in unproven:
        found.unproven[terms.id].add((seen.chain, seen.block_hash))
        return
    place = ChainPosition(seen.height, seen.position, seen.chain, seen.tx_hash, seen.block_time)
    into[terms.id].append(Payment(place, Address(event.token), event.amount))
