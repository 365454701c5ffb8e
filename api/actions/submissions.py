"""Submissions of owners: parsed, compared with the issued actions, stored once."""

from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Connection, func, insert, select

from api.actions.issued import issued_evm_orders, issued_onboardings, issued_stellar_txs
from api.actions.onboarding import has_consent, is_sequence_used, store_consent
from api.actions.tasks import lock_transfer
from api.errors import BadRequest, Conflict, Unprocessable
from api.parsing import Strict, canonical_hex
from api.transfers.access import OwnedTransferId
from indexer.actions.evm_calls import EvmOrder
from indexer.actions.evm_check import Match, MinedTx, Mismatch, check_order, check_payment
from indexer.actions.onboarding import parse_onboarding
from indexer.actions.stellar_check import InvalidSubmission, SignedTx, check_signed
from indexer.actions.stellar_tx import IssuedTransaction, parse_tx
from indexer.chains.stellar.xdr.ledger_entries import SigningRules
from indexer.config.networks import Network
from indexer.policy.paid_failures import paid_failures
from indexer.transfers.read import read_transfers
from indexer.transfers.state_machine import Stage
from warehouse_schema import channels
from warehouse_schema.identifiers import ChainId, EvmAddress, TxHash, UnixSeconds, is_evm
from warehouse_schema.intake import quotes, submissions, transfers


class NewSubmission(Strict):
    """The body of `POST /v1/transfers/{id}/submissions`."""

    kind: Literal["evm_tx", "stellar_tx"]
    hash: str | None = None
    signed_xdr: str | None = None


@dataclass(frozen=True, slots=True)
class DepositTarget:
    """The deposit address of a transfer."""

    chain: ChainId
    address: EvmAddress


@dataclass(frozen=True, slots=True)
class ExpectedEvmTx:
    """A transaction of the payer that executes one of the orders."""

    chain: ChainId
    payer: EvmAddress
    orders: tuple[EvmOrder, ...]


@dataclass(frozen=True, slots=True)
class ExpectedStellarTxs:
    """Issued transactions, one of which the owner has signed."""

    own: tuple[IssuedTransaction, ...]
    sponsored: tuple[IssuedTransaction, ...]


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


def read_hash(body: NewSubmission) -> TxHash:
    """The hash of an `evm_tx`. Raises `BadRequest`."""
    if body.signed_xdr is not None:
        raise BadRequest("signed_xdr is for stellar_tx: leave it out", code="BAD_SUBMISSION")
    digits = canonical_hex(body.hash or "", 64)
    if digits is None:
        raise BadRequest("hash must be 64 hex digits, as in 0x5f…", code="BAD_SUBMISSION")
    return TxHash(f"0x{digits}")


def read_signed_xdr(body: NewSubmission) -> str:
    """The envelope of a `stellar_tx`. Raises `BadRequest`."""
    if body.hash is not None:
        raise BadRequest("hash is for evm_tx: leave it out", code="BAD_SUBMISSION")
    if body.signed_xdr is None:
        raise BadRequest("signed_xdr must be the signed transaction", code="BAD_SUBMISSION")
    return body.signed_xdr


def find_deposit_target(conn: Connection, transfer: OwnedTransferId) -> DepositTarget | None:
    """None for a transfer whose owner sends the burn or send."""
    query = (
        select(quotes.c.source_chain, transfers.c.deposit_address)
        .join_from(transfers, quotes)
        .where(transfers.c.id == transfer)
    )
    row = conn.execute(query).one()
    if row.deposit_address is None:
        return None
    return DepositTarget(row.source_chain, row.deposit_address)


def verify_deposit_hint(network: Network, target: DepositTarget, mined: MinedTx | None) -> None:
    """Raises `Unprocessable` for a mined transaction that pays nothing to the address.

    Hints are not stored: the follower finds payments by their logs. A transaction that is not mined
    yet may be a valid payment.
    """
    if mined is None:
        return
    verdict = check_payment(network, target.address, mined)
    if isinstance(verdict, Mismatch):
        raise _mismatch(verdict)


