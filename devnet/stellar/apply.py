"""Applying transactions to the ledger: fees first, then each transaction, then the refunds.

The results are those that the ledger's meta holds of each transaction: result, changes and events
(the shape since protocol 23: TransactionMeta v4, unified events, refunds after all transactions).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from stellar_sdk import xdr

from devnet.stellar import asset_events, results
from devnet.stellar.authorisation import Enforced
from devnet.stellar.contracts import CONTRACTS
from devnet.stellar.contracts.token import Token
from devnet.stellar.entries import Layer
from devnet.stellar.host import Host, InvocationFailed, Ledger, diagnostic, invoke
from devnet.stellar.metering import Footprint, Storage, Used
from devnet.stellar.operations import CLASSIC, body_of
from devnet.stellar.stage import NotApplicable, Refused, Stage
from devnet.stellar.transactions import Invalid, Transaction, check_signatures, inside

_Code = xdr.TransactionResultCode


@dataclass
class Applied:
    """A transaction of a ledger, as its meta holds it."""

    transaction: Transaction
    charged: int
    fee_changes: xdr.LedgerEntryChanges
    events: list[xdr.TransactionEvent]
    result: xdr.TransactionResult | None = None
    before: xdr.LedgerEntryChanges = field(default_factory=lambda: xdr.LedgerEntryChanges([]))
    operations: list[xdr.OperationMetaV2] = field(default_factory=list)
    soroban: xdr.SorobanTransactionMetaV2 | None = None
    refundable: int = 0
    """Stroops of the resource fee that were used of what may come back."""
    diagnostics: list[xdr.DiagnosticEvent] = field(default_factory=list)
    refund_changes: xdr.LedgerEntryChanges = field(
        default_factory=lambda: xdr.LedgerEntryChanges([])
    )

    def to_meta(self) -> xdr.TransactionResultMetaV1:
        """The transaction's part of LedgerCloseMeta."""
        assert self.result is not None
        meta = xdr.TransactionMetaV4(
            ext=xdr.ExtensionPoint(0),
            tx_changes_before=self.before,
            operations=self.operations,
            tx_changes_after=xdr.LedgerEntryChanges([]),
            soroban_meta=self.soroban,
            events=self.events,
            diagnostic_events=self.diagnostics,
        )
        return xdr.TransactionResultMetaV1(
            ext=xdr.ExtensionPoint(0),
            result=xdr.TransactionResultPair(xdr.Hash(self.transaction.hash), self.result),
            fee_processing=self.fee_changes,
            tx_apply_processing=xdr.TransactionMeta(4, v4=meta),
            post_tx_apply_fee_processing=self.refund_changes,
        )


def apply_all(transactions: Sequence[Transaction], ledger: Layer, close_time: int) -> list[Applied]:
    """Apply valid transactions in the given order; their writes end up in `ledger`."""
    applied = [_charge(transaction, ledger) for transaction in transactions]
    for one in applied:
        _apply(one, ledger, close_time)
    for one in applied:
        _refund(one, ledger)
    return applied


def _fee_event(stage: xdr.TransactionEventStage, payer: str, amount: int) -> xdr.TransactionEvent:
    return xdr.TransactionEvent(stage, asset_events.fee(payer, amount))


def _charge(transaction: Transaction, ledger: Layer) -> Applied:
    fee, payer = transaction.first_charge, transaction.payer
    layer = ledger.above()
    layer.pay_account(payer, -fee)
    changes = layer.changes()
    layer.commit()
    stage = xdr.TransactionEventStage.TRANSACTION_EVENT_STAGE_BEFORE_ALL_TXS
    return Applied(transaction, fee, changes, [_fee_event(stage, payer, fee)])


def _apply(one: Applied, ledger: Layer, close_time: int) -> None:
    """Spend the sequence number, then run the operations: all of them or none."""
    tx = one.transaction
    try:
        with inside(tx):
            _spend_sequence(one, ledger, close_time)
            check_signatures(tx, ledger)
            code, outcomes = _run(one, ledger, close_time)
    except Invalid as invalid:
        one.result = invalid.result(one.charged)
    else:
        one.result = tx.result(code, one.charged, outcomes)


def _run(
    one: Applied, ledger: Layer, close_time: int
) -> tuple[xdr.TransactionResultCode, list[xdr.OperationResult]]:
    """Raise `Invalid` when all operations hold and a sponsorship is left open all the same."""
    body, sponsors = ledger.above(), dict[str, str]()
    succeeded, outcomes = _run_operations(one, body, close_time, sponsors)
    if succeeded and not sponsors:
        body.commit()
        return _Code.txSUCCESS, outcomes
    one.operations = []
    if succeeded:
        raise Invalid(_Code.txBAD_SPONSORSHIP)
    return _Code.txFAILED, outcomes


def _spend_sequence(one: Applied, ledger: Layer, close_time: int) -> None:
    tx = one.transaction
    start = ledger.above()
    account = start.account(tx.source)
    if account is None:
        # An earlier transaction of this ledger merged or bumped the source.
        raise Invalid(_Code.txNO_ACCOUNT)
    if account.sequence >= tx.sequence:
        raise Invalid(_Code.txBAD_SEQ)
    start.put_account(
        replace(account, sequence=tx.sequence, seq_ledger=ledger.sequence, seq_time=close_time)
    )
    one.before = start.changes()
    start.commit()


