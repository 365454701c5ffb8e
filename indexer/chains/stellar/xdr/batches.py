"""Splits a `LedgerCloseMetaBatch` into its ledgers, undecoded (SEP-54)."""

from dataclasses import dataclass

from indexer.chains.raw import Block
from indexer.chains.stellar.xdr.ledgers import block_of_meta
from indexer.chains.stellar.xdr.skip import Malformed, skipper
from indexer.errors import InconsistentAnswer, UnsupportedProtocol
from warehouse_schema.identifiers import ChainId

_HEAD = 12
"""Start sequence, end sequence and number of ledgers, 4 bytes each."""
_MAX_HEADER = 4096
"""Bytes, with a margin, of a ledger's header and the parts before it."""
_BEFORE_PARENT = 4 + 32 + 4
"""Wrapper version, the ledger's own hash and the protocol version; the parent's hash follows."""
_EXTENSIONS = (4, 16, 0)
"""Bytes of `LedgerCloseMetaExt` v0 and v1; wrapper v0 has none."""


@dataclass(frozen=True, slots=True)
class BatchedLedger:
    """A ledger of a batch: its header, which hashes to its name, and its place."""

    block: Block
    batch: bytes
    begin: int
    end: int

    @property
    def meta(self) -> bytes:
        """Its `LedgerCloseMeta`, copied on each access: most ledgers are never decoded."""
        return self.batch[self.begin : self.end]


def split_batch(raw: bytes, chain: ChainId) -> tuple[BatchedLedger, ...]:
    """The ledgers of a batch in order, each of which names the one before as its parent.

    The end of a ledger is found by searching for its hash, which the next ledger contains. Raises
    `InconsistentAnswer` when the batch contradicts its head, `UnsupportedProtocol` as
    `block_of_meta` does.
    """
    first, last, number = (int.from_bytes(raw[at : at + 4], "big") for at in (0, 4, 8))
    if len(raw) <= _HEAD or number != last - first + 1:
        raise InconsistentAnswer(f"a batch from {first} to {last} of {number} ledgers")
    ledgers = []
    at, block = _HEAD, _block(raw, _HEAD, chain)
    for height in range(first, last + 1):
        if block.height != height:
            raise InconsistentAnswer(f"ledger {block.height} stands where {height} should be")
        if height == last:
            ledgers.append(BatchedLedger(block, raw, at, len(raw)))
            break
        end, following = _next(raw, at, block)
        ledgers.append(BatchedLedger(block, raw, at, end))
        at, block = end, following
    return tuple(ledgers)


def _next(raw: bytes, at: int, block: Block) -> tuple[int, Block]:
    """Where the next ledger begins, and its header."""
    name = bytes.fromhex(block.hash)
    parent = raw.find(name, raw.index(name, at) + len(name))
    for extension in _EXTENSIONS if parent > 0 else ():
        begin = parent - _BEFORE_PARENT - extension
        try:
            following = _block(raw, begin, block.chain)
        except (InconsistentAnswer, UnsupportedProtocol):
            # No header begins here. A header of a newer protocol is met by `_next_by_skipping`.
            continue
        if following.parent_hash == block.hash:
            return begin, following
    return _next_by_skipping(raw, at, block)


def _next_by_skipping(raw: bytes, at: int, block: Block) -> tuple[int, Block]:
    """As `_next`, for a ledger whose hash does not mark the next one."""
    try:
        end = skipper("LedgerCloseMeta")(raw, at)
        following = _block(raw, end, block.chain)
    except (Malformed, RecursionError) as error:
        raise InconsistentAnswer(f"ledger {block.height} has no end: {error}") from error
    if following.parent_hash != block.hash:
        raise InconsistentAnswer(f"ledger {following.height} does not follow {block.height}")
    return end, following


def _block(raw: bytes, at: int, chain: ChainId) -> Block:
    return block_of_meta(raw[at : at + _MAX_HEADER], chain)
