"""Stellar's history from a data lake: all ledgers since genesis, an object each or a few (SEP-54).

Most ledgers hold nothing of ours, which is seen in their bytes (`xdr/prefilter.py`). Of those
the header is read, which hashes to its name and names the ledger before, so that none is left out;
and the transactions are held against it, so that none of them can have called a contract of ours.
Of the others every hash is recomputed before an event is given.

What that proves: the sequence of ledgers, and all events of our contracts. It does not prove the
events of classic operations, which no header commits to: movements of tokens at watched accounts
rest on the lake and on the checksum of its objects.

A ledger with a hit that cannot be decoded is given as such: its header, its bytes, no events.

Objects are fetched and decompressed in threads, a few ahead of the one that is read.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import orjson
import zstandard

from indexer.chains.ports import Block, Range, StellarEvent, UnreadLedger
from indexer.chains.stellar.filters import wanted_events
from indexer.chains.stellar.lake_store import (
    CONFIGURATION,
    FIRST_LEDGER,
    LakeBatch,
    LakeStore,
    Layout,
)
from indexer.chains.stellar.xdr.batches import BatchedLedger, split_batch
from indexer.chains.stellar.xdr.close_meta import decode_meta
from indexer.chains.stellar.xdr.ledgers import Ledger, check_linked
from indexer.chains.stellar.xdr.prefilter import accounts_in, prefilter_of
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
from warehouse_schema.identifiers import ChainId, Height, TxHash

logger = logging.getLogger(__name__)

_THREADS = 4
_LEDGERS_AHEAD = 16
"""A pubnet ledger is about a megabyte, decompressed."""
_LARGEST_LEDGER = 1 << 24
"""Bytes, decompressed: ten times what pubnet has. More is no ledger but an attack on memory."""
_PIECE = 1 << 17
_POLL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class LakeCounts:
    """What a reader has read so far."""

    ledgers: int = 0
    hits: int = 0
    """Ledgers with a needle in them, which were decoded."""
    unread: int = 0
    """Hits that this build could not decode."""


class LakeReader:
    """A `ChainReader` over a data lake."""

    def __init__(
        self,
        chain: StellarChain,
        store: LakeStore,
        *,
        issued: Callable[[], Collection[TxHash]] = tuple,
    ) -> None:
        """`issued` gives the inner hashes of transactions whose ledgers are to be decoded too."""
        self.chain: ChainId = chain.id
        self.counts = LakeCounts()
        self._chain, self._store, self._issued = chain, store, issued
        self._known_layout: Layout | None = None
        self._newest: LakeBatch | None = None
        self._head: Block | None = None
        self._kept: tuple[LakeBatch, tuple[BatchedLedger, ...]] | None = None
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="lake")

    def check_identity(self) -> None:
        """Raise `WrongChain` unless the lake says that it holds our network.

        A lake without a configuration file says nothing; there the transactions of each ledger that
        is decoded must hash to their names on our network.
        """
        self._layout()

    def head(self) -> Block:
        """The newest ledger of the newest batch. `NodeBehind` in an empty lake."""
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
        needles, watchlist = prefilter_of(self._chain, self._issued()), as_watchlist(watched)
        blocks: list[Block] = []
        events: list[StellarEvent] = []
        unread: list[UnreadLedger] = []
        for ledger in self._ledgers(first, last):
            blocks.append(ledger.block)
            raw, begin, end = ledger.batch, ledger.begin, ledger.end
            if not (
                needles.matches(raw, begin, end)
                or watchlist.intersection(accounts_in(raw, begin, end))
            ):
                self._check_miss(ledger)
                continue
            found = self._decode(ledger)
            if isinstance(found, UnreadLedger):
                unread.append(found)
            else:
                events += wanted_events(self._chain, watchlist, found.events)
        with self._naming_itself():
            check_linked(blocks)
        self._count(ledgers=len(blocks), unread=len(unread))
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
            time.sleep(min(_POLL_SECONDS, remaining))
        return head

    def close(self) -> None:
        """Let go of the threads."""
        self._threads.shutdown(cancel_futures=True)

    # Decoding.

    def _check_miss(self, ledger: BatchedLedger) -> None:
        with self._naming_itself():
            check_transaction_set(ledger.batch, ledger.begin, ledger.end, ledger.block)

    def _decode(self, ledger: BatchedLedger) -> Ledger | UnreadLedger:
        """A hit."""
        raw = ledger.meta
        try:
            with self._naming_itself():
                decoded, _ = decode_meta(raw, self._chain)
        except UndecodableLedger as error:
            self._count(hits=1)
            self._kept = None
            return UnreadLedger(ledger.block, str(error), raw, self._store.name)
        self._count(hits=1)
        return decoded

    def _count(self, **more: int) -> None:
        counts = {name: getattr(self.counts, name) + by for name, by in more.items()}
        self.counts = replace(self.counts, **counts)

    @contextmanager
    def _naming_itself(self) -> Iterator[None]:
        """Around what judges the lake's bytes: what is wrong with them, is wrong with this lake."""
        try:
            yield
        except (InconsistentAnswer, UnsupportedProtocol) as error:
            # Whoever asks again is to see what the lake has by then.
            self._kept = None
            raise type(error)(f"{self._store.name}: {error}") from error

    # Objects.

    def _ledgers(self, first: Height, last: Height) -> Iterator[BatchedLedger]:
        for ledgers in self._batches(first, last):
            for ledger in ledgers:
                if first <= ledger.block.height <= last:
                    yield ledger

    def _batches(self, first: Height, last: Height) -> Iterator[tuple[BatchedLedger, ...]]:
        """Ledgers by batch; the last batch is kept, since the next range may begin in it."""
        layout = self._layout()
        ahead = max(1, _LEDGERS_AHEAD // layout.ledgers_per_batch)
        waiting: deque[tuple[LakeBatch, Future[bytes | None]]] = deque()
        if self._kept is not None and self._kept[0].first <= first <= self._kept[0].last:
            batch, ledgers = self._kept
            yield ledgers
            first = Height(batch.last + 1)
        try:
            for batch in layout.batches(first, last):
                waiting.append((batch, self._threads.submit(self._fetch, layout, batch)))
                if len(waiting) > ahead:
                    yield self._opened(*waiting.popleft())
            while waiting:
                yield self._opened(*waiting.popleft())
        finally:
            for _, fetching in waiting:
                fetching.cancel()

    def _opened(
        self, batch: LakeBatch, fetching: Future[bytes | None]
    ) -> tuple[BatchedLedger, ...]:
        with self._naming_itself():
            raw = fetching.result()
            if raw is None:
                raise self._missing(batch)
            ledgers = split_batch(raw, self.chain)
            held = (ledgers[0].block.height, ledgers[-1].block.height)
            starts = (batch.first, max(batch.first, FIRST_LEDGER))
            if held not in ((start, batch.last) for start in starts):
                raise InconsistentAnswer(f"{batch} holds {held}")
        self._kept = batch, ledgers
        return ledgers

    def _fetch(self, layout: Layout, batch: LakeBatch) -> bytes | None:
        """A batch's object, decompressed; None when there is none. Runs in a thread."""
        for name in layout.names(batch):
            content = self._store.read(name)
            if content is not None:
                return _decompressed(content, name, layout.ledgers_per_batch * _LARGEST_LEDGER)
        return None

    def _missing(self, batch: LakeBatch) -> NodeBehind | RetentionGap:
        newest = self._find_newest()
        if batch.last > newest.last:
            return NodeBehind(f"{self._store.name} ends at {newest.last}, before {batch.last}")
        return RetentionGap(f"{self._store.name} has no {batch}, but goes on to {newest.last}")

    # The lake as a whole.

    def _layout(self) -> Layout:
        if self._known_layout is None:
            raw = self._store.read(CONFIGURATION)
            layout = self._store.layout if raw is None else self._configured(raw)
            if layout is None:
                raise ConfigurationError(
                    f"{self._store.name} has no {CONFIGURATION}; if it is a lake from before there"
                    " was one, put ?ledgers_per_batch=…&batches_per_partition=… behind its URL"
                )
            self._known_layout = layout
        return self._known_layout

    def _configured(self, raw: bytes) -> Layout:
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
        sizes = [_entry(given, key, where) for key in ("ledgersPerBatch", "batchesPerPartition")]
        if not all(type(size) is int and size > 0 for size in sizes):
            raise ConfigurationError(f"{where}: sizes are {sizes}, not numbers from 1")
        return Layout(*sizes)

    def _find_newest(self) -> LakeBatch:
        found = self._store.newest() if self._store.can_list else self._probed()
        if found is None:
            raise NodeBehind(f"{self._store.name} holds no ledger yet")
        if self._newest is None or found.last > self._newest.last:
            self._newest = found
        return self._newest

    def _probed(self) -> LakeBatch | None:
        """The newest batch of a lake that cannot list: a gallop, then a search between.

        Lakes have no gaps, and reach back to where the chain starts for us.
        """
        layout = self._layout()

        def is_there(batch: LakeBatch) -> bool:
            return any(self._store.has(name) for name in layout.names(batch))

        found = self._newest or layout.batch_of(self._chain.first_height)
        if not is_there(found):
            return None
        step = 1
        while is_there(further := _batches_on(layout, found, step)):
            found, step = further, step * 2
        while step > 1:
            step //= 2
            if is_there(further := _batches_on(layout, found, step)):
                found = further
        return found


def _batches_on(layout: Layout, batch: LakeBatch, count: int) -> LakeBatch:
    return layout.batch_of(Height(batch.first + count * layout.ledgers_per_batch))


def _entry(given: Any, key: str, where: str) -> Any:
    if not isinstance(given, dict) or key not in given:
        raise ConfigurationError(f"{where} has no {key}")
    return given[key]


def _decompressed(content: bytes, name: str, most: int) -> bytes:
    """The whole of a zstd frame of at most `most` bytes, with its own checksum held against it.

    A frame that was cut short could be taken for a ledger without anything of ours; it is refused,
    and so is anything that stands behind the frame.
    """
    frame = zstandard.ZstdDecompressor().decompressobj()
    pieces, size = [], 0
    try:
        # By pieces, so that one which bursts is noticed before the next.
        for at in range(0, len(content), _PIECE):
            pieces.append(frame.decompress(content[at : at + _PIECE]))
            size += len(pieces[-1])
            if size > most:
                raise InconsistentAnswer(f"{name} is larger than {most} bytes")
    except zstandard.ZstdError as error:
        raise InconsistentAnswer(f"{name} is no zstd: {error}") from error
    if not frame.eof or frame.unused_data:
        raise InconsistentAnswer(f"{name} is not one whole zstd frame")
    return b"".join(pieces)