def _run_operations(
    one: Applied, body: Layer, close_time: int, sponsors: dict[str, str]
) -> tuple[bool, list[xdr.OperationResult]]:
    """Run every operation, also after one failed (as stellar-core does), and say if all held."""
    succeeded, outcomes = True, []
    for operation in one.transaction.body.operations:
        layer: Layer
        if operation.body.type in CLASSIC:
            layer = body.above()
            stage = _stage(one.transaction, operation, layer, close_time, sponsors)
            held, outcome, events = _run_classic(stage, operation)
        else:
            layer = contract = storage(body, one.transaction)
            held, outcome, events = _run_contract(one, operation, contract, close_time)
        outcomes.append(outcome)
        succeeded = succeeded and held
        if held:
            one.operations.append(
                xdr.OperationMetaV2(xdr.ExtensionPoint(0), layer.changes(), events)
            )
            layer.commit()
    return succeeded, outcomes


def _stage(
    tx: Transaction,
    operation: xdr.Operation,
    layer: Layer,
    close_time: int,
    sponsors: dict[str, str],
) -> Stage:
    return Stage(layer, tx.source_of(operation), tx.body.memo, close_time, sponsors)


def storage(below: Layer, tx: Transaction) -> Storage:
    """The layer that a contract call works on, held to what the transaction named."""
    assert tx.body.ext.soroban_data is not None
    named = Footprint.of(tx.body.ext.soroban_data.resources.footprint)
    return Storage(below, below.sequence, footprint=named)


_Outcome = tuple[bool, xdr.OperationResult, list[xdr.ContractEvent]]


def _run_classic(stage: Stage, operation: xdr.Operation) -> _Outcome:
    kind = operation.body.type
    try:
        stage.source_account()
        payload = CLASSIC[kind].apply(stage, body_of(operation))
    except Refused as refusal:
        return False, results.classic(kind, refusal.code), []
    except NotApplicable as refusal:
        return False, results.outer(refusal.code), []
    return True, results.classic(kind, payload=payload), stage.events


def _run_contract(
    one: Applied, operation: xdr.Operation, layer: Storage, close_time: int
) -> _Outcome:
    code = xdr.InvokeHostFunctionResultCode
    body, tx = operation.body.invoke_host_function_op, one.transaction
    assert body is not None
    consent = Enforced(tx.source_of(operation), body.auth)
    host = Host(layer, Ledger(layer.sequence, close_time), consent, CONTRACTS, Token)
    try:
        invoked = invoke(host, body.host_function)
    except InvocationFailed as failure:
        one.diagnostics.append(diagnostic(failure))
        one.soroban = _soroban_meta(one, None)
        return False, results.invocation(code.INVOKE_HOST_FUNCTION_TRAPPED), []
    refused = _beyond(tx, invoked.used)
    if refused is not None:
        one.soroban = _soroban_meta(one, None)
        return False, results.invocation(refused), []
    one.refundable = invoked.used.refundable
    one.soroban = _soroban_meta(one, invoked.value)
    success = results.invocation(code.INVOKE_HOST_FUNCTION_SUCCESS, invoked.pre_image_hash)
    return True, success, list(invoked.events)


def _beyond(tx: Transaction, used: Used) -> xdr.InvokeHostFunctionResultCode | None:
    """The code of a call that used more than was declared, or than was paid for."""
    code = xdr.InvokeHostFunctionResultCode
    data = tx.body.ext.soroban_data
    assert data is not None
    if not used.within(data.resources):
        return code.INVOKE_HOST_FUNCTION_RESOURCE_LIMIT_EXCEEDED
    if used.refundable > tx.resource_fee - tx.declared_fee:
        return code.INVOKE_HOST_FUNCTION_INSUFFICIENT_REFUNDABLE_FEE
    return None


def _soroban_meta(one: Applied, value: xdr.SCVal | None) -> xdr.SorobanTransactionMetaV2:
    ext = xdr.SorobanTransactionMetaExtV1(
        xdr.ExtensionPoint(0),
        xdr.Int64(one.transaction.declared_fee),
        xdr.Int64(one.refundable),
        xdr.Int64(0),
    )
    return xdr.SorobanTransactionMetaV2(xdr.SorobanTransactionMetaExt(1, v1=ext), value)


def _refund(one: Applied, ledger: Layer) -> None:
    """Refund the unused resource fee, and set the fee charged in the result."""
    tx = one.transaction
    refund = tx.resource_fee - tx.declared_fee - one.refundable
    layer = ledger.above()
    if refund <= 0 or layer.account(tx.payer) is None:
        return
    layer.pay_account(tx.payer, refund)
    one.refund_changes = layer.changes()
    layer.commit()
    stage = xdr.TransactionEventStage.TRANSACTION_EVENT_STAGE_AFTER_ALL_TXS
    one.events.append(_fee_event(stage, tx.payer, -refund))
    assert one.result is not None
    one.charged -= refund
    one.result.fee_charged = xdr.Int64(one.charged)
