"""Does a ledger hold anything of ours? Answered from its bytes, before any of it is decoded.

What we want of a ledger is named in it by 32 raw bytes: the contract an event is of, the account a
token's event is about, the transaction that was issued. A ledger without any of them has no wanted
event; one that has them may still have none. Tokens' own ids are no needles: with them nearly every
ledger would be a hit, while a movement that matters also names a watched account.
"""

import re
import sys
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from stellar_sdk import StrKey, scval, xdr

from indexer.networks import StellarChain
from warehouse_schema.identifiers import TxHash

_KEY = 32


@dataclass(frozen=True, slots=True)
class Needles:
    """What to look for. A contract costs a search of its own; accounts together cost one."""

    anywhere: tuple[bytes, ...]
    """Contract ids, hashes, and addresses of rare kinds."""
    accounts: frozenset[bytes]
    """Keys of accounts, which are found where they stand as an address among values."""
    holders: frozenset[bytes]
    """Ids of watched contracts, found in the same way."""

    def are_in(self, raw: bytes, begin: int = 0, end: int = sys.maxsize) -> bool:
        """Whether the ledger between `begin` and `end` must be decoded."""

        def is_any(keys: frozenset[bytes], address: re.Pattern[bytes]) -> bool:
            return bool(keys) and not keys.isdisjoint(address.findall(raw, begin, end))

        return (
            any(raw.find(needle, begin, end) >= 0 for needle in self.anywhere)
            or is_any(self.accounts, _ACCOUNT)
            or is_any(self.holders, _CONTRACT)
        )


def needles_of(
    chain: StellarChain, watched: Iterable[str], issued: Collection[TxHash] = ()
) -> Needles:
    """Needles for the events that `stellar_filters.wanted_by` wants, and for issued transactions.

    `issued` are inner hashes: a fee bump's result names the transaction inside it too.
    """
    contracts = [StrKey.decode_contract(contract) for contract in chain.event_contracts]
    accounts, holders, others = set(), set(), []
    for each in watched:
        address = scval.to_address(each).to_xdr_bytes()
        lead, key = address[:-_KEY], address[-_KEY:]
        if lead == _ACCOUNT_LEAD:
            accounts.add(key)
        elif lead == _CONTRACT_LEAD:
            holders.add(key)
        else:
            others.append(address)
    hashes = [bytes.fromhex(name) for name in issued]
    return Needles(
        anywhere=(*contracts, *hashes, *others),
        accounts=frozenset(accounts),
        holders=frozenset(holders),
    )


def _lead(kind: xdr.SCAddressType, *more: int) -> bytes:
    """What stands before the key of an address that is a value."""
    words = (xdr.SCValType.SCV_ADDRESS, kind, *more)
    return b"".join(word.to_bytes(4, "big") for word in words)


def _address(lead: bytes) -> re.Pattern[bytes]:
    # The leading zeros are left out: what remains begins with a byte that is not in it again, so
    # that two leads cannot overlap, and none is passed over with the one before it. For the same
    # reason the key is only looked at.
    lead = lead.lstrip(b"\0")
    if lead.count(lead[:1]) != 1:
        raise ValueError(f"{lead.hex()} may overlap with itself")
    return re.compile(re.escape(lead) + rb"(?=(.{32}))", re.DOTALL)


_ACCOUNT_LEAD = _lead(
    xdr.SCAddressType.SC_ADDRESS_TYPE_ACCOUNT, xdr.PublicKeyType.PUBLIC_KEY_TYPE_ED25519
)
_CONTRACT_LEAD = _lead(xdr.SCAddressType.SC_ADDRESS_TYPE_CONTRACT)
_ACCOUNT, _CONTRACT = _address(_ACCOUNT_LEAD), _address(_CONTRACT_LEAD)
