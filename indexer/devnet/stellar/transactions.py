"""Transactions: what the envelope says, and whether it may enter a ledger.

The checks stand in stellar-core's order. Fees and balances are stroops, times are seconds.
"""

from dataclasses import dataclass
from hashlib import sha256

from stellar_sdk import xdr

from indexer.devnet.stellar import results
from indexer.devnet.stellar.accounts import NETWORK_ID
from indexer.devnet.stellar.entries import Account, Layer
from indexer.devnet.stellar.operations import (
    CLASSIC,
    LOW,
    MALFORMED,
    MEDIUM,
    NotApplicable,
    Refused,
    Stage,
    address_of,
)
from indexer.devnet.stellar.signatures import SignatureCheck

BASE_FEE = 100
_Code = xdr.TransactionResultCode


class UnreadableTransaction(ValueError):
    """The bytes are not a transaction envelope."""


class Invalid(Exception):
    """A transaction may not enter a ledger (or fails as a whole once it is in one)."""

    def __init__(
        self, code: xdr.TransactionResultCode, operations: list[xdr.OperationResult] | None = None
    ) -> None:
        super().__init__(code.name)
        self.code = code
        self.operations = operations

    def result(self, fee: int) -> xdr.TransactionResult:
        """The result that says so; `fee` is what was charged all the same."""
        return results.transaction(self.code, fee, self.operations)


@dataclass(frozen=True)
class Transaction:
    """A submitted transaction envelope; `hash` is its id on the devnet."""

    envelope: xdr.TransactionEnvelope
    hash: bytes

    @classmethod
    def from_xdr(cls, envelope: xdr.TransactionEnvelope) -> "Transaction":
        """Raise `Invalid` (txNOT_SUPPORTED) for a fee bump or the envelope of before 2020."""
        if envelope.v1 is None:
            raise Invalid(_Code.txNOT_SUPPORTED)
        return cls(envelope, envelope_hash(envelope))

    @property
    def body(self) -> xdr.Transaction:
        """The transaction without its signatures."""
        assert self.envelope.v1 is not None
        return self.envelope.v1.tx

    @property
    def signatures(self) -> list[xdr.DecoratedSignature]:
        """At most 20."""
        assert self.envelope.v1 is not None
        return self.envelope.v1.signatures

    @property
    def source(self) -> str:
        """The `G…` address that pays the fee and whose sequence number is spent."""
        return address_of(self.body.source_account)

    @property
    def sequence(self) -> int:
        """The sequence number that it spends."""
        return self.body.seq_num.sequence_number.int64

    @property
    def fee_bid(self) -> int:
        """The most that it may cost."""
        return self.body.fee.uint32

    @property
    def is_soroban(self) -> bool:
        """Does it call a contract?"""
        kinds = {op.body.type for op in self.body.operations}
        return xdr.OperationType.INVOKE_HOST_FUNCTION in kinds

    @property
    def resource_fee(self) -> int:
        """The most that a contract call may pay for resources; 0 for a classic transaction."""
        data = self.body.ext.soroban_data
        return 0 if data is None else data.resource_fee.int64

    @property
    def first_charge(self) -> int:
        """What is taken before the ledger is applied; a refund may follow (CAP-67)."""
        return BASE_FEE * len(self.body.operations) + self.resource_fee

    def source_of(self, operation: xdr.Operation) -> str:
        """The operation's own source, or the transaction's."""
        muxed = operation.source_account
        return self.source if muxed is None else address_of(muxed)


def envelope_hash(envelope: xdr.TransactionEnvelope) -> bytes:
    """sha256(network id ‖ envelope type ‖ transaction), also for a fee bump."""
    inner = envelope.v1 or envelope.fee_bump
    if inner is None:
        raise UnreadableTransaction("an envelope of before protocol 13")
    return sha256(NETWORK_ID + envelope.type.to_bytes(4, "big") + inner.tx.to_xdr_bytes()).digest()


def _time_bounds(cond: xdr.Preconditions) -> tuple[int, int]:
    bounds = cond.time_bounds if cond.v2 is None else cond.v2.time_bounds
    if bounds is None:
        return 0, 0
    return bounds.min_time.time_point.uint64, bounds.max_time.time_point.uint64


def _ledger_bounds(cond: xdr.Preconditions) -> tuple[int, int]:
    bounds = None if cond.v2 is None else cond.v2.ledger_bounds
    return (0, 0) if bounds is None else (bounds.min_ledger.uint32, bounds.max_ledger.uint32)


def _check_shape(tx: Transaction) -> None:
    if not tx.body.operations:
        raise Invalid(_Code.txMISSING_OPERATION)
    has_data = tx.body.ext.soroban_data is not None
    if not tx.is_soroban:
        if has_data:
            raise Invalid(_Code.txMALFORMED)
        return
    if len(tx.body.operations) != 1:
        raise Invalid(_Code.txMALFORMED)
    muxed = tx.body.source_account.med25519 is not None
    has_memo = tx.body.memo.type != xdr.MemoType.MEMO_NONE
    if not has_data or has_memo or muxed:
        raise Invalid(_Code.txSOROBAN_INVALID)
    if tx.resource_fee < 0 or tx.resource_fee > tx.fee_bid:
        raise Invalid(_Code.txSOROBAN_INVALID)


def _check_when(tx: Transaction, sequence: int, close_time: int) -> None:
    earliest, latest = _time_bounds(tx.body.cond)
    first, end = _ledger_bounds(tx.body.cond)
    if close_time < earliest or sequence < first:
        raise Invalid(_Code.txTOO_EARLY)
    if (latest and close_time > latest) or (end and sequence >= end):
        raise Invalid(_Code.txTOO_LATE)


