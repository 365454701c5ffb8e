"""Payer of an entry's reserve: its owner, or a sponsor (CAP-33).

Between BeginSponsoringFutureReserves and EndSponsoringFutureReserves of one transaction, the
reserve of whatever the sponsored account adds is the sponsor's: two of an account that is created,
one of any subentry. An entry remembers its sponsor, and gives the reserve back when it goes.
"""

from dataclasses import replace
from enum import IntEnum

from stellar_sdk import xdr

from devnet.stellar.entries import BASE_RESERVE, Account, address_of_account
from devnet.stellar.stage import NotApplicable, Refused, Stage

MAX_SUBENTRIES = 1000
ACCOUNT_RESERVES = 2


def begin_sponsoring(stage: Stage, op: xdr.BeginSponsoringFutureReservesOp) -> None:
    """The source pays for what the named account adds, until that account ends it."""
    code = xdr.BeginSponsoringFutureReservesResultCode
    sponsored = address_of_account(op.sponsored_id)
    if sponsored == stage.source:
        raise Refused(code.BEGIN_SPONSORING_FUTURE_RESERVES_MALFORMED)
    if sponsored in stage.sponsors:
        raise Refused(code.BEGIN_SPONSORING_FUTURE_RESERVES_ALREADY_SPONSORED)
    if stage.source in stage.sponsors or sponsored in stage.sponsors.values():
        raise Refused(code.BEGIN_SPONSORING_FUTURE_RESERVES_RECURSIVE)
    stage.sponsors[sponsored] = stage.source


def end_sponsoring(stage: Stage, _: None) -> None:
    """The source, which is sponsored, pays for itself again."""
    if stage.sponsors.pop(stage.source, None) is None:
        code = xdr.EndSponsoringFutureReservesResultCode
        raise Refused(code.END_SPONSORING_FUTURE_RESERVES_NOT_SPONSORED)


def sponsor_account(stage: Stage, created: Account, low_reserve: IntEnum) -> Account:
    """An account about to be created, with a sponsor if it has one."""
    sponsor = stage.sponsors.get(created.address)
    if sponsor is None:
        if created.balance < created.reserve:
            raise Refused(low_reserve)
        return created
    _take_on(stage, sponsor, ACCOUNT_RESERVES, low_reserve)
    return replace(created, sponsor=sponsor, sponsored=ACCOUNT_RESERVES)


def reserve_subentry(stage: Stage, low_reserve: IntEnum) -> str | None:
    """Count one more subentry of the source, and return its sponsor if it has one."""
    account = stage.source_account()
    if account.subentries >= MAX_SUBENTRIES:
        raise NotApplicable(xdr.OperationResultCode.opTOO_MANY_SUBENTRIES)
    sponsor = stage.sponsors.get(stage.source)
    if sponsor is None:
        if account.balance < account.reserve + BASE_RESERVE:
            raise Refused(low_reserve)
    else:
        _take_on(stage, sponsor, 1, low_reserve)
        account = replace(stage.source_account(), sponsored=account.sponsored + 1)
    stage.layer.put_account(replace(account, subentries=account.subentries + 1))
    return sponsor


def release_subentry(stage: Stage, sponsor: str | None) -> None:
    """Count one subentry of the source less; its sponsor, if any, has its reserve back."""
    account = stage.source_account()
    sponsored = account.sponsored - (sponsor is not None)
    stage.layer.put_account(
        replace(account, subentries=account.subentries - 1, sponsored=sponsored)
    )
    release(stage, sponsor, 1)


def release(stage: Stage, sponsor: str | None, reserves: int) -> None:
    """A sponsor has reserves back."""
    if sponsor is not None:
        account = stage.layer.account(sponsor)
        assert account is not None
        stage.layer.put_account(replace(account, sponsoring=account.sponsoring - reserves))


def _take_on(stage: Stage, sponsor: str, reserves: int, low_reserve: IntEnum) -> None:
    account = stage.layer.account(sponsor)
    if account is None or account.spendable < reserves * BASE_RESERVE:
        raise Refused(low_reserve)
    stage.layer.put_account(replace(account, sponsoring=account.sponsoring + reserves))
