"""Whether a ledger can contain wanted events, from its bytes, before any decoding.

A wanted event names 32 raw bytes: the contract that emitted it, or the account that a token's event
is about. A ledger without any of them has no wanted event; a ledger with them may still have none.
Tokens' own ids are not searched for: they are in nearly every ledger, and a relevant token event
also names a watched account. The caller checks which accounts are watched.
"""

import re
import sys
from functools import lru_cache

from stellar_sdk import StrKey, xdr

from indexer.addresses import account_of_key
from indexer.config.networks import StellarChain
from warehouse_schema.identifiers import StellarAddress

_KEY = 32
_ACCOUNT_LEAD = b"".join(
    word.to_bytes(4, "big")
    for word in (
        xdr.SCValType.SCV_ADDRESS,
        xdr.SCAddressType.SC_ADDRESS_TYPE_ACCOUNT,
        xdr.PublicKeyType.PUBLIC_KEY_TYPE_ED25519,
    )
)
"""Bytes before the key of an account that is an `SCVal`."""
# Without its leading zeros the lead begins with a byte that does not recur in it, so that two leads
# cannot overlap and none is skipped with the one before it. The key is a lookahead for the same
# reason.
_ACCOUNT = re.compile(re.escape(_ACCOUNT_LEAD.lstrip(b"\0")) + rb"(?=(.{32}))", re.DOTALL)


@lru_cache(maxsize=16)
def _contract_ids(chain: StellarChain) -> tuple[bytes, ...]:
    return tuple(StrKey.decode_contract(contract) for contract in chain.event_contracts)


def names_contract(raw: bytes, chain: StellarChain, begin: int = 0, end: int = sys.maxsize) -> bool:
    """Whether a contract of the chain is in the ledger between `begin` and `end`."""
    return any(raw.find(contract, begin, end) >= 0 for contract in _contract_ids(chain))


def accounts_in(raw: bytes, begin: int = 0, end: int = sys.maxsize) -> set[StellarAddress]:
    """Accounts among the `SCVal`s of the ledger between `begin` and `end`.

    Includes every account that is a topic of an event.
    """
    return {account_of_key(key) for key in set(_ACCOUNT.findall(raw, begin, end))}


def account_of_value(raw: bytes) -> StellarAddress | None:
    """The account of an `SCVal` that is an account's address; None for any other value."""
    lead, key = raw[:-_KEY], raw[-_KEY:]
    return account_of_key(key) if lead == _ACCOUNT_LEAD else None
