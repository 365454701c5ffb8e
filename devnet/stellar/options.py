"""SetOptions: an account's flags, home domain, thresholds and signers."""

from dataclasses import replace

from stellar_sdk import xdr

from devnet.stellar.entries import Account, Signer, account_id, address_of_account
from devnet.stellar.sponsorship import release_subentry, reserve_subentry
from devnet.stellar.stage import NotApplicable, Refused, Stage

MAX_SIGNERS = 20


def set_options(stage: Stage, op: xdr.SetOptionsOp) -> None:
    """Flags, thresholds, home domain and one signer, each if it is given."""
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
    known = next((each for each in account.signers if each.key == signer.key), None)
    others = tuple(each for each in account.signers if each is not known)
    if weight == 0:
        stage.layer.put_account(replace(account, signers=others))
        if known is not None:
            release_subentry(stage, known.sponsor)
        return
    if known is None:
        if len(others) >= MAX_SIGNERS:
            raise Refused(code.SET_OPTIONS_TOO_MANY_SIGNERS)
        sponsor = reserve_subentry(stage, code.SET_OPTIONS_LOW_RESERVE)
    else:
        sponsor = known.sponsor
    changed = Signer(signer.key, weight, sponsor)
    signers = sorted((*others, changed), key=lambda s: s.key.to_xdr_bytes())
    stage.layer.put_account(replace(stage.source_account(), signers=tuple(signers)))
