"""Ranges are fetched ahead, in order, with retries and a bounded queue."""

import threading
import time
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from indexer.chains.raw import Block
from indexer.errors import (
    InconsistentAnswer,
    NodeUnavailable,
    PermanentChainError,
    RangeTooWide,
    WrongChain,
)
from indexer.facts.columns_copy import CopyText
from indexer.ingest.backfill import fetch
from indexer.ingest.backfill.chunks import Chunk
from indexer.ingest.backfill.fetch import ChunkSource, FetchChunk, RangePlanner, fetch_ahead
from indexer.movements.send_columns import sends_alone
from indexer.movements.send_store import send_rows
from indexer.transfers.affected import AffectedKeys
from tests.factories.fake_chain import ETHEREUM, fake_network
from warehouse_schema.identifiers import BlockHash, Height, UnixSeconds


def make_chunk(first: int, last: int, *, events: int = 0, size: int = 0) -> Chunk:
    return Chunk(
        chain=ETHEREUM,
        first=Height(first),
        last=Height(last),
        parent_hash=BlockHash("0x00"),
        top=Block(ETHEREUM, Height(last), BlockHash("0x01"), BlockHash("0x00"), UnixSeconds(0)),
        events=events,
        read=events,
        sends=send_rows(fake_network(), sends_alone({}, ())),
        movements=None,
        payments=AffectedKeys(),
        undecodable=(),
        copies=(CopyText("blocks", (), 0, bytes(size)),),
    )


def source(*fetchers: FetchChunk, first_blocks: int = 10, max_blocks: int = 10) -> ChunkSource:
    return ChunkSource(fetchers, first_blocks=first_blocks, max_blocks=max_blocks)


def ranges(chunks: list[Chunk]) -> list[tuple[int, int]]:
    return [(chunk.first, chunk.last) for chunk in chunks]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fetch, "_FIRST_PAUSE", 0.0)


def test_chunks_are_in_order():
    def slow_first(first: Height, last: Height) -> Chunk:
        time.sleep(0.05 if first == 1 else 0.0)
        return make_chunk(first, last)

    chunks = list(fetch_ahead(source(slow_first, slow_first), Height(1), Height(45)))
    assert ranges(chunks) == [(1, 10), (11, 20), (21, 30), (31, 40), (41, 45)]


def test_fetching_continues_during_commit():
    third = threading.Event()

    def read(first: Height, last: Height) -> Chunk:
        if first == 21:
            third.set()
        return make_chunk(first, last)

    chunks = fetch_ahead(source(read, read), Height(1), Height(100))
    next(chunks)
    assert third.wait(60), "nothing was fetched while the first chunk was in the writer's hands"
    chunks.close()


def test_fetcher_is_used_by_one_thread():
    inside, most = [0], [0]

    def alone(first: Height, last: Height) -> Chunk:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        time.sleep(0.002)
        inside[0] -= 1
        return make_chunk(first, last)

    assert len(list(fetch_ahead(source(alone), Height(1), Height(100)))) == 10
    assert most == [1]


@pytest.mark.parametrize(("size", "fewest"), [(0, 2), (100, 0)])
def test_waiting_chunks_are_bounded(monkeypatch: pytest.MonkeyPatch, size: int, fewest: int):
    """By number always; chunks that are too large are all committed before more are fetched."""
    monkeypatch.setattr(fetch, "MAX_WAITING_BYTES", 50)
    requests: list[int] = []
    fetches: list[Future[Any]] = []

    class Pool(ThreadPoolExecutor):
        def submit(self, *arguments: Any, **keywords: Any) -> Future[Any]:
            fetches.append(super().submit(*arguments, **keywords))
            return fetches[-1]

    monkeypatch.setattr(fetch, "ThreadPoolExecutor", Pool)

    def read(first: Height, last: Height) -> Chunk:
        requests.append(first)
        return make_chunk(first, last, size=size)

    waiting = []
    for taken, _ in enumerate(fetch_ahead(source(read, read), Height(1), Height(200)), 1):
        futures.wait(fetches)
        waiting.append(len(requests) - taken)
    assert max(waiting) <= 2
    assert min(waiting[:10]) == fewest
    assert sorted(requests) == list(range(1, 200, 10))


