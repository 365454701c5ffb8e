"""Classic operations: static checks, effects on the ledger, events and result codes.

The order of the checks is stellar-core's, because it decides which code is answered when several
things are wrong. `CLASSIC` at the foot lists what the devnet can do; anything else answers
opNOT_SUPPORTED, never success.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from stellar_sdk import Asset, xdr

from devnet.stellar import asset_events
from devnet.stellar.accounts import XLM
from devnet.stellar.entries import (
    AUTHORIZED,
    CLAWBACK,
    MAINTAIN_LIABILITIES,
    MAX_INT64,
    Account,
    Trustline,
    account_id,
    account_key,
    address_of_account,
    data_key,
    trustline_key,
)
from devnet.stellar.options import set_options
from devnet.stellar.sponsorship import (
    ACCOUNT_RESERVES,
    begin_sponsoring,
    end_sponsoring,
    release,
    release_subentry,
    reserve_subentry,
    sponsor_account,
)
from devnet.stellar.stage import NotApplicable, Refused, Stage, address_of, asset_of

LOW, MEDIUM, HIGH = 1, 2, 3
"""Indexes into an account's thresholds."""


def _create_account(stage: Stage, op: xdr.CreateAccountOp) -> None:
    code = xdr.CreateAccountResultCode
    destination, amount = address_of_account(op.destination), op.starting_balance.int64
    if amount < 0 or destination == stage.source:
        raise Refused(code.CREATE_ACCOUNT_MALFORMED)
    if stage.layer.account(destination) is not None:
        raise Refused(code.CREATE_ACCOUNT_ALREADY_EXIST)
    created = Account(destination, amount, stage.layer.sequence << 32)
    created = sponsor_account(stage, created, code.CREATE_ACCOUNT_LOW_RESERVE)
    if stage.source_account().spendable < amount:
        raise Refused(code.CREATE_ACCOUNT_UNDERFUNDED)
    stage.layer.pay_account(stage.source, -amount)
    stage.layer.put_account(created)
    stage.events.append(asset_events.movement(XLM, stage.source, destination, amount))


def _payment(stage: Stage, op: xdr.PaymentOp) -> None:
    asset, amount, receiver = asset_of(op.asset), op.amount.int64, address_of(op.destination)
    if asset is None or amount <= 0:
        raise Refused(xdr.PaymentResultCode.PAYMENT_MALFORMED)
    # A payment to the issuer needs no destination account: the asset is burned.
    if asset.issuer != receiver and stage.layer.account(receiver) is None:
        raise Refused(xdr.PaymentResultCode.PAYMENT_NO_DESTINATION)
    if asset.is_native():
        _pay_native(stage, receiver, amount)
    else:
        _receive_credit(stage, asset, receiver, amount)
        _spend_credit(stage, asset, amount)
    customer = asset_events.muxed_id(op.destination, stage.memo)
    stage.events.append(asset_events.movement(asset, stage.source, receiver, amount, customer))


def _pay_native(stage: Stage, receiver: str, amount: int) -> None:
    code = xdr.PaymentResultCode
    if receiver == stage.source:
        return
    destination = stage.layer.account(receiver)
    assert destination is not None
    if destination.balance + amount > MAX_INT64:
        raise Refused(code.PAYMENT_LINE_FULL)
    if stage.source_account().spendable < amount:
        raise Refused(code.PAYMENT_UNDERFUNDED)
    stage.layer.pay_account(stage.source, -amount)
    stage.layer.pay_account(receiver, amount)


def _receive_credit(stage: Stage, asset: Asset, receiver: str, amount: int) -> None:
    code = xdr.PaymentResultCode
    if receiver == asset.issuer:
        return
    line = stage.layer.trustline(receiver, asset)
    if line is None:
        raise Refused(code.PAYMENT_NO_TRUST)
    if not line.authorized:
        raise Refused(code.PAYMENT_NOT_AUTHORIZED)
    if line.balance + amount > line.limit:
        raise Refused(code.PAYMENT_LINE_FULL)
    stage.layer.put_trustline(replace(line, balance=line.balance + amount))


