"""Decodes ledger entries: an account's signers and sequence number, and trustlines."""

import base64
from dataclasses import dataclass

from stellar_sdk import Asset, StrKey, xdr

from warehouse_schema.identifiers import AssetId, BaseUnits, Height, StellarAddress


@dataclass(frozen=True, slots=True)
class Signer:
    """Ed25519 key with its weight, 0 to 255; weight 0 cannot sign."""

    key: StellarAddress
    weight: int


@dataclass(frozen=True, slots=True)
class SigningRules:
    """Signers of an account, and the weight that its medium operations (payments) need.

    Signers other than ed25519 keys (hashes, pre-authorized transactions, signed payloads) are left
    out: they cannot sign our messages.
    """

    account: StellarAddress
    medium_threshold: int
    """0 on an account that never set one; the chain requires a signature even so."""
    signers: tuple[Signer, ...]
    """The master key first, with weight 0 if it was removed."""


@dataclass(frozen=True, slots=True)
class Trustline:
    """Trustline of an account."""

    account: StellarAddress
    asset: AssetId
    is_authorized: bool
    room: BaseUnits
    """Amount that it can receive: limit − balance − buying liabilities."""
    spendable: BaseUnits
    """Amount that it can pay: balance − selling liabilities."""


def account_key(account: StellarAddress) -> str:
    """Ledger key of an account, base64 XDR. Raises `ValueError` unless it is a `G…`."""
    key = xdr.LedgerKey(
        xdr.LedgerEntryType.ACCOUNT, account=xdr.LedgerKeyAccount(_account_id(account))
    )
    return key.to_xdr()


def trustline_key(account: StellarAddress, asset: AssetId) -> str:
    """The ledger key of an account's trustline, base64 XDR.

    Raises `ValueError` unless they are a `G…` and a `stellar:CODE:ISSUER`.
    """
    code, _, issuer = asset.removeprefix("stellar:").partition(":")
    line = xdr.LedgerKeyTrustLine(
        _account_id(account), Asset(code, issuer).to_trust_line_asset_xdr_object()
    )
    return xdr.LedgerKey(xdr.LedgerEntryType.TRUSTLINE, trust_line=line).to_xdr()


def trustline(entry: str) -> Trustline:
    """Decode base64 LedgerEntryData. Raises `ValueError` unless it is an asset's trustline."""
    data = _data(entry)
    line = data.trust_line
    if line is None or line.asset.type == xdr.AssetType.ASSET_TYPE_POOL_SHARE:
        raise ValueError(f"a ledger entry of type {data.type.name}, not an asset's TRUSTLINE")
    asset = Asset.from_xdr_object(line.asset)
    liabilities = None if line.ext.v1 is None else line.ext.v1.liabilities
    buying = 0 if liabilities is None else liabilities.buying.int64
    selling = 0 if liabilities is None else liabilities.selling.int64
    return Trustline(
        account=_address(line.account_id.account_id.ed25519),
        asset=AssetId(f"stellar:{asset.code}:{asset.issuer}"),
        is_authorized=bool(line.flags.uint32 & xdr.TrustLineFlags.AUTHORIZED_FLAG),
        room=BaseUnits(max(0, line.limit.int64 - line.balance.int64 - buying)),
        spendable=BaseUnits(max(0, line.balance.int64 - selling)),
    )


def sequence_ledger(account: xdr.AccountEntry) -> Height | None:
    """Ledger that last changed the account's sequence number (CAP-21).

    None for an account without a transaction since protocol 19.
    """
    v1 = account.ext.v1
    v2 = None if v1 is None else v1.ext.v2
    v3 = None if v2 is None else v2.ext.v3
    return None if v3 is None or v3.seq_ledger.uint32 == 0 else Height(v3.seq_ledger.uint32)


def signing_rules(entry: str) -> SigningRules:
    """Decode base64 LedgerEntryData. Raises `ValueError` unless it is an account."""
    account = parse_account(entry)
    master = _address(account.account_id.account_id.ed25519)
    master_weight, _low, medium, _high = account.thresholds.thresholds
    others = (
        Signer(_address(signer.key.ed25519), signer.weight.uint32)
        for signer in account.signers
        if signer.key.type == xdr.SignerKeyType.SIGNER_KEY_TYPE_ED25519
    )
    return SigningRules(master, medium, (Signer(master, master_weight), *others))


def parse_account(entry: str) -> xdr.AccountEntry:
    """Decode base64 LedgerEntryData. Raises `ValueError` unless it is an account."""
    data = _data(entry)
    if data.account is None:
        raise ValueError(f"a ledger entry of type {data.type.name}, not ACCOUNT")
    return data.account


def _data(entry: str) -> xdr.LedgerEntryData:
    try:
        return xdr.LedgerEntryData.from_xdr_bytes(base64.b64decode(entry, validate=True))
    except EOFError as error:
        raise ValueError(f"a ledger entry that is cut off: {error}") from error


def _account_id(account: StellarAddress) -> xdr.AccountID:
    raw = xdr.Uint256(StrKey.decode_ed25519_public_key(account))
    return xdr.AccountID(xdr.PublicKey(xdr.PublicKeyType.PUBLIC_KEY_TYPE_ED25519, raw))


def _address(key: xdr.Uint256 | None) -> StellarAddress:
    if key is None:
        raise ValueError("a key that is not ed25519")
    return StellarAddress(StrKey.encode_ed25519_public_key(key.uint256))