def test_too_wide_range_is_halved_in_order():
    def narrow(first: Height, last: Height) -> Chunk:
        if last - first >= 4 and first <= 20:
            raise RangeTooWide("no more than 4 blocks")
        return make_chunk(first, last)

    chunks = list(fetch_ahead(source(narrow, narrow), Height(1), Height(40)))
    got = ranges(chunks)
    assert [first for first, _ in got] == [1, *(last + 1 for _, last in got[:-1])]
    assert got[-1][1] == 40


def test_too_large_block_is_permanent_error():
    def never(first: Height, last: Height) -> Chunk:
        raise RangeTooWide("no")

    with pytest.raises(PermanentChainError, match="one block, 1, is too much: no"):
        list(fetch_ahead(source(never), Height(1), Height(4)))


@pytest.mark.parametrize(
    "error", [NodeUnavailable("down", retry_after=0.0), InconsistentAnswer("?")]
)
def test_retryable_error_is_retried(error: Exception):
    failures = [error] * 11

    def falters(first: Height, last: Height) -> Chunk:
        if failures:
            raise failures.pop()
        return make_chunk(first, last)

    assert ranges(list(fetch_ahead(source(falters), Height(1), Height(5)))) == [(1, 5)]


def test_retries_end_with_last_error():
    tries = []

    def down(first: Height, last: Height) -> Chunk:
        tries.append(first)
        raise NodeUnavailable("down")

    with pytest.raises(NodeUnavailable):
        list(fetch_ahead(source(down), Height(1), Height(5)))
    assert len(tries) == 12


def test_closing_ends_retries(monkeypatch: pytest.MonkeyPatch):
    """A node asks us to stay away for a minute, and somebody ends the backfill."""
    monkeypatch.setattr(fetch, "_MAX_PAUSE", 30.0)

    def busy(first: Height, last: Height) -> Chunk:
        if first == 1:
            return make_chunk(first, last)
        raise NodeUnavailable("busy", retry_after=30.0)

    chunks = fetch_ahead(source(busy), Height(1), Height(40))
    next(chunks)
    began = time.monotonic()
    chunks.close()
    assert time.monotonic() - began < 10


def test_permanent_error_is_not_retried():
    tries = []

    def wrong(first: Height, last: Height) -> Chunk:
        tries.append(first)
        raise WrongChain("another chain")

    with pytest.raises(WrongChain):
        list(fetch_ahead(source(wrong), Height(1), Height(5)))
    assert tries == [1]


@pytest.mark.parametrize(("events", "size"), [(1, 0), (0, 1)], ids=["events", "bytes"])
def test_range_size_follows_events_and_bytes(
    monkeypatch: pytest.MonkeyPatch, events: int, size: int
):
    target = 100
    monkeypatch.setattr(fetch, "CHUNK_EVENTS", target)
    monkeypatch.setattr(fetch, "CHUNK_BYTES", target)
    plan = RangePlanner(Height(1), Height(100_000), first_blocks=32, max_blocks=1_000)
    widths = []
    for found in (0, 0, 0, 0, 0, 0, target, 1_000 * target, 2 * target):
        planned = plan.take()
        assert planned is not None
        first, last = planned
        widths.append(last - first + 1)
        plan.learn(make_chunk(first, last, events=events * found, size=size * found))
    assert widths == [32, 64, 128, 256, 512, 1_000, 1_000, 1_000, 500]
    plan.halve(Height(1), Height(10), RangeTooWide("too wide"))
    planned = plan.take()
    assert planned is not None
    assert planned[1] - planned[0] + 1 == 5