def _spend_credit(stage: Stage, asset: Asset, amount: int) -> None:
    code = xdr.PaymentResultCode
    if stage.source == asset.issuer:
        return
    line = stage.layer.trustline(stage.source, asset)
    if line is None:
        raise Refused(code.PAYMENT_SRC_NO_TRUST)
    if not line.authorized:
        raise Refused(code.PAYMENT_SRC_NOT_AUTHORIZED)
    if line.balance < amount:
        raise Refused(code.PAYMENT_UNDERFUNDED)
    stage.layer.put_trustline(replace(line, balance=line.balance - amount))


def _change_trust(stage: Stage, op: xdr.ChangeTrustOp) -> None:
    code = xdr.ChangeTrustResultCode
    limit = op.limit.int64
    if op.line.type == xdr.AssetType.ASSET_TYPE_POOL_SHARE:
        raise NotApplicable(xdr.OperationResultCode.opNOT_SUPPORTED)
    asset = asset_of(op.line)
    if asset is None or asset.is_native() or limit < 0 or asset.issuer == stage.source:
        raise Refused(code.CHANGE_TRUST_MALFORMED)
    line = stage.layer.trustline(stage.source, asset)
    if line is None:
        _open_trustline(stage, asset, limit)
    elif limit < line.balance:
        raise Refused(code.CHANGE_TRUST_INVALID_LIMIT)
    elif limit == 0:
        stage.layer.remove(trustline_key(stage.source, asset))
        release_subentry(stage, line.sponsor)
    else:
        _issuer_of(stage, asset)
        stage.layer.put_trustline(replace(line, limit=limit))


def _open_trustline(stage: Stage, asset: Asset, limit: int) -> None:
    if limit == 0:
        raise Refused(xdr.ChangeTrustResultCode.CHANGE_TRUST_INVALID_LIMIT)
    issuer = _issuer_of(stage, asset)
    sponsor = reserve_subentry(stage, xdr.ChangeTrustResultCode.CHANGE_TRUST_LOW_RESERVE)
    flags = 0 if issuer.flags & xdr.AccountFlags.AUTH_REQUIRED_FLAG else int(AUTHORIZED)
    if issuer.flags & xdr.AccountFlags.AUTH_CLAWBACK_ENABLED_FLAG:
        flags |= CLAWBACK
    stage.layer.put_trustline(Trustline(stage.source, asset, 0, limit, flags, sponsor))


def _issuer_of(stage: Stage, asset: Asset) -> Account:
    issuer = stage.layer.account(asset.issuer or "")
    if issuer is None:
        raise Refused(xdr.ChangeTrustResultCode.CHANGE_TRUST_NO_ISSUER)
    return issuer


def _set_trustline_flags(stage: Stage, op: xdr.SetTrustLineFlagsOp) -> None:
    code = xdr.SetTrustLineFlagsResultCode
    asset, trustor = asset_of(op.asset), address_of_account(op.trustor)
    clear, put = op.clear_flags.uint32, op.set_flags.uint32
    if not _flags_well_formed(stage, asset, trustor, clear, put):
        raise Refused(code.SET_TRUST_LINE_FLAGS_MALFORMED)
    assert asset is not None
    revocable = stage.source_account().flags & xdr.AccountFlags.AUTH_REVOCABLE_FLAG
    if not revocable and clear & (AUTHORIZED | MAINTAIN_LIABILITIES):
        raise Refused(code.SET_TRUST_LINE_FLAGS_CANT_REVOKE)
    line = stage.layer.trustline(trustor, asset)
    if line is None:
        raise Refused(code.SET_TRUST_LINE_FLAGS_NO_TRUST_LINE)
    flags = (line.flags & ~clear) | put
    if flags & AUTHORIZED and flags & MAINTAIN_LIABILITIES:
        raise Refused(code.SET_TRUST_LINE_FLAGS_INVALID_STATE)
    changed = replace(line, flags=flags)
    stage.layer.put_trustline(changed)
    if changed.authorized != line.authorized:
        stage.events.append(asset_events.set_authorized(asset, trustor, changed.authorized))


