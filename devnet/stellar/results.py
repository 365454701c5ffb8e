"""Transaction and operation results, in their XDR form."""

from enum import IntEnum
from typing import Any

from stellar_sdk import xdr

from devnet.stellar.operations import CLASSIC

_RESULT_TYPES: dict[xdr.OperationType, Any] = {
    xdr.OperationType.CREATE_ACCOUNT: xdr.CreateAccountResult,
    xdr.OperationType.PAYMENT: xdr.PaymentResult,
    xdr.OperationType.SET_OPTIONS: xdr.SetOptionsResult,
    xdr.OperationType.CHANGE_TRUST: xdr.ChangeTrustResult,
    xdr.OperationType.ACCOUNT_MERGE: xdr.AccountMergeResult,
    xdr.OperationType.MANAGE_DATA: xdr.ManageDataResult,
    xdr.OperationType.BUMP_SEQUENCE: xdr.BumpSequenceResult,
    xdr.OperationType.SET_TRUST_LINE_FLAGS: xdr.SetTrustLineFlagsResult,
    xdr.OperationType.BEGIN_SPONSORING_FUTURE_RESERVES: xdr.BeginSponsoringFutureReservesResult,
    xdr.OperationType.END_SPONSORING_FUTURE_RESERVES: xdr.EndSponsoringFutureReservesResult,
}
_BEGIN = xdr.BeginSponsoringFutureReservesResultCode
_END = xdr.EndSponsoringFutureReservesResultCode
_SUCCESS = {
    xdr.OperationType.CREATE_ACCOUNT: xdr.CreateAccountResultCode.CREATE_ACCOUNT_SUCCESS,
    xdr.OperationType.PAYMENT: xdr.PaymentResultCode.PAYMENT_SUCCESS,
    xdr.OperationType.SET_OPTIONS: xdr.SetOptionsResultCode.SET_OPTIONS_SUCCESS,
    xdr.OperationType.CHANGE_TRUST: xdr.ChangeTrustResultCode.CHANGE_TRUST_SUCCESS,
    xdr.OperationType.ACCOUNT_MERGE: xdr.AccountMergeResultCode.ACCOUNT_MERGE_SUCCESS,
    xdr.OperationType.MANAGE_DATA: xdr.ManageDataResultCode.MANAGE_DATA_SUCCESS,
    xdr.OperationType.BUMP_SEQUENCE: xdr.BumpSequenceResultCode.BUMP_SEQUENCE_SUCCESS,
    xdr.OperationType.SET_TRUST_LINE_FLAGS: (
        xdr.SetTrustLineFlagsResultCode.SET_TRUST_LINE_FLAGS_SUCCESS
    ),
    xdr.OperationType.BEGIN_SPONSORING_FUTURE_RESERVES: (
        _BEGIN.BEGIN_SPONSORING_FUTURE_RESERVES_SUCCESS
    ),
    xdr.OperationType.END_SPONSORING_FUTURE_RESERVES: (_END.END_SPONSORING_FUTURE_RESERVES_SUCCESS),
}


def classic(
    kind: xdr.OperationType, code: IntEnum | None = None, payload: Any = None
) -> xdr.OperationResult:
    """The result of a supported classic operation; no code means success."""
    arguments = [_SUCCESS[kind] if code is None else code]
    if payload is not None:
        arguments.append(payload)
    tr = xdr.OperationResultTr(kind, **{CLASSIC[kind].result: _RESULT_TYPES[kind](*arguments)})
    return xdr.OperationResult(xdr.OperationResultCode.opINNER, tr)


def outer(code: xdr.OperationResultCode) -> xdr.OperationResult:
    """An operation that failed before its own logic."""
    return xdr.OperationResult(code)


def invocation(
    code: xdr.InvokeHostFunctionResultCode, success: bytes | None = None
) -> xdr.OperationResult:
    """The result of a contract invocation; `success` is the hash of its success pre-image."""
    result = xdr.InvokeHostFunctionResult(code, None if success is None else xdr.Hash(success))
    tr = xdr.OperationResultTr(
        xdr.OperationType.INVOKE_HOST_FUNCTION, invoke_host_function_result=result
    )
    return xdr.OperationResult(xdr.OperationResultCode.opINNER, tr)


def transaction(
    code: xdr.TransactionResultCode,
    fee: int,
    operations: list[xdr.OperationResult] | None = None,
    *,
    inner: xdr.InnerTransactionResultPair | None = None,
) -> xdr.TransactionResult:
    """A transaction's result; `operations` only with txSUCCESS and txFAILED.

    `inner` only with a fee bump's two codes, which tell of the transaction inside.
    """
    return xdr.TransactionResult(
        xdr.Int64(fee),
        xdr.TransactionResultResult(code, inner_result_pair=inner, results=operations),
        xdr.TransactionResultExt(0),
    )


def inner(
    tx_hash: bytes,
    code: xdr.TransactionResultCode,
    operations: list[xdr.OperationResult] | None = None,
) -> xdr.InnerTransactionResultPair:
    """The result of the transaction inside a fee bump; it pays nothing itself."""
    result = xdr.InnerTransactionResult(
        xdr.Int64(0),
        xdr.InnerTransactionResultResult(code, results=operations),
        xdr.InnerTransactionResultExt(0),
    )
    return xdr.InnerTransactionResultPair(xdr.Hash(tx_hash), result)
