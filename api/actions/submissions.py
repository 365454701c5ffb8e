"""What owners submit: read strictly, held against what they were shown, kept once."""

from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Connection, func, insert, select

from api.actions.onboarding import is_number_used, keep_consent, shown_onboardings
from api.actions.rules import decide, issued_on_stellar, issued_orders
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
from warehouse_schema.intake import consents, quotes, submissions, transfers


class NewSubmission(Strict):
    """The body of `POST /v1/transfers/{id}/submissions`."""

    kind: Literal["evm_tx", "stellar_tx"]
    hash: str | None = None
    signed_xdr: str | None = None


@dataclass(frozen=True, slots=True)
class Expected:
    """What a transfer's EVM transaction has to be."""

    chain: ChainId
    payer: EvmAddress
    orders: tuple[EvmOrder, ...]
    """Each of them will do."""


@dataclass(frozen=True, slots=True)
class DepositTarget:
    """Where a transfer is paid in."""

    chain: ChainId
    address: EvmAddress


@dataclass(frozen=True, slots=True)
class AcceptedSubmission:
    """A transaction that is the transfer's, if nobody else has it."""

    tx: TxHash
    logs: tuple[int, ...]
    """Which of its logs are what was asked for; one will do."""
    signed: bytes | None = None
    """A Stellar envelope with all its signatures, for the relay to send."""
    opens_trustline: bool = False
    """A transaction of a sponsor's, which moves no money of the transfer."""


def read_hash(asked: NewSubmission) -> TxHash:
    """The hash of an `evm_tx`. Raises `BadRequest`."""
    if asked.signed_xdr is not None:
        raise BadRequest("signed_xdr is for stellar_tx: leave it out", code="BAD_SUBMISSION")
    found = canonical_hex(asked.hash or "", 64)
    if found is None:
        raise BadRequest("hash must be 64 hex digits, as in 0x5f…", code="BAD_SUBMISSION")
    return TxHash(f"0x{found}")


def read_signed(asked: NewSubmission) -> str:
    """The envelope of a `stellar_tx`. Raises `BadRequest`."""
    if asked.hash is not None:
        raise BadRequest("hash is for evm_tx: leave it out", code="BAD_SUBMISSION")
    if asked.signed_xdr is None:
        raise BadRequest("signed_xdr must be the signed transaction", code="BAD_SUBMISSION")
    return asked.signed_xdr


def deposit_address(conn: Connection, transfer: OwnedTransferId) -> DepositTarget | None:
    """Where a transfer is paid in; None for one whose owner sends the burn or send."""
    query = (
        select(quotes.c.source_chain, transfers.c.deposit_address)
        .join_from(transfers, quotes)
        .where(transfers.c.id == transfer)
    )
    row = conn.execute(query).one()
    if row.deposit_address is None:
        return None
    return DepositTarget(row.source_chain, row.deposit_address)


def check_hint(network: Network, paid_in: DepositTarget, mined: MinedTx | None) -> None:
    """Refuse a mined transaction that pays nothing to the address. Raises `Unacceptable`.

    Nothing is kept of it: the follower finds payments by their logs, and one that is not mined yet
    may be a true payment.
    """
    if mined is None:
        return
    verdict = check_payment(network, paid_in.address, mined)
    if isinstance(verdict, Mismatch):
        raise _mismatch(verdict)


def expected(conn: Connection, transfer: OwnedTransferId) -> Expected:
    """What was shown to the owner. Raises `Unacceptable` when that was no EVM call."""
    query = (
        select(quotes.c.source_chain, quotes.c.source_address)
        .join_from(transfers, quotes)
        .where(transfers.c.id == transfer)
    )
    row = conn.execute(query).one()
    orders = issued_orders(conn, transfer)
    if not is_evm(row.source_chain) or not orders:
        raise _unasked("evm_tx")
    return Expected(row.source_chain, row.source_address, tuple(orders))


@dataclass(frozen=True, slots=True)
class ExpectedOnStellar:
    """The transactions of which one is to be signed."""

    own: tuple[IssuedTransaction, ...]
    sponsored: tuple[IssuedTransaction, ...]


def expected_on_stellar(
    conn: Connection, network: Network, transfer: OwnedTransferId
) -> ExpectedOnStellar:
    """As `expected`."""
    own = tuple(each.issued for each in issued_on_stellar(conn, network, transfer))
    by_sponsors = tuple(shown_onboardings(conn, network.stellar, transfer))
    if not own and not by_sponsors:
        raise _unasked("stellar_tx")
    return ExpectedOnStellar(own, by_sponsors)


