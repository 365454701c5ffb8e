"""State that a classic operation is applied to, and its failures."""

import re
from dataclasses import dataclass, field
from enum import IntEnum

from stellar_sdk import Asset, xdr

from devnet.stellar.entries import Account, Layer, address_of_account

_ASSET_CODE = re.compile(r"[A-Za-z0-9]{1,12}")


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
    """State that an operation is applied to."""

    layer: Layer
    source: str
    memo: xdr.Memo
    close_time: int
    sponsors: dict[str, str] = field(default_factory=dict)
    """Sponsored account → sponsor, between Begin and End; all operations of one transaction."""
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
