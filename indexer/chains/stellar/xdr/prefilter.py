"""Does a ledger hold anything of ours? Answered from its bytes, before any of it is decoded.

What we want of a ledger is named in it by 32 raw bytes: the contract an event is of, the account a
token's event is about, the transaction that was issued. A ledger without any of them has no wanted
event; one that has them may still have none. Tokens' own ids are no needles: with them nearly every
ledger would be a hit, while a movement that matters also names a watched account. Which of the
accounts in a ledger are watched is for others to say.
"""

import re
import sys
from collections.abc import Collection
from dataclasses import dataclass

from stellar_sdk import StrKey, xdr

from indexer.addresses import account_of_key
from indexer.config.networks import StellarChain
from warehouse_schema.identifiers import StellarAddress, TxHash

_KEY = 32


@dataclass(frozen=True, slots=True)
class Prefilter:
    """What is looked for anywhere in a ledger; each costs a search of its own."""

    keys: tuple[bytes, ...]
    """Contract ids and hashes of transactions."""

    def matches(self, raw: bytes, begin: int = 0, end: int = sys.maxsize) -> bool:
        """Whether the ledger between `begin` and `end` has one of them."""
        return any(raw.find(key, begin, end) >= 0 for key in self.keys)


def prefilter_of(chain: StellarChain, issued: Collection[TxHash] = ()) -> Prefilter:
    """Needles for the events of the chain's contracts, and for issued transactions.

    `issued` are inner hashes: a fee bump's result names the transaction inside it too.
    """
    contracts = [StrKey.decode_contract(contract) for contract in chain.event_contracts]
    return Prefilter((*contracts, *(bytes.fromhex(name) for name in issued)))


def accounts_in(raw: bytes, begin: int = 0, end: int = sys.maxsize) -> set[StellarAddress]:
    """Accounts that stand as an address among the values of the ledger between `begin` and `end`.

    Every account that an event's topic names is among them.
    """
    return {account_of_key(key) for key in set(_ACCOUNT.findall(raw, begin, end))}


def account_of_value(raw: bytes) -> StellarAddress | None:
    """The account that an `SCVal` is the address of; None for any other value."""
    lead, key = raw[:-_KEY], raw[-_KEY:]
    return account_of_key(key) if lead == _ACCOUNT_LEAD else None


_ACCOUNT_LEAD = b"".join(
    word.to_bytes(4, "big")
    for word in (
        xdr.SCValType.SCV_ADDRESS,
        xdr.SCAddressType.SC_ADDRESS_TYPE_ACCOUNT,
        xdr.PublicKeyType.PUBLIC_KEY_TYPE_ED25519,
    )
)
"""What stands before the key of an account that is a value."""
# The leading zeros are left out: what remains begins with a byte that is not in it again, so that
# two leads cannot overlap, and none is passed over with the one before it. For the same reason the
# key is only looked at.
_ACCOUNT = re.compile(re.escape(_ACCOUNT_LEAD.lstrip(b"\0")) + rb"(?=(.{32}))", re.DOTALL)
