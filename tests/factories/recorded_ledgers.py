"""Stellar ledgers recorded in files, read as if from a node, for replay and tests.

Files as public sources store them: one `LedgerCloseMeta` (`.xdr`, gzipped or not), a data lake's
batch (SEP-54: `.xdr.zst`, in old lakes `.xdr.zstd`), or a base64 ledger a line (`.txt`, gzipped or
not). Recorded ledgers need not follow one another; only what does can be read as one range.
Every ledger is proven by its own hashes before anything of it is given.
"""

import base64
import binascii
import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path

import zstandard

from indexer.chains.ports import Block, Range, StellarEvent, UnreadLedger
from indexer.chains.stellar.filters import requested_events
from indexer.chains.stellar.xdr.batches import split_batch
from indexer.chains.stellar.xdr.close_meta import decode_meta
from indexer.chains.stellar.xdr.ledgers import (
    Ledger,
    LedgerProof,
    block_of_meta,
    check_linked,
)
from indexer.chains.watchlist import Watched
from indexer.config.networks import StellarChain
from indexer.errors import (
    ConfigurationError,
    InconsistentAnswer,
    NodeBehind,
    RetentionGap,
    UndecodableLedger,
)
from warehouse_schema.identifiers import ChainId, Height

_UNNAMED = ChainId("stellar:recorded")
"""A file does not say which chain it is of, and parting its ledgers needs no name."""
_SOURCE = "a recording"
_KEPT_LEDGERS = 4
"""Parsed ledgers that are kept: each takes tens of megabytes."""


class RecordedLedgers:
    """A `ChainReader` over recorded ledgers of one chain."""

    def __init__(self, chain: StellarChain, files: Iterable[Path]) -> None:
        """Raises `ConfigurationError` when there is no ledger, or a file that cannot be read."""
        self.chain: ChainId = chain.id
        self._chain = chain
        self._metas: dict[Height, bytes] = {}
        self._blocks: dict[Height, Block] = {}
        for file in files:
            for meta in recorded_ledgers(file):
                block = block_of_meta(meta, chain.id)
                self._metas[block.height], self._blocks[block.height] = meta, block
        if not self._metas:
            raise ConfigurationError("no recorded ledgers were given")
        self._proven = lru_cache(_KEPT_LEDGERS)(self._prove)

    @property
    def heights(self) -> tuple[Height, ...]:
        """Sequences of the recorded ledgers, ascending."""
        return tuple(sorted(self._metas))

    def ledger(self, height: Height) -> Ledger:
        """A recorded ledger with every contract event in it, proven.

        `NodeBehind` or `RetentionGap` when it was not recorded; `UndecodableLedger`.
        """
        return self._proven(height)[0]

    def proof(self, height: Height) -> LedgerProof:
        """How much of a recorded ledger its header proves; errors as of `ledger`."""
        return self._proven(height)[1]

    def check_identity(self) -> None:
        """Nothing to ask: ledgers of another network do not decode, for their hashes differ."""

    def head(self) -> Block:
        """The newest recorded ledger."""
        return self._blocks[max(self._blocks)]

    def block(self, height: Height) -> Block:
        """One ledger's header. `NodeBehind` or `RetentionGap` when it was not recorded."""
        self._check_recorded(height)
        return self._blocks[height]

    def read(self, first: Height, last: Height, watched: Watched) -> Range:
        """Ledgers and wanted events of `first … last`, all of which must be recorded."""
        blocks = [self.block(Height(height)) for height in range(first, last + 1)]
        check_linked(blocks)
        events: list[StellarEvent] = []
        unread: list[UnreadLedger] = []
        for block in blocks:
            try:
                events += requested_events(self._chain, watched, self.ledger(block.height).events)
            except UndecodableLedger as error:
                unread.append(UnreadLedger(block, str(error), self._metas[block.height], _SOURCE))
        return Range(tuple(blocks), tuple(events), tuple(unread))

    def wait_for_head(self, above: Height, timeout: float) -> Block | None:
        """The head if it is above `above`; a recording does not grow, so there is no waiting."""
        head = self.head()
        return head if head.height > above else None

    def close(self) -> None:
        """Nothing is held open."""

    def _prove(self, height: Height) -> tuple[Ledger, LedgerProof]:
        self._check_recorded(height)
        return decode_meta(self._metas[height], self._chain, every_contract=True)

    def _check_recorded(self, height: Height) -> None:
        if height > max(self._blocks):
            raise NodeBehind(f"ledger {height} comes after the last recorded one")
        if height not in self._blocks:
            raise RetentionGap(f"ledger {height} was not recorded")


def recorded_ledgers(path: Path) -> Iterator[bytes]:
    """`LedgerCloseMeta` XDR of each ledger in a file, in the file's order.

    Raises `ConfigurationError` when the file's name or content is none of the kinds above.
    """
    try:
        yield from _reader(path)(path.read_bytes())
    except _BROKEN as error:
        raise ConfigurationError(f"{path.name} cannot be read: {error}") from error


_BROKEN = (
    OSError,
    EOFError,
    ValueError,
    zlib.error,
    binascii.Error,
    zstandard.ZstdError,
    InconsistentAnswer,
)


def _reader(path: Path) -> Callable[[bytes], Iterator[bytes]]:
    for suffix, reader in _READERS.items():
        if path.name.endswith(suffix):
            return reader
    raise ConfigurationError(f"{path.name}: recorded ledgers end in one of {', '.join(_READERS)}")


def _one(content: bytes) -> Iterator[bytes]:
    yield content


def _lines(content: bytes) -> Iterator[bytes]:
    for line in content.splitlines():
        yield base64.b64decode(line, validate=True)


def _batch(content: bytes) -> Iterator[bytes]:
    raw = zstandard.ZstdDecompressor().decompressobj().decompress(content)
    for ledger in split_batch(raw, _UNNAMED):
        yield ledger.meta


_READERS: dict[str, Callable[[bytes], Iterator[bytes]]] = {
    ".xdr": _one,
    ".xdr.gz": lambda content: _one(gzip.decompress(content)),
    ".xdr.zst": _batch,
    ".xdr.zstd": _batch,
    ".txt": _lines,
    ".txt.gz": lambda content: _lines(gzip.decompress(content)),
}
"""How a file is read, by how its name ends."""