def find_signed(
    network: Network,
    wanted: ExpectedOnStellar,
    rules: SigningRules,
    signed: str,
    now: UnixSeconds,
) -> AcceptedSubmission:
    """The issued transaction that was signed. Raises `Unacceptable`."""
    issued = (*wanted.own, *wanted.sponsored)
    verdict = check_signed(network.stellar.passphrase, issued, rules, signed, now)
    match verdict:
        case SignedTx():
            is_sponsored = any(each.tx == verdict.tx for each in wanted.sponsored)
            return AcceptedSubmission(verdict.tx, (0,), verdict.envelope, is_sponsored)
        case InvalidSubmission():
            raise _mismatch(Mismatch((verdict.field,), verdict.message))


def refuse_known(conn: Connection, transfer: OwnedTransferId, tx: TxHash) -> None:
    """Raises `Conflict` for what the transfer has already: no node need be asked."""
    columns = submissions.c
    query = select(columns.log).where(columns.transfer == transfer, columns.tx_hash == tx)
    if conn.execute(query).first() is not None:
        raise _duplicate(tx)


def find(
    network: Network, wanted: Expected, tx: TxHash, mined: MinedTx | None
) -> AcceptedSubmission:
    """The logs that are what was asked for. Raises `Unacceptable`."""
    if mined is None:
        raise Unprocessable(
            f"{tx} is not mined on {wanted.chain}, as far as enough nodes know: send it again",
            code="NOT_MINED",
        )
    verdict = check_order(network, wanted.payer, wanted.orders, mined)
    match verdict:
        case Match():
            return AcceptedSubmission(tx, verdict.logs)
        case Mismatch():
            raise _mismatch(verdict)


def keep(
    conn: Connection, network: Network, transfer: OwnedTransferId, found: AcceptedSubmission
) -> None:
    """Make the transaction the transfer's. Raises `Conflict` when it is not to be had any more.

    Under the lock under which a transfer is cancelled: whoever comes second sees the first.
    """
    decide(conn, transfer)
    if found.opens_trustline and found.signed is not None:
        _consent(conn, network, transfer, found.tx, found.signed)
        return
    refuse_known(conn, transfer, found.tx)
    if found.signed is not None:
        _refuse_unawaited(conn, network, transfer, "AWAITING_SIGNATURE")
        _refuse_after_failures(conn, transfer)
    of_others = select(submissions.c.log).where(submissions.c.tx_hash == found.tx)
    taken = set(conn.scalars(of_others))
    free = [log for log in found.logs if log not in taken]
    if not free:
        raise _duplicate(found.tx)
    kind = "evm_tx" if found.signed is None else "stellar_tx"
    row = {"tx_hash": found.tx, "log": free[0], "kind": kind, "signed": found.signed}
    conn.execute(insert(submissions).values(transfer=transfer, **row))
    conn.execute(select(func.pg_notify(channels.INTAKE, transfer)))


def _consent(
    conn: Connection, network: Network, transfer: OwnedTransferId, tx: TxHash, signed: bytes
) -> None:
    known = select(consents.c.tx_hash).where(consents.c.tx_hash == tx)
    if conn.scalar(known) is not None:
        raise _duplicate(tx)
    _refuse_unawaited(conn, network, transfer, "AWAITING_TRUSTLINE")
    made = parse_onboarding(
        network.stellar.passphrase, parse_tx(network.stellar.passphrase, signed)
    )
    if is_number_used(conn, network.stellar, made):
        message = f"the sequence number of {tx} was used meanwhile: ask for the action anew"
        raise _mismatch(Mismatch(("transaction",), message))
    keep_consent(conn, transfer, tx, made, signed)


def _refuse_unawaited(
    conn: Connection, network: Network, transfer: OwnedTransferId, awaiting: Stage
) -> None:
    """What is only now to be sent must not be, once the transfer is called off or moves already."""
    [reading] = read_transfers(conn, network, [transfer])
    stage = reading.state.stage
    if stage != awaiting:
        raise Conflict(
            f"the transfer is {stage}: no transaction is sent for it now",
            code="NOT_AWAITED",
            stage=stage,
        )


def _refuse_after_failures(conn: Connection, transfer: OwnedTransferId) -> None:
    """The relay would not pay for it, and it would wait until its time is over."""
    failures = paid_failures(conn, transfer).get("submitter")
    if failures is not None and failures.are_too_many:
        raise Unprocessable(
            f"{failures.failed} transactions for you failed today at our expense: we send no more "
            "before the next UTC day; send it to the network yourself, or sign again then",
            code="TOO_MANY_FAILURES",
        )


def _duplicate(tx: TxHash) -> Conflict:
    return Conflict(f"{tx} was submitted before", code="DUPLICATE_SUBMISSION")


def _mismatch(found: Mismatch) -> Unprocessable:
    return Unprocessable(found.message, code="SUBMISSION_MISMATCH", fields=list(found.fields))


def _unasked(kind: str) -> Unprocessable:
    return _mismatch(Mismatch(("kind",), f"no {kind} was asked for: see the transfer's actions"))
