"""Reader of a data lake: all Stellar ledgers since genesis, one or a few per object (SEP-54).

A search of the bytes (`xdr/prefilter.py`) rules out most ledgers. For those, the header must hash
to its name and name its parent, so that no ledger is left out, and the transaction set must hash to
the header, so that none of its transactions called a contract of ours. Hits are decoded, and every
hash is recomputed.

That proves the sequence of ledgers and all events of our contracts. It does not prove events of
classic operations, which no header commits to: for token transfers of watched accounts the lake and
the checksums of its objects are trusted.

A hit that cannot be decoded is returned as an `UnreadLedger`: header and bytes, no events.

Threads fetch and decompress a few objects ahead.
"""

import logging
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import orjson
import zstandard

from indexer.chains.ports import Block, Range, StellarEvent, UnreadLedger
from indexer.chains.range_size import check_events
from indexer.chains.stellar.filters import requested_events
from indexer.chains.stellar.lake_store import (
    CONFIGURATION,
    FIRST_LEDGER,
    LakeBatch,
    LakeStore,
    Layout,
)
from indexer.chains.stellar.xdr.batches import BatchedLedger, split_batch
from indexer.chains.stellar.xdr.close_meta import decode_meta
from indexer.chains.stellar.xdr.ledgers import check_linked
from indexer.chains.stellar.xdr.prefilter import accounts_in, names_contract
from indexer.chains.stellar.xdr.transaction_set import check_transaction_set
from indexer.chains.watchlist import Watched, as_watchlist
from indexer.config.networks import StellarChain
from indexer.errors import (
    ConfigurationError,
    InconsistentAnswer,
    NodeBehind,
    RetentionGap,
    UndecodableLedger,
    UnsupportedProtocol,
    WrongChain,
)
from indexer.metrics.collectors import waiting
from warehouse_schema.identifiers import ChainId, Height

logger = logging.getLogger(__name__)

_THREADS = 4
_LEDGERS_AHEAD = 16
"""A pubnet ledger is about a megabyte, decompressed."""
_MAX_LEDGER = 1 << 24
"""Bytes, decompressed: ten times pubnet's ledgers. More is an attack on memory."""
_CHUNK = 1 << 17
_POLL_SECONDS = 1.0
_SIZES = ("ledgersPerBatch", "batchesPerPartition")


@dataclass(slots=True)
class LakeCounts:
    """Totals of a reader."""

    ledgers: int = 0
    hits: int = 0
    """Ledgers that the prefilter or a watched account matched, which were decoded."""
    unread: int = 0
    """Hits that this build could not decode."""


