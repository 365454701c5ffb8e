"""Stored submissions: each transaction belongs to one transfer and is stored once."""

from dataclasses import dataclass

from sqlalchemy import Connection, func, insert, select

from api.errors import Conflict, Unprocessable
from api.transfers.access import OwnedTransferId
from indexer.actions.onboarding import parse_onboarding
from indexer.actions.stellar_tx import parse_tx
from indexer.config.networks import Network
from indexer.policy.paid_failures import paid_failures
from indexer.transfers.read import read_transfers
from indexer.transfers.state_machine import Stage
from indexer.transfers.store import lock_transfers
from warehouse_schema import channels
from warehouse_schema.identifiers import TxHash
from warehouse_schema.intake import consents, submissions
from warehouse_schema.notifications import queue_notifications
from warehouse_schema.relay import slots


@dataclass(frozen=True, slots=True)
class AcceptedSubmission:
    """A transaction that matches, unless it was submitted for another transfer."""

    tx: TxHash
    logs: tuple[int, ...]
    """Matching logs; a submission takes one of them."""
    signed: bytes | None = None
    """A Stellar envelope with all its signatures, for the relay to send."""
    opens_trustline: bool = False
    """A sponsor's transaction, which moves no money of the transfer."""


def mismatch(message: str, *fields: str) -> Unprocessable:
    """The error of a transaction that is not the one asked for; `fields`: what differs."""
    return Unprocessable(message, code="SUBMISSION_MISMATCH", fields=list(fields))


def require_not_submitted(conn: Connection, transfer: OwnedTransferId, tx: TxHash) -> None:
    """Raises `Conflict` if the transaction was submitted for this transfer before."""
    columns = submissions.c
    query = select(columns.log).where(columns.transfer == transfer, columns.tx_hash == tx)
    if conn.execute(query).first() is not None:
        raise _duplicate(tx)


def store_submission(
    conn: Connection, network: Network, transfer: OwnedTransferId, accepted: AcceptedSubmission
) -> None:
    """Assign the transaction to the transfer. Raises `Conflict`, `Unprocessable`.

    Cancellation takes the same lock, so the second of two sees what the first one wrote.
    """
    lock_transfers(conn, [transfer])
    tx, signed = accepted.tx, accepted.signed
    if accepted.opens_trustline and signed is not None:
        _store_consent(conn, network, transfer, tx, signed)
        return
    require_not_submitted(conn, transfer, tx)
    if signed is not None:
        _require_stage(conn, network, transfer, "AWAITING_SIGNATURE")
        # The relay would not pay for the transaction, which would wait until it expires.
        failures = paid_failures(conn, transfer).get("submitter")
        if failures is not None and failures.are_too_many:
            raise Unprocessable(
                f"{failures.failed} transactions for you failed today at our expense: we send no "
                "more before the next UTC day; send it to the network yourself, or sign again then",
                code="TOO_MANY_FAILURES",
            )
    taken = set(conn.scalars(select(submissions.c.log).where(submissions.c.tx_hash == tx)))
    free = [log for log in accepted.logs if log not in taken]
    if not free:
        raise _duplicate(tx)
    kind = "evm_tx" if signed is None else "stellar_tx"
    row = {"tx_hash": tx, "log": free[0], "kind": kind, "signed": signed}
    conn.execute(insert(submissions).values(transfer=transfer, **row))
    queue_notifications(conn, channels.INTAKE, [transfer])


def has_consent(conn: Connection, tx: TxHash) -> bool:
    """Whether the owner has signed the sponsor's transaction."""
    return conn.scalar(select(consents.c.tx_hash).where(consents.c.tx_hash == tx)) is not None


def _store_consent(
    conn: Connection, network: Network, transfer: OwnedTransferId, tx: TxHash, signed: bytes
) -> None:
    """Store a sponsor's transaction that the owner signed, for the relay to sign and send."""
    if has_consent(conn, tx):
        raise _duplicate(tx)
    _require_stage(conn, network, transfer, "AWAITING_TRUSTLINE")
    stellar = network.stellar
    terms = parse_onboarding(stellar.passphrase, parse_tx(stellar.passphrase, signed))
    is_used = select(func.count()).where(
        slots.c.chain == stellar.id,
        slots.c.account == terms.sponsor,
        slots.c.number >= terms.sequence,
    )
    if conn.scalar(is_used):
        raise mismatch(
            f"another transaction has used the sequence number of {tx}: ask for the action again",
            "transaction",
        )
    row = {"tx_hash": tx, "sponsor": terms.sponsor, "number": terms.sequence, "signed": signed}
    conn.execute(insert(consents).values(transfer=transfer, **row))


def _require_stage(
    conn: Connection, network: Network, transfer: OwnedTransferId, expected: Stage
) -> None:
    """A transaction of a transfer that is cancelled or paid already must not be sent."""
    [reading] = read_transfers(conn, network, [transfer])
    stage = reading.state.stage
    if stage != expected:
        raise Conflict(
            f"the transfer is {stage}: no transaction is sent for it now",
            code="NOT_AWAITED",
            stage=stage,
        )


def _duplicate(tx: TxHash) -> Conflict:
    return Conflict(f"{tx} was submitted before", code="DUPLICATE_SUBMISSION")