def _flags_well_formed(
    stage: Stage, asset: Asset | None, trustor: str, clear: int, put: int
) -> bool:
    settable = AUTHORIZED | MAINTAIN_LIABILITIES
    return (
        asset is not None
        and asset.issuer == stage.source != trustor
        and not clear & put
        and not put & ~settable
        and not clear & ~(settable | CLAWBACK)
        and put & settable != settable
    )


def _manage_data(stage: Stage, op: xdr.ManageDataOp) -> None:
    code = xdr.ManageDataResultCode
    name = op.data_name.string64
    if not name or not all(32 <= byte < 127 for byte in name):
        raise Refused(code.MANAGE_DATA_INVALID_NAME)
    key = data_key(stage.source, name)
    known, sponsor = stage.layer.get(key) is not None, stage.layer.sponsor(key)
    if op.data_value is None:
        if not known:
            raise Refused(code.MANAGE_DATA_NAME_NOT_FOUND)
        stage.layer.remove(key)
        release_subentry(stage, sponsor)
        return
    if not known:
        sponsor = reserve_subentry(stage, code.MANAGE_DATA_LOW_RESERVE)
    entry = xdr.DataEntry(
        account_id(stage.source), op.data_name, op.data_value, xdr.DataEntryExt(0)
    )
    stage.layer.put(key, xdr.LedgerEntryData(xdr.LedgerEntryType.DATA, data=entry), sponsor)


def _bump_sequence(stage: Stage, op: xdr.BumpSequenceOp) -> None:
    target = op.bump_to.sequence_number.int64
    if target < 0:
        raise Refused(xdr.BumpSequenceResultCode.BUMP_SEQUENCE_BAD_SEQ)
    account = stage.source_account()
    if target > account.sequence:
        stage.layer.put_account(
            replace(
                account,
                sequence=target,
                seq_ledger=stage.layer.sequence,
                seq_time=stage.close_time,
            )
        )


def _account_merge(stage: Stage, destination: xdr.MuxedAccount) -> xdr.Int64:
    code = xdr.AccountMergeResultCode
    receiver, account = address_of(destination), stage.source_account()
    if receiver == stage.source:
        raise Refused(code.ACCOUNT_MERGE_MALFORMED)
    into = stage.layer.account(receiver)
    if into is None:
        raise Refused(code.ACCOUNT_MERGE_NO_ACCOUNT)
    if account.flags & xdr.AccountFlags.AUTH_IMMUTABLE_FLAG:
        raise Refused(code.ACCOUNT_MERGE_IMMUTABLE_SET)
    if account.subentries != len(account.signers):
        raise Refused(code.ACCOUNT_MERGE_HAS_SUB_ENTRIES)
    if account.sequence >= (stage.layer.sequence << 32):
        raise Refused(code.ACCOUNT_MERGE_SEQNUM_TOO_FAR)
    if account.sponsoring or stage.source in stage.sponsors.values():
        raise Refused(code.ACCOUNT_MERGE_IS_SPONSOR)
    if into.balance + account.balance > MAX_INT64:
        raise Refused(code.ACCOUNT_MERGE_DEST_FULL)
    for signer in account.signers:
        release(stage, signer.sponsor, 1)
    release(stage, account.sponsor, ACCOUNT_RESERVES)
    stage.layer.pay_account(receiver, account.balance)
    stage.layer.remove(account_key(stage.source))
    customer = asset_events.muxed_id(destination, stage.memo)
    stage.events.append(
        asset_events.movement(XLM, stage.source, receiver, account.balance, customer)
    )
    return xdr.Int64(account.balance)


def _always(level: int) -> Callable[[Any], int]:
    return lambda _: level


