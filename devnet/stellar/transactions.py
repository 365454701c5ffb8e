"""Transactions: envelopes, and the rules for entering a ledger.

The checks stand in stellar-core's order. Fees and balances are stroops, times are seconds.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256

from stellar_sdk import xdr

from devnet.stellar import results
from devnet.stellar.accounts import NETWORK_ID
from devnet.stellar.entries import Account, Layer
from devnet.stellar.metering import declared_fee, is_allowed
from devnet.stellar.operations import CLASSIC, LOW, MALFORMED, MEDIUM, body_of
from devnet.stellar.signatures import SignatureCheck
from devnet.stellar.stage import NotApplicable, Refused, Stage, address_of

BASE_FEE = 100
_Code = xdr.TransactionResultCode


class UnreadableTransaction(ValueError):
    """The bytes are not a transaction envelope."""


class Invalid(Exception):
    """A transaction may not enter a ledger (or fails as a whole once it is in one).

    `fee_needed` is what a fee that is too low would have to be; `inner` is set when a fee bump is
    sound and what it bumps is not.
    """

    def __init__(
        self,
        code: xdr.TransactionResultCode,
        operations: list[xdr.OperationResult] | None = None,
        *,
        fee_needed: int = 0,
        inner: xdr.InnerTransactionResultPair | None = None,
    ) -> None:
        super().__init__(code.name)
        self.code = code
        self.operations = operations
        self.fee_needed = fee_needed
        self.inner = inner

    def result(self, fee: int | None = None) -> xdr.TransactionResult:
        """The result of the failure; `fee` was charged all the same."""
        charged = self.fee_needed if fee is None else fee
        return results.transaction(self.code, charged, self.operations, inner=self.inner)


@dataclass(frozen=True)
class Transaction:
    """A submitted transaction envelope; `hash` is its id on the devnet.

    Of a fee bump (CAP-15), the envelope's own part is who pays how much; all else (`body`,
    `signatures`, `source`, `sequence`) is that of the transaction inside, whose hash is
    `inner_hash`.
    """

    envelope: xdr.TransactionEnvelope
    hash: bytes
    inner_hash: bytes

    @classmethod
    def from_xdr(cls, envelope: xdr.TransactionEnvelope) -> "Transaction":
        """Raise `Invalid` (txNOT_SUPPORTED) for the envelope of before 2020."""
        outer = envelope_hash(envelope)
        if envelope.fee_bump is None:
            if envelope.v1 is None:
                raise Invalid(_Code.txNOT_SUPPORTED)
            return cls(envelope, outer, outer)
        inside = envelope.fee_bump.tx.inner_tx
        inner = xdr.TransactionEnvelope(xdr.EnvelopeType.ENVELOPE_TYPE_TX, v1=inside.v1)
        return cls(envelope, outer, envelope_hash(inner))

    @property
    def _inside(self) -> xdr.TransactionV1Envelope:
        bump = self.envelope.fee_bump
        v1 = self.envelope.v1 if bump is None else bump.tx.inner_tx.v1
        assert v1 is not None
        return v1

    @property
    def is_fee_bump(self) -> bool:
        """Does another account pay, or the same one more?"""
        return self.envelope.fee_bump is not None

    @property
    def body(self) -> xdr.Transaction:
        """The transaction without its signatures."""
        return self._inside.tx

    @property
    def signatures(self) -> list[xdr.DecoratedSignature]:
        """At most 20, under `inner_hash`."""
        return self._inside.signatures

    @property
    def bump_signatures(self) -> list[xdr.DecoratedSignature]:
        """The payer's, under `hash`; none unless this is a fee bump."""
        bump = self.envelope.fee_bump
        return [] if bump is None else bump.signatures

    @property
    def source(self) -> str:
        """The `G…` address whose sequence number is spent."""
        return address_of(self.body.source_account)

    @property
    def payer(self) -> str:
        """The `G…` address that pays the fee."""
        bump = self.envelope.fee_bump
        return self.source if bump is None else address_of(bump.tx.fee_source)

    @property
    def sequence(self) -> int:
        """The sequence number that it spends."""
        return self.body.seq_num.sequence_number.int64

    @property
    def fee_bid(self) -> int:
        """The most that it may cost."""
        bump = self.envelope.fee_bump
        return self.body.fee.uint32 if bump is None else bump.tx.fee.int64

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
    def declared_fee(self) -> int:
        """The non-refundable part of `resource_fee`, for the declared resources."""
        data = self.body.ext.soroban_data
        if data is None:
            return 0
        return declared_fee(data.resources, len(self._inside.to_xdr_bytes()))

    @property
    def inner_minimum(self) -> int:
        """The least that inclusion costs, without a fee bump around it."""
        return BASE_FEE * max(1, len(self.body.operations))

    @property
    def minimum(self) -> int:
        """The least that inclusion costs; a fee bump counts as one operation more."""
        return self.inner_minimum + BASE_FEE * self.is_fee_bump

    @property
    def first_charge(self) -> int:
        """Fee charged before the ledger is applied; a refund may follow (CAP-67)."""
        return self.minimum + self.resource_fee

    def source_of(self, operation: xdr.Operation) -> str:
        """The operation's own source, or the transaction's."""
        muxed = operation.source_account
        return self.source if muxed is None else address_of(muxed)

    def inner_result(
        self, code: xdr.TransactionResultCode, operations: list[xdr.OperationResult] | None
    ) -> xdr.InnerTransactionResultPair:
        """Result of the inner transaction of a fee bump."""
        return results.inner(self.inner_hash, code, operations)

    def result(
        self, code: xdr.TransactionResultCode, fee: int, operations: list[xdr.OperationResult]
    ) -> xdr.TransactionResult:
        """The result once it was applied: txSUCCESS or txFAILED, in a fee bump's wrapping."""
        if not self.is_fee_bump:
            return results.transaction(code, fee, operations)
        held = code == _Code.txSUCCESS
        outer = _Code.txFEE_BUMP_INNER_SUCCESS if held else _Code.txFEE_BUMP_INNER_FAILED
        return results.transaction(outer, fee, inner=self.inner_result(code, operations))


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
    if tx.resource_fee < 0 or (tx.resource_fee > tx.fee_bid and not tx.is_fee_bump):
        # Inside a fee bump (since protocol 23) the payer answers for the resources as well.
        raise Invalid(_Code.txSOROBAN_INVALID)
    data = tx.body.ext.soroban_data
    assert data is not None
    if not is_allowed(data.resources) or tx.resource_fee < tx.declared_fee:
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
        level = CLASSIC[kind].level(body_of(operation))
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
            CLASSIC[kind].apply(stage, body_of(operation))
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
    check = SignatureCheck(tx.inner_hash, tx.signatures)
    if not check.by_account(account, LOW):
        raise Invalid(_Code.txBAD_AUTH)
    _check_extra_signers(tx, check)
    check_operations(tx, layer, check)
    if not check.all_used:
        raise Invalid(_Code.txBAD_AUTH_EXTRA)