def expected_evm_tx(conn: Connection, transfer: OwnedTransferId) -> ExpectedEvmTx:
    """Raises `Unprocessable` if no EVM calls were issued."""
    query = (
        select(quotes.c.source_chain, quotes.c.source_address)
        .join_from(transfers, quotes)
        .where(transfers.c.id == transfer)
    )
    row = conn.execute(query).one()
    orders = issued_evm_orders(conn, transfer)
    if not is_evm(row.source_chain) or not orders:
        message = "no evm_tx was asked for: see the transfer's actions"
        raise _mismatch(Mismatch(("kind",), message))
    return ExpectedEvmTx(row.source_chain, row.source_address, tuple(orders))


def expected_stellar_txs(
    conn: Connection, network: Network, transfer: OwnedTransferId
) -> ExpectedStellarTxs:
    """Raises `Unprocessable` if no Stellar transaction was issued."""
    own = tuple(each.issued for each in issued_stellar_txs(conn, network, transfer))
    sponsored = issued_onboardings(conn, network.stellar, transfer)
    if not own and not sponsored:
        message = "no stellar_tx was asked for: see the transfer's actions"
        raise _mismatch(Mismatch(("kind",), message))
    return ExpectedStellarTxs(own, sponsored)


def match_stellar_tx(
    network: Network,
    expected: ExpectedStellarTxs,
    rules: SigningRules,
    signed: str,
    now: UnixSeconds,
) -> AcceptedSubmission:
    """The issued transaction that was signed. Raises `Unprocessable`."""
    issued = (*expected.own, *expected.sponsored)
    verdict = check_signed(network.stellar.passphrase, issued, rules, signed, now)
    match verdict:
        case SignedTx():
            opens_trustline = any(each.tx == verdict.tx for each in expected.sponsored)
            return AcceptedSubmission(verdict.tx, (0,), verdict.envelope, opens_trustline)
        case InvalidSubmission():
            raise _mismatch(Mismatch((verdict.field,), verdict.message))


def require_not_submitted(conn: Connection, transfer: OwnedTransferId, tx: TxHash) -> None:
    """Raises `Conflict` if the transaction was submitted for this transfer before."""
    columns = submissions.c
    query = select(columns.log).where(columns.transfer == transfer, columns.tx_hash == tx)
    if conn.execute(query).first() is not None:
        raise _duplicate(tx)


def match_evm_tx(
    network: Network, expected: ExpectedEvmTx, tx: TxHash, mined: MinedTx | None
) -> AcceptedSubmission:
    """The logs that match an expected order. Raises `Unprocessable`."""
    if mined is None:
        raise Unprocessable(
            f"{tx} is not mined on {expected.chain}, as far as enough nodes know: send it again",
            code="NOT_MINED",
        )
    verdict = check_order(network, expected.payer, expected.orders, mined)
    match verdict:
        case Match():
            return AcceptedSubmission(tx, verdict.logs)
        case Mismatch():
            raise _mismatch(verdict)


def store_submission(
    conn: Connection, network: Network, transfer: OwnedTransferId, accepted: AcceptedSubmission
) -> None:
    """Assign the transaction to the transfer. Raises `Conflict`, `Unprocessable`.

    Cancellation takes the same lock, so the second of two sees what the first one wrote.
    """
    lock_transfer(conn, transfer)
    tx, signed = accepted.tx, accepted.signed
    if accepted.opens_trustline and signed is not None:
        _store_trustline_consent(conn, network, transfer, tx, signed)
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
    conn.execute(select(func.pg_notify(channels.INTAKE, transfer)))


def _store_trustline_consent(
    conn: Connection, network: Network, transfer: OwnedTransferId, tx: TxHash, signed: bytes
) -> None:
    if has_consent(conn, tx):
        raise _duplicate(tx)
    _require_stage(conn, network, transfer, "AWAITING_TRUSTLINE")
    passphrase = network.stellar.passphrase
    terms = parse_onboarding(passphrase, parse_tx(passphrase, signed))
    if is_sequence_used(conn, network.stellar, terms):
        message = f"the sequence number of {tx} was used meanwhile: ask for the action anew"
        raise _mismatch(Mismatch(("transaction",), message))
    store_consent(conn, transfer, tx, terms, signed)


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


def _mismatch(found: Mismatch) -> Unprocessable:
    return Unprocessable(found.message, code="SUBMISSION_MISMATCH", fields=list(found.fields))
