"""ACCOUNT ledger entries → who may sign for the account."""

import base64
from dataclasses import dataclass

from stellar_sdk import StrKey, xdr

from warehouse_schema.identifiers import StellarAddress


@dataclass(frozen=True, slots=True)
class Signer:
    """An ed25519 key and its weight, 0 to 255. A key of weight 0 cannot sign."""

    key: StellarAddress
    weight: int


@dataclass(frozen=True, slots=True)
class SigningRules:
    """Whose signatures an account takes, and how much weight its medium operations need.

    Medium are those that move funds. Signers that are no ed25519 keys (hashes, transactions signed
    in advance, signed payloads) are left out: they sign no message of ours.
    """

    account: StellarAddress
    medium_threshold: int
    """0 on an account that never set one; the chain wants a signature all the same."""
    signers: tuple[Signer, ...]
    """The master key first, with weight 0 once it was removed."""


def account_key(account: StellarAddress) -> str:
    """The ledger key of an account, base64 XDR. Raises `ValueError` for what is no `G…`."""
    key = xdr.LedgerKey(
        xdr.LedgerEntryType.ACCOUNT, account=xdr.LedgerKeyAccount(_account_id(account))
    )
    return key.to_xdr()


def signing_rules(entry: str) -> SigningRules:
    """Read base64 LedgerEntryData. Raises `ValueError` for what is no account's."""
    try:
        data = xdr.LedgerEntryData.from_xdr_bytes(base64.b64decode(entry, validate=True))
    except EOFError as error:
        raise ValueError(f"a ledger entry that is cut off: {error}") from error
    account = data.account
    if account is None:
        raise ValueError(f"a ledger entry of type {data.type.name}, not ACCOUNT")
    master = _address(account.account_id.account_id.ed25519)
    master_weight, _low, medium, _high = account.thresholds.thresholds
    others = (
        Signer(_address(signer.key.ed25519), signer.weight.uint32)
        for signer in account.signers
        if signer.key.type == xdr.SignerKeyType.SIGNER_KEY_TYPE_ED25519
    )
    return SigningRules(master, medium, (Signer(master, master_weight), *others))


def _account_id(account: StellarAddress) -> xdr.AccountID:
    raw = xdr.Uint256(StrKey.decode_ed25519_public_key(account))
    return xdr.AccountID(xdr.PublicKey(xdr.PublicKeyType.PUBLIC_KEY_TYPE_ED25519, raw))


def _address(key: xdr.Uint256 | None) -> StellarAddress:
    if key is None:
        raise ValueError("a key that is not ed25519")
    return StellarAddress(StrKey.encode_ed25519_public_key(key.uint256))
