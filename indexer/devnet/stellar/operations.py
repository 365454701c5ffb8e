"""Classic operations: static checks, effects on the ledger, events and result codes.

The order of the checks is stellar-core's, because it decides which code is answered when several
things are wrong. `CLASSIC` at the foot lists what the devnet can do; anything else answers
opNOT_SUPPORTED, never success.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any

from stellar_sdk import Asset, xdr

from indexer.devnet.stellar import asset_events
from indexer.devnet.stellar.accounts import XLM
from indexer.devnet.stellar.entries import (
    AUTHORIZED,
    BASE_RESERVE,
    CLAWBACK,
    MAINTAIN_LIABILITIES,
    MAX_INT64,
    Account,
    Layer,
    Signer,
    Trustline,
    account_id,
    account_key,
    address_of_account,
    data_key,
    trustline_key,
)

MAX_SUBENTRIES = 1000
MAX_SIGNERS = 20
_ASSET_CODE = re.compile(r"[A-Za-z0-9]{1,12}")

LOW, MEDIUM, HIGH = 1, 2, 3
"""Indexes into an account's thresholds."""


class Refused(Exception):
    """An operation fails with a code of its own result type."""

    def __init__(self, code: IntEnum) -> None:
        super().__init__(code.name)
        self.code = code


class NotApplicable(Exception):
    """An operation fails before its own logic: opNO_ACCOUNT, opBAD_AUTH, opNOT_SUPPORTED, …"""

    def __init__(self, code: xdr.OperationResultCode) -> None:
        super().__init__(code.name)
        self.code = code


@dataclass
class Stage:
    """What one operation sees while it is applied."""

    layer: Layer
    source: str
    memo: xdr.Memo
    close_time: int
    events: list[xdr.ContractEvent] = field(default_factory=list)

    def source_account(self) -> Account:
        """The operation's source; raise `NotApplicable` when it does not exist (any more)."""
        account = self.layer.account(self.source)
        if account is None:
            raise NotApplicable(xdr.OperationResultCode.opNO_ACCOUNT)
        return account


def address_of(muxed: xdr.MuxedAccount) -> str:
    """The `G…` address behind an account that may be muxed."""
    raw = muxed.ed25519 if muxed.med25519 is None else muxed.med25519.ed25519
    key = xdr.PublicKey(xdr.PublicKeyType.PUBLIC_KEY_TYPE_ED25519, ed25519=raw)
    return address_of_account(xdr.AccountID(key))


def asset_of(asset: xdr.Asset | xdr.ChangeTrustAsset) -> Asset | None:
    """The asset, or None when its code is not valid."""
    try:
        known = Asset.from_xdr_object(asset)
    except ValueError:
        return None
    return known if known.is_native() or _ASSET_CODE.fullmatch(known.code) else None


def _create_account(stage: Stage, op: xdr.CreateAccountOp) -> None:
    code = xdr.CreateAccountResultCode
    destination, amount = address_of_account(op.destination), op.starting_balance.int64
    if amount < 0 or destination == stage.source:
        raise Refused(code.CREATE_ACCOUNT_MALFORMED)
    if stage.layer.account(destination) is not None:
        raise Refused(code.CREATE_ACCOUNT_ALREADY_EXIST)
    if amount < 2 * BASE_RESERVE:
        raise Refused(code.CREATE_ACCOUNT_LOW_RESERVE)
    if stage.source_account().spendable < amount:
        raise Refused(code.CREATE_ACCOUNT_UNDERFUNDED)
    stage.layer.pay_account(stage.source, -amount)
    stage.layer.put_account(Account(destination, amount, stage.layer.sequence << 32))
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
        _add_subentries(stage, -1)
    else:
        _issuer_of(stage, asset)
        stage.layer.put_trustline(replace(line, limit=limit))


def _open_trustline(stage: Stage, asset: Asset, limit: int) -> None:
    if limit == 0:
        raise Refused(xdr.ChangeTrustResultCode.CHANGE_TRUST_INVALID_LIMIT)
    issuer = _issuer_of(stage, asset)
    _reserve_subentry(stage, xdr.ChangeTrustResultCode.CHANGE_TRUST_LOW_RESERVE)
    flags = 0 if issuer.flags & xdr.AccountFlags.AUTH_REQUIRED_FLAG else int(AUTHORIZED)
    if issuer.flags & xdr.AccountFlags.AUTH_CLAWBACK_ENABLED_FLAG:
        flags |= CLAWBACK
    stage.layer.put_trustline(Trustline(stage.source, asset, 0, limit, flags))


def _issuer_of(stage: Stage, asset: Asset) -> Account:
    issuer = stage.layer.account(asset.issuer or "")
    if issuer is None:
        raise Refused(xdr.ChangeTrustResultCode.CHANGE_TRUST_NO_ISSUER)
    return issuer


def _add_subentries(stage: Stage, count: int) -> None:
    account = stage.source_account()
    stage.layer.put_account(replace(account, subentries=account.subentries + count))