def _check_sequence(tx: Transaction, account: Account, ledger: int, close_time: int) -> None:
    conditions = tx.body.cond.v2
    lowest = None if conditions is None else conditions.min_seq_num
    if lowest is None:
        in_order = account.sequence + 1 == tx.sequence
    else:
        in_order = lowest.sequence_number.int64 <= account.sequence < tx.sequence
    # A new account starts at ledger << 32: the first sequence of the closing ledger is its own.
    if not in_order or tx.sequence == ledger << 32:
        raise Invalid(_Code.txBAD_SEQ)
    if conditions is None:
        return
    age, gap = conditions.min_seq_age.duration.uint64, conditions.min_seq_ledger_gap.uint32
    if close_time - account.seq_time < age or ledger - account.seq_ledger < gap:
        raise Invalid(_Code.txBAD_MIN_SEQ_AGE_OR_GAP)


def _check_extra_signers(tx: Transaction, check: SignatureCheck) -> None:
    conditions = tx.body.cond.v2
    extra = [] if conditions is None else conditions.extra_signers
    if not all(check.by_signer(key) for key in extra):
        raise Invalid(_Code.txBAD_AUTH)


def check_operations(tx: Transaction, layer: Layer, check: SignatureCheck) -> None:
    """Every operation is known and signed for; raise `Invalid` (txFAILED) with the culprit."""
    outcomes = [_signed_for(tx, operation, layer, check) for operation in tx.body.operations]
    if any(code is not None for code in outcomes):
        raise Invalid(
            _Code.txFAILED,
            [
                _untouched(operation) if code is None else results.outer(code)
                for operation, code in zip(tx.body.operations, outcomes, strict=True)
            ],
        )


def _signed_for(
    tx: Transaction, operation: xdr.Operation, layer: Layer, check: SignatureCheck
) -> xdr.OperationResultCode | None:
    code = xdr.OperationResultCode
    kind = operation.body.type
    source = tx.source_of(operation)
    known = layer.account(source)
    if kind in CLASSIC:
        level = CLASSIC[kind].level(getattr(operation.body, CLASSIC[kind].body))
    elif kind == xdr.OperationType.INVOKE_HOST_FUNCTION:
        level = MEDIUM
    else:
        return code.opNOT_SUPPORTED
    if known is not None:
        return None if check.by_account(known, level) else code.opBAD_AUTH
    # An earlier operation may create this account; until then its own key must have signed.
    return None if check.by_key_alone(source) else code.opBAD_AUTH


def _untouched(operation: xdr.Operation) -> xdr.OperationResult:
    if operation.body.type in CLASSIC:
        payload = xdr.Int64(0) if operation.body.type == xdr.OperationType.ACCOUNT_MERGE else None
        return results.classic(operation.body.type, payload=payload)
    return results.outer(xdr.OperationResultCode.opNOT_SUPPORTED)


def _check_well_formed(tx: Transaction, layer: Layer, close_time: int) -> None:
    failures: dict[int, xdr.OperationResult] = {}
    for index, operation in enumerate(tx.body.operations):
        kind, source = operation.body.type, tx.source_of(operation)
        if kind not in CLASSIC or layer.account(source) is None:
            continue
        stage = Stage(layer.above(), source, tx.body.memo, close_time)
        try:
            CLASSIC[kind].apply(stage, getattr(operation.body, CLASSIC[kind].body))
        except Refused as refusal:
            # Any other refusal depends on the ledger that the transaction will meet.
            if refusal.code.name in MALFORMED:
                failures[index] = results.classic(kind, refusal.code)
        except NotApplicable as refusal:
            if refusal.code == xdr.OperationResultCode.opNOT_SUPPORTED:
                failures[index] = results.outer(refusal.code)
    if failures:
        raise Invalid(
            _Code.txFAILED,
            [
                failures.get(index) or _untouched(operation)
                for index, operation in enumerate(tx.body.operations)
            ],
        )


def check_signatures(tx: Transaction, layer: Layer) -> None:
    """Thresholds of the transaction and of each operation; raise `Invalid` when not met."""
    account = layer.account(tx.source)
    if account is None:
        raise Invalid(_Code.txNO_ACCOUNT)
    check = SignatureCheck(tx.hash, tx.signatures)
    if not check.by_account(account, LOW):
        raise Invalid(_Code.txBAD_AUTH)
    _check_extra_signers(tx, check)
    check_operations(tx, layer, check)
    if not check.all_used:
        raise Invalid(_Code.txBAD_AUTH_EXTRA)


def check_valid(tx: Transaction, layer: Layer, close_time: int) -> None:
    """May this transaction enter ledger `layer.sequence`? Raise `Invalid` with the code if not.

    `layer` is an uncommitted layer on the last closed ledger; `close_time` is the new ledger's.
    """
    _check_shape(tx)
    _check_when(tx, layer.sequence, close_time)
    if tx.fee_bid < tx.first_charge:
        raise Invalid(_Code.txINSUFFICIENT_FEE)
    account = layer.account(tx.source)
    if account is None:
        raise Invalid(_Code.txNO_ACCOUNT)
    _check_sequence(tx, account, layer.sequence, close_time)
    check = SignatureCheck(tx.hash, tx.signatures)
    if not check.by_account(account, LOW):
        raise Invalid(_Code.txBAD_AUTH)
    _check_extra_signers(tx, check)
    if account.spendable < tx.first_charge:
        raise Invalid(_Code.txINSUFFICIENT_BALANCE)
    check_operations(tx, layer, check)
    _check_well_formed(tx, layer, close_time)
    if not check.all_used:
        raise Invalid(_Code.txBAD_AUTH_EXTRA)