class LakeReader:
    """A `ChainReader` over a data lake."""

    def __init__(self, chain: StellarChain, store: LakeStore) -> None:
        self.chain: ChainId = chain.id
        self.counts = LakeCounts()
        self._chain, self._store = chain, store
        self._layout: Layout | None = None
        self._newest: LakeBatch | None = None
        self._head: Block | None = None
        self._last_batch: tuple[LakeBatch, tuple[BatchedLedger, ...]] | None = None
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="lake")

    def check_identity(self) -> None:
        """Raise `WrongChain` if the lake's configuration file names another network.

        Without the file, the transactions of each decoded ledger prove the network: their hashes
        include its passphrase.
        """
        self._load_layout()

    def head(self) -> Block:
        """The newest ledger. `NodeBehind` in an empty lake."""
        newest = self._find_newest()
        if self._head is None or newest.last > self._head.height:
            self._head = self.block(newest.last)
        return self._head

    def block(self, height: Height) -> Block:
        """One ledger's header. `NodeBehind` or `RetentionGap` when the lake does not have it."""
        (ledger,) = self._ledgers(height, height)
        return ledger.block

    def read(self, first: Height, last: Height, watched: Watched) -> Range:
        """Ledgers and wanted events of `first … last`."""
        watchlist = as_watchlist(watched)
        blocks: list[Block] = []
        events: list[StellarEvent] = []
        unread: list[UnreadLedger] = []
        for ledger in self._ledgers(first, last):
            blocks.append(ledger.block)
            raw, begin, end = ledger.batch, ledger.begin, ledger.end
            if not (
                names_contract(raw, self._chain, begin, end)
                or watchlist.intersection(accounts_in(raw, begin, end))
            ):
                with self._named_errors():
                    check_transaction_set(raw, begin, end, ledger.block)
                continue
            meta = ledger.meta
            try:
                with self._named_errors():
                    decoded, _ = decode_meta(meta, self._chain)
            except UndecodableLedger as error:
                self._last_batch = None
                unread.append(UnreadLedger(ledger.block, str(error), meta, self._store.name))
            else:
                events += requested_events(self._chain, watchlist, decoded.events)
                check_events(self.chain, first, last, len(events))
            self.counts.hits += 1
        with self._named_errors():
            check_linked(blocks)
        self.counts.ledgers += len(blocks)
        self.counts.unread += len(unread)
        logger.info(
            "read lake chain=%s from=%d to=%d events=%d", self.chain, first, last, len(events)
        )
        return Range(tuple(blocks), tuple(events), tuple(unread))

    def wait_for_head(self, above: Height, timeout: float) -> Block | None:
        """Poll until the head is above `above`, at most `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while (head := self.head()).height <= above:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return None
            with waiting("idle"):
                time.sleep(min(_POLL_SECONDS, remaining))
        return head

    def close(self) -> None:
        """Stop the threads."""
        self._threads.shutdown(cancel_futures=True)

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Adds the lake's name to errors about its bytes."""
        try:
            yield
        except (InconsistentAnswer, UnsupportedProtocol) as error:
            # A retry reads the objects again.
            self._last_batch = None
            raise type(error)(f"{self._store.name}: {error}") from error

    # Objects.

    def _ledgers(self, first: Height, last: Height) -> Iterator[BatchedLedger]:
        for ledgers in self._batches(first, last):
            for ledger in ledgers:
                if first <= ledger.block.height <= last:
                    yield ledger

    def _batches(self, first: Height, last: Height) -> Iterator[tuple[BatchedLedger, ...]]:
        """Ledgers by batch; the last batch is cached, as the next range may begin in it."""
        layout = self._load_layout()
        ahead = max(1, _LEDGERS_AHEAD // layout.ledgers_per_batch)
        pending: deque[tuple[LakeBatch, Future[bytes | None]]] = deque()
        if (
            self._last_batch is not None
            and self._last_batch[0].first <= first <= self._last_batch[0].last
        ):
            batch, ledgers = self._last_batch
            yield ledgers
            first = Height(batch.last + 1)
        try:
            for batch in layout.batches(first, last):
                pending.append((batch, self._threads.submit(self._fetch, layout, batch)))
                if len(pending) > ahead:
                    yield self._open_batch(*pending.popleft())
            while pending:
                yield self._open_batch(*pending.popleft())
        finally:
            for _, future in pending:
                future.cancel()

    def _open_batch(
        self, batch: LakeBatch, future: Future[bytes | None]
    ) -> tuple[BatchedLedger, ...]:
        with self._named_errors():
            raw = future.result()
            if raw is None:
                newest = self._find_newest()
                if batch.last > newest.last:
                    raise NodeBehind(
                        f"{self._store.name} ends at {newest.last}, before {batch.last}"
                    )
                raise RetentionGap(
                    f"{self._store.name} has no {batch}, but goes on to {newest.last}"
                )
            ledgers = split_batch(raw, self.chain)
            held = (ledgers[0].block.height, ledgers[-1].block.height)
            starts = (batch.first, max(batch.first, FIRST_LEDGER))
            if held not in ((start, batch.last) for start in starts):
                raise InconsistentAnswer(f"{batch} holds {held}")
        self._last_batch = batch, ledgers
        return ledgers

    def _fetch(self, layout: Layout, batch: LakeBatch) -> bytes | None:
        """A batch's object, decompressed, or None. Runs in a thread."""
        for name in layout.names(batch):
            content = self._store.read(name)
            if content is not None:
                return _decompress(content, name, layout.ledgers_per_batch * _MAX_LEDGER)
        return None

    # The lake as a whole.

    def _load_layout(self) -> Layout:
        if self._layout is None:
            raw = self._store.read(CONFIGURATION)
            layout = self._store.layout
            if raw is not None:
                where = f"{CONFIGURATION} of {self._store.name}"
                try:
                    given = orjson.loads(raw)
                except orjson.JSONDecodeError as error:
                    raise ConfigurationError(f"{where} is no JSON: {error}") from error
                passphrase = _entry(given, "networkPassphrase", where)
                if passphrase != self._chain.passphrase:
                    raise WrongChain(f"{where}: {passphrase!r} is not {self._chain.passphrase!r}")
                if (compression := _entry(given, "compression", where)) != "zstd":
                    raise ConfigurationError(f"{where}: {compression!r}, but only zstd is read")
                sizes = [_entry(given, key, where) for key in _SIZES]
                if not all(type(size) is int and size > 0 for size in sizes):
                    raise ConfigurationError(f"{where}: sizes are {sizes}, not numbers from 1")
                layout = Layout(*sizes)
            if layout is None:
                raise ConfigurationError(
                    f"{self._store.name} has no {CONFIGURATION}; if it is a lake from before there"
                    " was one, put ?ledgers_per_batch=…&batches_per_partition=… behind its URL"
                )
            self._layout = layout
        return self._layout

    def _find_newest(self) -> LakeBatch:
        found = self._store.newest() if self._store.can_list else self._probe_newest()
        if found is None:
            raise NodeBehind(f"{self._store.name} holds no ledger yet")
        if self._newest is None or found.last > self._newest.last:
            self._newest = found
        return self._newest

    def _probe_newest(self) -> LakeBatch | None:
        """The newest batch of a lake that cannot list, by exponential and binary search.

        Lakes have no gaps, and begin no later than our first ledger of the chain.
        """
        layout = self._load_layout()

        def exists(batch: LakeBatch) -> bool:
            return any(self._store.has(name) for name in layout.names(batch))

        found = self._newest or layout.batch_of(self._chain.first_height)
        if not exists(found):
            return None
        step = 1
        while exists(later := layout.batch_after(found, step)):
            found, step = later, step * 2
        while step > 1:
            step //= 2
            if exists(later := layout.batch_after(found, step)):
                found = later
        return found


def _entry(given: Any, key: str, where: str) -> Any:
    if not isinstance(given, dict) or key not in given:
        raise ConfigurationError(f"{where} has no {key}")
    return given[key]


def _decompress(content: bytes, name: str, max_size: int) -> bytes:
    """Decompress one zstd frame to at most `max_size` bytes, and check its checksum.

    A truncated frame could pass for a ledger without wanted events, so it is refused; so are bytes
    behind the frame.
    """
    frame = zstandard.ZstdDecompressor().decompressobj()
    chunks, size = [], 0
    try:
        # In chunks, so that a decompression bomb is noticed early.
        for at in range(0, len(content), _CHUNK):
            chunks.append(frame.decompress(content[at : at + _CHUNK]))
            size += len(chunks[-1])
            if size > max_size:
                raise InconsistentAnswer(f"{name} is larger than {max_size} bytes")
    except zstandard.ZstdError as error:
        raise InconsistentAnswer(f"{name} is no zstd: {error}") from error
    if not frame.eof or frame.unused_data:
        raise InconsistentAnswer(f"{name} is not one whole zstd frame")
    return b"".join(chunks)
