"""Ledger entries of accounts and their trustlines, as Stellar RPC hands them out."""

from collections.abc import Mapping, Sequence

from stellar_sdk import Asset, Keypair, SignerKey, xdr

from devnet.stellar.entries import Account, Signer, Trustline


def make_account_entry(
    account: str,
    *,
    master: int = 1,
    medium: int = 0,
    keys: Mapping[str, int] | None = None,
    others: Sequence[tuple[SignerKey, int]] = (),
    seq_ledger: int = 0,
) -> str:
    """Base64 LedgerEntryData. `keys`: ed25519 signers by their weight; `others`: of any kind."""
    signers = [
        (SignerKey.ed25519_public_key(Keypair.from_public_key(key).public_key), weight)
        for key, weight in (keys or {}).items()
    ]
    entry = Account(
        address=account,
        balance=100_000_000,
        sequence=1,
        seq_ledger=seq_ledger,
        thresholds=(master, 0, medium, 0),
        signers=tuple(Signer(key.to_xdr_object(), weight) for key, weight in (*signers, *others)),
    ).to_entry()
    return entry.to_xdr()


def make_trustline_entry(
    account: str,
    asset: str,
    *,
    balance: int = 0,
    limit: int = 2**63 - 1,
    flags: int = 1,
    offered: int | None = None,
    selling: int = 0,
) -> str:
    """Base64 LedgerEntryData of `stellar:CODE:ISSUER`; `offered`: buying liabilities."""
    code, _, issuer = asset.removeprefix("stellar:").partition(":")
    entry = Trustline(account, Asset(code, issuer), balance, limit, flags).to_entry()
    if offered is not None and entry.trust_line is not None:
        liabilities = xdr.Liabilities(buying=xdr.Int64(offered), selling=xdr.Int64(selling))
        v1 = xdr.TrustLineEntryV1(liabilities, xdr.TrustLineEntryV1Ext(0))
        entry.trust_line.ext = xdr.TrustLineEntryExt(1, v1=v1)
    return entry.to_xdr()


def entries_answer(*entries: str, latest: int = 20) -> dict[str, object]:
    """What getLedgerEntries answers."""
    found = [{"key": "", "xdr": entry, "lastModifiedLedgerSeq": 1} for entry in entries]
    return {"entries": found, "latestLedger": latest}
