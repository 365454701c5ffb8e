"""Ledger entries as small values, and the layered view through which a ledger is applied.

State is a map from LedgerKey XDR to LedgerEntry XDR. Each layer (ledger, transaction, operation)
keeps its writes to itself until it is committed into the layer below, so that a failure leaves
nothing behind and the LedgerEntryChanges of a layer are exactly its difference from below.
Amounts are stroops: 10^7 of them are one unit of any Stellar asset.
"""

from dataclasses import dataclass, field, replace
from functools import cache
from typing import Protocol

from stellar_sdk import Address, Asset, Keypair, xdr

BASE_RESERVE = 5_000_000
MAX_INT64 = 2**63 - 1

AUTHORIZED = xdr.TrustLineFlags.AUTHORIZED_FLAG
MAINTAIN_LIABILITIES = xdr.TrustLineFlags.AUTHORIZED_TO_MAINTAIN_LIABILITIES_FLAG
CLAWBACK = xdr.TrustLineFlags.TRUSTLINE_CLAWBACK_ENABLED_FLAG


class View(Protocol):
    """A state that can be read and that takes in the writes of a finished layer."""

    def get(self, key: bytes) -> bytes | None:
        """The entry under a key, or None."""

    def absorb(self, writes: dict[bytes, bytes | None]) -> None:
        """Take in writes; None removes."""


class State:
    """The bottom: every live entry of the last closed ledger."""

    def __init__(self, entries: dict[bytes, bytes]) -> None:
        self.entries = entries

    def get(self, key: bytes) -> bytes | None:
        """The entry under a key, or None."""
        return self.entries.get(key)

    def absorb(self, writes: dict[bytes, bytes | None]) -> None:
        """Take in writes; None removes."""
        for key, entry in writes.items():
            if entry is None:
                self.entries.pop(key, None)
            else:
                self.entries[key] = entry


@cache
def account_id(address: str) -> xdr.AccountID:
    """The XDR form of a `G…` address."""
    return Keypair.from_public_key(address).xdr_account_id()


@cache
def account_key(address: str) -> bytes:
    """LedgerKey XDR of an account."""
    key = xdr.LedgerKeyAccount(account_id(address))
    return xdr.LedgerKey(xdr.LedgerEntryType.ACCOUNT, account=key).to_xdr_bytes()


@cache
def trustline_key(address: str, asset: Asset) -> bytes:
    """LedgerKey XDR of a trustline."""
    key = xdr.LedgerKeyTrustLine(account_id(address), asset.to_trust_line_asset_xdr_object())
    return xdr.LedgerKey(xdr.LedgerEntryType.TRUSTLINE, trust_line=key).to_xdr_bytes()


def data_key(address: str, name: bytes) -> bytes:
    """LedgerKey XDR of a manage_data entry."""
    key = xdr.LedgerKeyData(account_id(address), xdr.String64(name))
    return xdr.LedgerKey(xdr.LedgerEntryType.DATA, data=key).to_xdr_bytes()


def contract_data_key(contract: str, key: xdr.SCVal, *, temporary: bool = False) -> bytes:
    """LedgerKey XDR of one entry of a contract's storage."""
    data_key = xdr.LedgerKeyContractData(
        Address(contract).to_xdr_sc_address(), key, _durability(temporary)
    )
    return xdr.LedgerKey(xdr.LedgerEntryType.CONTRACT_DATA, contract_data=data_key).to_xdr_bytes()


def _durability(temporary: bool) -> xdr.ContractDataDurability:
    kind = xdr.ContractDataDurability
    return kind.TEMPORARY if temporary else kind.PERSISTENT


@dataclass(frozen=True)
class Signer:
    """An additional signer; only ed25519 keys can sign on the devnet."""

    key: xdr.SignerKey
    weight: int
    sponsor: str | None = None


