"""Blooms of blocks: which addresses and topics may be among their logs (Yellow Paper 4.3.1)."""

from collections.abc import Iterable
from functools import lru_cache

from eth_hash.auto import keccak

BLOOM_BITS = 2048


def bloom_of(items: Iterable[str]) -> int:
    """Bloom of these addresses and topics, as one integer."""
    bloom = 0
    for item in items:
        bloom |= _bloom_mask(item)
    return bloom


def may_hold(bloom: int, item: str) -> bool:
    """Whether an address or topic may be among the logs of a bloom."""
    mask = _bloom_mask(item)
    return bloom & mask == mask


@lru_cache(maxsize=65_536)
def _bloom_mask(item: str) -> int:
    """The three bits of an address or topic in a block's bloom (Yellow Paper 4.3.1)."""
    digest = keccak(bytes.fromhex(item.removeprefix("0x")))
    bits = (int.from_bytes(digest[i : i + 2], "big") % BLOOM_BITS for i in (0, 2, 4))
    return sum({1 << bit for bit in bits})
