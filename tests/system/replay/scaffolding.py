"""What no chain gave: the hashes that the recorded nodes make up, and how to tell them.

Every made-up hash has `MARK` in it, but for those of Stellar headers, which have to hash to their
own names; a made-up header is told by its protocol, 0. Times that were not recorded are 0, which is
1970. A log or event of which the index was not recorded is numbered in the order in which its
contract emits.
"""

from hashlib import sha256

from indexer.chains.raw import Block
from warehouse_schema.identifiers import is_evm

MARK = "5caff01d"
UNKNOWN_TIME = 0
UNKNOWN_PROTOCOL = 0


def made_up_hash(*names: object) -> str:
    """64 hex digits without prefix, always the same for the same names."""
    digest = sha256("/".join(str(name) for name in names).encode()).hexdigest()
    return MARK + digest[len(MARK) :]


def completed_hash(shortened: str) -> str:
    """A hash that was recorded as `0x12345678...9abcdef0`, the middle filled with marks."""
    first, last = shortened.split()[0].split("...")
    missing = 2 + 64 - len(first) - len(last)
    return first + (MARK * 8)[:missing] + last


def is_made_up(text: str) -> bool:
    """Whether a hash is none that a chain gave, or not wholly."""
    return MARK in text


def has_genuine_hash(block: Block) -> bool:
    """Whether the block's own hash is the chain's; its parent's may be made up all the same."""
    if is_evm(block.chain):
        return not is_made_up(block.hash)
    return block.protocol_version != UNKNOWN_PROTOCOL