@dataclass(frozen=True)
class Account:
    """An account entry. `seq_ledger` and `seq_time` are those of the last sequence change.

    `sponsored` are the reserves of it that others pay, `sponsoring` those of others that it pays,
    `sponsor` pays the account's reserve, if it is another account.
    """

    address: str
    balance: int
    sequence: int
    subentries: int = 0
    flags: int = 0
    home_domain: bytes = b""
    thresholds: tuple[int, int, int, int] = (1, 0, 0, 0)
    signers: tuple[Signer, ...] = ()
    seq_ledger: int = 0
    seq_time: int = 0
    sponsored: int = 0
    sponsoring: int = 0
    sponsor: str | None = None

    @property
    def reserve(self) -> int:
        """The balance that the account may not spend."""
        return (2 + self.subentries + self.sponsoring - self.sponsored) * BASE_RESERVE

    @property
    def spendable(self) -> int:
        """Balance above the account's reserve."""
        return max(0, self.balance - self.reserve)

    def to_entry(self) -> xdr.LedgerEntryData:
        """The XDR form."""
        v3 = xdr.AccountEntryExtensionV3(
            xdr.ExtensionPoint(0),
            xdr.Uint32(self.seq_ledger),
            xdr.TimePoint(xdr.Uint64(self.seq_time)),
        )
        v2 = xdr.AccountEntryExtensionV2(
            num_sponsored=xdr.Uint32(self.sponsored),
            num_sponsoring=xdr.Uint32(self.sponsoring),
            signer_sponsoring_i_ds=[_descriptor(signer.sponsor) for signer in self.signers],
            ext=xdr.AccountEntryExtensionV2Ext(3, v3=v3),
        )
        v1 = xdr.AccountEntryExtensionV1(
            xdr.Liabilities(xdr.Int64(0), xdr.Int64(0)), xdr.AccountEntryExtensionV1Ext(2, v2=v2)
        )
        account = xdr.AccountEntry(
            account_id=account_id(self.address),
            balance=xdr.Int64(self.balance),
            seq_num=xdr.SequenceNumber(xdr.Int64(self.sequence)),
            num_sub_entries=xdr.Uint32(self.subentries),
            inflation_dest=None,
            flags=xdr.Uint32(self.flags),
            home_domain=xdr.String32(self.home_domain),
            thresholds=xdr.Thresholds(bytes(self.thresholds)),
            signers=[xdr.Signer(s.key, xdr.Uint32(s.weight)) for s in self.signers],
            ext=xdr.AccountEntryExt(1, v1=v1),
        )
        return xdr.LedgerEntryData(xdr.LedgerEntryType.ACCOUNT, account=account)

    @classmethod
    def from_entry(cls, data: xdr.LedgerEntryData, sponsor: str | None = None) -> "Account":
        """Read the XDR form that `to_entry` writes; who sponsors it stands beside it."""
        entry = data.account
        assert entry is not None
        assert entry.ext.v1 is not None
        v2 = entry.ext.v1.ext.v2
        assert v2 is not None
        v3 = v2.ext.v3
        assert v3 is not None
        master, low, medium, high = entry.thresholds.thresholds
        return cls(
            address=address_of_account(entry.account_id),
            balance=entry.balance.int64,
            sequence=entry.seq_num.sequence_number.int64,
            subentries=entry.num_sub_entries.uint32,
            flags=entry.flags.uint32,
            home_domain=entry.home_domain.string32,
            thresholds=(master, low, medium, high),
            signers=tuple(
                Signer(signer.key, signer.weight.uint32, _sponsor_of(descriptor))
                for signer, descriptor in zip(entry.signers, v2.signer_sponsoring_i_ds, strict=True)
            ),
            seq_ledger=v3.seq_ledger.uint32,
            seq_time=v3.seq_time.time_point.uint64,
            sponsored=v2.num_sponsored.uint32,
            sponsoring=v2.num_sponsoring.uint32,
            sponsor=sponsor,
        )


def _descriptor(sponsor: str | None) -> xdr.SponsorshipDescriptor:
    return xdr.SponsorshipDescriptor(None if sponsor is None else account_id(sponsor))


def _sponsor_of(descriptor: xdr.SponsorshipDescriptor) -> str | None:
    known = descriptor.sponsorship_descriptor
    return None if known is None else address_of_account(known)


def _extension(sponsor: str | None) -> xdr.LedgerEntryExt:
    if sponsor is None:
        return xdr.LedgerEntryExt(0)
    v1 = xdr.LedgerEntryExtensionV1(_descriptor(sponsor), xdr.LedgerEntryExtensionV1Ext(0))
    return xdr.LedgerEntryExt(1, v1=v1)


def _sponsor_in(entry: xdr.LedgerEntry) -> str | None:
    return None if entry.ext.v1 is None else _sponsor_of(entry.ext.v1.sponsoring_id)


def address_of_account(account: xdr.AccountID) -> str:
    """The `G…` address of an XDR account id."""
    key = account.account_id.ed25519
    assert key is not None
    return _address_of_key(key.uint256)


@cache
def _address_of_key(raw: bytes) -> str:
    return Keypair.from_raw_ed25519_public_key(raw).public_key


@dataclass(frozen=True)
class Trustline:
    """A trustline entry; `sponsor` is who pays its reserve if not the holder."""

    address: str
    asset: Asset
    balance: int
    limit: int
    flags: int
    sponsor: str | None = None

    @property
    def authorized(self) -> bool:
        """May the holder send and receive?"""
        return bool(self.flags & AUTHORIZED)

    def to_entry(self) -> xdr.LedgerEntryData:
        """The XDR form."""
        line = xdr.TrustLineEntry(
            account_id=account_id(self.address),
            asset=self.asset.to_trust_line_asset_xdr_object(),
            balance=xdr.Int64(self.balance),
            limit=xdr.Int64(self.limit),
            flags=xdr.Uint32(self.flags),
            ext=xdr.TrustLineEntryExt(0),
        )
        return xdr.LedgerEntryData(xdr.LedgerEntryType.TRUSTLINE, trust_line=line)

    @classmethod
    def from_entry(cls, data: xdr.LedgerEntryData, sponsor: str | None = None) -> "Trustline":
        """Read the XDR form; who sponsors it stands beside it."""
        line = data.trust_line
        assert line is not None
        return cls(
            address=address_of_account(line.account_id),
            asset=Asset.from_xdr_object(line.asset),
            balance=line.balance.int64,
            limit=line.limit.int64,
            flags=line.flags.uint32,
            sponsor=sponsor,
        )