def _reserve_subentry(stage: Stage, low_reserve: IntEnum) -> None:
    account = stage.source_account()
    if account.subentries >= MAX_SUBENTRIES:
        raise NotApplicable(xdr.OperationResultCode.opTOO_MANY_SUBENTRIES)
    if account.balance < account.reserve + BASE_RESERVE:
        raise Refused(low_reserve)
    _add_subentries(stage, 1)


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
    known = stage.layer.get(key) is not None
    if op.data_value is None:
        if not known:
            raise Refused(code.MANAGE_DATA_NAME_NOT_FOUND)
        stage.layer.remove(key)
        _add_subentries(stage, -1)
        return
    if not known:
        _reserve_subentry(stage, code.MANAGE_DATA_LOW_RESERVE)
    entry = xdr.DataEntry(
        account_id(stage.source), op.data_name, op.data_value, xdr.DataEntryExt(0)
    )
    stage.layer.put(key, xdr.LedgerEntryData(xdr.LedgerEntryType.DATA, data=entry))


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


def _set_options(stage: Stage, op: xdr.SetOptionsOp) -> None:
    account = _with_flags(stage.source_account(), op)
    account = _with_thresholds(account, op)
    if op.home_domain is not None:
        account = replace(account, home_domain=op.home_domain.string32)
    stage.layer.put_account(account)
    if op.inflation_dest is not None and not stage.layer.account(
        address_of_account(op.inflation_dest)
    ):
        raise Refused(xdr.SetOptionsResultCode.SET_OPTIONS_INVALID_INFLATION)
    if op.signer is not None:
        _set_signer(stage, op.signer)


def _with_flags(account: Account, op: xdr.SetOptionsOp) -> Account:
    code, kind = xdr.SetOptionsResultCode, xdr.AccountFlags
    put = op.set_flags.uint32 if op.set_flags else 0
    clear = op.clear_flags.uint32 if op.clear_flags else 0
    if (put | clear) & ~0xF:
        raise Refused(code.SET_OPTIONS_UNKNOWN_FLAG)
    if put & clear:
        raise Refused(code.SET_OPTIONS_BAD_FLAGS)
    if account.flags & kind.AUTH_IMMUTABLE_FLAG and (put | clear):
        raise Refused(code.SET_OPTIONS_CANT_CHANGE)
    flags = (account.flags & ~clear) | put
    if flags & kind.AUTH_CLAWBACK_ENABLED_FLAG and not flags & kind.AUTH_REVOCABLE_FLAG:
        raise Refused(code.SET_OPTIONS_AUTH_REVOCABLE_REQUIRED)
    return replace(account, flags=flags)


def _with_thresholds(account: Account, op: xdr.SetOptionsOp) -> Account:
    given = (op.master_weight, op.low_threshold, op.med_threshold, op.high_threshold)
    if any(value is not None and value.uint32 > 255 for value in given):
        raise Refused(xdr.SetOptionsResultCode.SET_OPTIONS_THRESHOLD_OUT_OF_RANGE)
    master, low, medium, high = (
        old if new is None else new.uint32
        for old, new in zip(account.thresholds, given, strict=True)
    )
    return replace(account, thresholds=(master, low, medium, high))


def _set_signer(stage: Stage, signer: xdr.Signer) -> None:
    code = xdr.SetOptionsResultCode
    account, weight = stage.source_account(), signer.weight.uint32
    if signer.key.type != xdr.SignerKeyType.SIGNER_KEY_TYPE_ED25519:
        raise NotApplicable(xdr.OperationResultCode.opNOT_SUPPORTED)
    if signer.key.ed25519 == account_id(stage.source).account_id.ed25519 or weight > 255:
        raise Refused(code.SET_OPTIONS_BAD_SIGNER)
    others = tuple(known for known in account.signers if known.key != signer.key)
    removed = len(others) < len(account.signers)
    if weight == 0:
        stage.layer.put_account(replace(account, signers=others))
        if removed:
            _add_subentries(stage, -1)
        return
    if not removed:
        if len(others) >= MAX_SIGNERS:
            raise Refused(code.SET_OPTIONS_TOO_MANY_SIGNERS)
        _reserve_subentry(stage, code.SET_OPTIONS_LOW_RESERVE)
    signers = sorted((*others, Signer(signer.key, weight)), key=lambda s: s.key.to_xdr_bytes())
    stage.layer.put_account(replace(stage.source_account(), signers=tuple(signers)))


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
    if into.balance + account.balance > MAX_INT64:
        raise Refused(code.ACCOUNT_MERGE_DEST_FULL)
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
    """One kind of operation: where its body and result live, who must sign, what it does."""

    body: str
    result: str
    level: Callable[[Any], int]
    apply: Callable[[Stage, Any], Any]


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
    )
)
"""The codes that need no ledger to be found: such a transaction is refused at submission."""

CLASSIC: dict[xdr.OperationType, Classic] = {
    xdr.OperationType.CREATE_ACCOUNT: Classic(
        "create_account_op", "create_account_result", _always(MEDIUM), _create_account
    ),
    xdr.OperationType.PAYMENT: Classic("payment_op", "payment_result", _always(MEDIUM), _payment),
    xdr.OperationType.SET_OPTIONS: Classic(
        "set_options_op", "set_options_result", _set_options_level, _set_options
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
}