@contextmanager
def inside(tx: Transaction) -> Iterator[None]:
    """Failures here are those of the inner transaction, if this is a fee bump."""
    try:
        yield
    except Invalid as invalid:
        if not tx.is_fee_bump:
            raise
        pair = tx.inner_result(invalid.code, invalid.operations)
        raise Invalid(_Code.txFEE_BUMP_INNER_FAILED, inner=pair) from invalid


def check_valid(tx: Transaction, layer: Layer, close_time: int) -> None:
    """May this transaction enter ledger `layer.sequence`? Raise `Invalid` with the code if not.

    `layer` is an uncommitted layer on the last closed ledger; `close_time` is the new ledger's.
    """
    if tx.is_fee_bump:
        _check_bump(tx, layer)
    with inside(tx):
        _check_inside(tx, layer, close_time)


def _check_bump(tx: Transaction, layer: Layer) -> None:
    """The payer's half, before anything of the transaction inside is looked at."""
    inclusion, needed = tx.fee_bid - tx.resource_fee, tx.minimum
    if inclusion < needed:
        raise Invalid(_Code.txINSUFFICIENT_FEE)
    inside_bid = tx.body.fee.uint32 - tx.resource_fee
    if inclusion * tx.inner_minimum < inside_bid * needed:
        # It must bid no less for each operation than the transaction inside does.
        enough = -(-inside_bid * needed // tx.inner_minimum)
        raise Invalid(_Code.txINSUFFICIENT_FEE, fee_needed=enough + tx.resource_fee)
    payer = layer.account(tx.payer)
    if payer is None:
        raise Invalid(_Code.txNO_ACCOUNT)
    check = SignatureCheck(tx.hash, tx.bump_signatures)
    if not check.by_account(payer, LOW):
        raise Invalid(_Code.txBAD_AUTH)
    if payer.spendable < tx.fee_bid:
        raise Invalid(_Code.txINSUFFICIENT_BALANCE)
    if not check.all_used:
        raise Invalid(_Code.txBAD_AUTH_EXTRA)


def _check_inside(tx: Transaction, layer: Layer, close_time: int) -> None:
    _check_shape(tx)
    _check_when(tx, layer.sequence, close_time)
    if not tx.is_fee_bump and tx.fee_bid < tx.first_charge:
        raise Invalid(_Code.txINSUFFICIENT_FEE, fee_needed=tx.first_charge)
    account = layer.account(tx.source)
    if account is None:
        raise Invalid(_Code.txNO_ACCOUNT)
    _check_sequence(tx, account, layer.sequence, close_time)
    check = SignatureCheck(tx.inner_hash, tx.signatures)
    if not check.by_account(account, LOW):
        raise Invalid(_Code.txBAD_AUTH)
    _check_extra_signers(tx, check)
    if not tx.is_fee_bump and account.spendable < tx.fee_bid:
        raise Invalid(_Code.txINSUFFICIENT_BALANCE)
    check_operations(tx, layer, check)
    _check_well_formed(tx, layer, close_time)
    if not check.all_used:
        raise Invalid(_Code.txBAD_AUTH_EXTRA)