@dataclass
class Layer:
    """A layer of uncommitted writes over a view, at a ledger sequence."""

    below: View
    sequence: int
    writes: dict[bytes, bytes | None] = field(default_factory=dict)

    def get(self, key: bytes) -> bytes | None:
        """The entry under a key as seen from this layer, or None."""
        return self.writes[key] if key in self.writes else self.below.get(key)

    def absorb(self, writes: dict[bytes, bytes | None]) -> None:
        """Take in the writes of the layer above."""
        self.writes.update(writes)

    def above(self) -> "Layer":
        """A new layer on top of this one."""
        return Layer(self, self.sequence)

    def commit(self) -> None:
        """Hand the writes to the layer below."""
        self.below.absorb(self.writes)

    def put(self, key: bytes, data: xdr.LedgerEntryData, sponsor: str | None = None) -> None:
        """Write an entry, modified in this ledger."""
        entry = xdr.LedgerEntry(xdr.Uint32(self.sequence), data, _extension(sponsor))
        self.writes[key] = entry.to_xdr_bytes()

    def remove(self, key: bytes) -> None:
        """Delete an entry."""
        self.writes[key] = None

    def entry(self, key: bytes) -> xdr.LedgerEntry | None:
        """The entry under a key, or None."""
        raw = self.get(key)
        return None if raw is None else xdr.LedgerEntry.from_xdr_bytes(raw)

    def sponsor(self, key: bytes) -> str | None:
        """Sponsor of the entry under a key, if there is one."""
        entry = self.entry(key)
        return None if entry is None else _sponsor_in(entry)

    def changes(self) -> xdr.LedgerEntryChanges:
        """How this layer differs from the one below: STATE precedes UPDATED and REMOVED."""
        changes: list[xdr.LedgerEntryChange] = []
        for key, after in self.writes.items():
            changes.extend(_change(key, self.below.get(key), after))
        return xdr.LedgerEntryChanges(changes)

    def account(self, address: str) -> Account | None:
        """An account by its `G…` address, or None."""
        entry = self.entry(account_key(address))
        return None if entry is None else Account.from_entry(entry.data, _sponsor_in(entry))

    def put_account(self, account: Account) -> None:
        """Write an account."""
        self.put(account_key(account.address), account.to_entry(), account.sponsor)

    def pay_account(self, address: str, amount: int) -> None:
        """Add to (or take from) a native balance that the caller has already checked."""
        account = self.account(address)
        assert account is not None
        self.put_account(replace(account, balance=account.balance + amount))

    def trustline(self, address: str, asset: Asset) -> Trustline | None:
        """A trustline, or None."""
        entry = self.entry(trustline_key(address, asset))
        return None if entry is None else Trustline.from_entry(entry.data, _sponsor_in(entry))

    def put_trustline(self, line: Trustline) -> None:
        """Write a trustline."""
        self.put(trustline_key(line.address, line.asset), line.to_entry(), line.sponsor)

    def contract_data(
        self, contract: str, key: xdr.SCVal, *, temporary: bool = False
    ) -> xdr.SCVal | None:
        """A value of a contract's storage, or None."""
        entry = self.entry(contract_data_key(contract, key, temporary=temporary))
        if entry is None:
            return None
        assert entry.data.contract_data is not None
        return entry.data.contract_data.val

    def put_contract_data(
        self, contract: str, key: xdr.SCVal, value: xdr.SCVal, *, temporary: bool = False
    ) -> None:
        """Write a value of a contract's storage."""
        entry = xdr.ContractDataEntry(
            ext=xdr.ExtensionPoint(0),
            contract=Address(contract).to_xdr_sc_address(),
            key=key,
            durability=_durability(temporary),
            val=value,
        )
        data = xdr.LedgerEntryData(xdr.LedgerEntryType.CONTRACT_DATA, contract_data=entry)
        self.put(contract_data_key(contract, key, temporary=temporary), data)


def _change(key: bytes, before: bytes | None, after: bytes | None) -> list[xdr.LedgerEntryChange]:
    kind = xdr.LedgerEntryChangeType
    if before == after:
        return []
    if before is None:
        assert after is not None
        created = xdr.LedgerEntry.from_xdr_bytes(after)
        return [xdr.LedgerEntryChange(kind.LEDGER_ENTRY_CREATED, created=created)]
    state = xdr.LedgerEntryChange(
        kind.LEDGER_ENTRY_STATE, state=xdr.LedgerEntry.from_xdr_bytes(before)
    )
    if after is None:
        removed = xdr.LedgerKey.from_xdr_bytes(key)
        return [state, xdr.LedgerEntryChange(kind.LEDGER_ENTRY_REMOVED, removed=removed)]
    updated = xdr.LedgerEntry.from_xdr_bytes(after)
    return [state, xdr.LedgerEntryChange(kind.LEDGER_ENTRY_UPDATED, updated=updated)]