def _set_options_level(op: xdr.SetOptionsOp) -> int:
    weights = (op.master_weight, op.low_threshold, op.med_threshold, op.high_threshold, op.signer)
    return HIGH if any(item is not None for item in weights) else MEDIUM


@dataclass(frozen=True)
class Classic:
    """A kind of operation: places of its body and result, its signers, its effect."""

    body: str | None
    result: str
    level: Callable[[Any], int]
    apply: Callable[[Stage, Any], Any]


_BEGIN = xdr.BeginSponsoringFutureReservesResultCode
MALFORMED: frozenset[str] = frozenset(
    # By name: as ints, codes of different operations are equal.
    code.name
    for code in (
        xdr.CreateAccountResultCode.CREATE_ACCOUNT_MALFORMED,
        xdr.PaymentResultCode.PAYMENT_MALFORMED,
        xdr.ChangeTrustResultCode.CHANGE_TRUST_MALFORMED,
        xdr.SetTrustLineFlagsResultCode.SET_TRUST_LINE_FLAGS_MALFORMED,
        xdr.ManageDataResultCode.MANAGE_DATA_INVALID_NAME,
        xdr.BumpSequenceResultCode.BUMP_SEQUENCE_BAD_SEQ,
        xdr.SetOptionsResultCode.SET_OPTIONS_UNKNOWN_FLAG,
        xdr.SetOptionsResultCode.SET_OPTIONS_BAD_FLAGS,
        xdr.SetOptionsResultCode.SET_OPTIONS_THRESHOLD_OUT_OF_RANGE,
        xdr.SetOptionsResultCode.SET_OPTIONS_BAD_SIGNER,
        xdr.AccountMergeResultCode.ACCOUNT_MERGE_MALFORMED,
        _BEGIN.BEGIN_SPONSORING_FUTURE_RESERVES_MALFORMED,
    )
)
"""The codes that need no ledger to be found: such a transaction is refused at submission."""

CLASSIC: dict[xdr.OperationType, Classic] = {
    xdr.OperationType.CREATE_ACCOUNT: Classic(
        "create_account_op", "create_account_result", _always(MEDIUM), _create_account
    ),
    xdr.OperationType.PAYMENT: Classic("payment_op", "payment_result", _always(MEDIUM), _payment),
    xdr.OperationType.SET_OPTIONS: Classic(
        "set_options_op", "set_options_result", _set_options_level, set_options
    ),
    xdr.OperationType.CHANGE_TRUST: Classic(
        "change_trust_op", "change_trust_result", _always(MEDIUM), _change_trust
    ),
    xdr.OperationType.ACCOUNT_MERGE: Classic(
        "destination", "account_merge_result", _always(HIGH), _account_merge
    ),
    xdr.OperationType.MANAGE_DATA: Classic(
        "manage_data_op", "manage_data_result", _always(MEDIUM), _manage_data
    ),
    xdr.OperationType.BUMP_SEQUENCE: Classic(
        "bump_sequence_op", "bump_seq_result", _always(LOW), _bump_sequence
    ),
    xdr.OperationType.SET_TRUST_LINE_FLAGS: Classic(
        "set_trust_line_flags_op",
        "set_trust_line_flags_result",
        _always(LOW),
        _set_trustline_flags,
    ),
    xdr.OperationType.BEGIN_SPONSORING_FUTURE_RESERVES: Classic(
        "begin_sponsoring_future_reserves_op",
        "begin_sponsoring_future_reserves_result",
        _always(MEDIUM),
        begin_sponsoring,
    ),
    xdr.OperationType.END_SPONSORING_FUTURE_RESERVES: Classic(
        None,
        "end_sponsoring_future_reserves_result",
        _always(MEDIUM),
        end_sponsoring,
    ),
}


def body_of(operation: xdr.Operation) -> Any:
    """Body of an operation of `CLASSIC`; None for a kind without one."""
    name = CLASSIC[operation.body.type].body
    return None if name is None else getattr(operation.body, name)
