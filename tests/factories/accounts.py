"""ACCOUNT ledger entries as Stellar RPC hands them out."""

from collections.abc import Mapping, Sequence

from stellar_sdk import Keypair, SignerKey

from indexer.devnet.stellar.entries import Account, Signer


def make_account_entry(
    account: str,
    *,
    master: int = 1,
    medium: int = 0,
    keys: Mapping[str, int] | None = None,
    others: Sequence[tuple[SignerKey, int]] = (),
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
        thresholds=(master, 0, medium, 0),
        signers=tuple(Signer(key.to_xdr_object(), weight) for key, weight in (*signers, *others)),
    ).to_entry()
    return entry.to_xdr()


def entries_answer(*entries: str, latest: int = 20) -> dict[str, object]:
    """What getLedgerEntries answers."""
    found = [{"key": "", "xdr": entry, "lastModifiedLedgerSeq": 1} for entry in entries]
    return {"entries": found, "latestLedger": latest}
