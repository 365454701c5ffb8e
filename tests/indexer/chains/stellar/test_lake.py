"""Ranges from a data lake equal those of the node that its ledgers came from."""

import dataclasses
import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
import zstandard
from stellar_sdk import scval, xdr

from devnet.stellar.rpc import Rpc
from devnet.stellar.server import DevnetServer
from indexer.chains import range_size
from indexer.chains.ports import ChainReader, Range
from indexer.chains.stellar import lake
from indexer.chains.stellar.lake import LakeReader
from indexer.chains.stellar.lake_store import LakeStore
from indexer.chains.stellar.reader import StellarReader
from indexer.config.networks import StellarChain
from indexer.errors import (
    ConfigurationError,
    InconsistentAnswer,
    NodeBehind,
    RangeTooWide,
    RetentionGap,
    WrongChain,
)
from tests.factories.object_stores import serving_objects
from tests.factories.recorded_ledgers import RecordedLedgers
from tests.factories.sdk_ledgers import parse_meta
from tests.factories.stellar_lake import (
    DEVNET,
    FIRST,
    batch_of,
    compressed,
    history,
    history_metas,
    name_of,
    recorded_raws,
    watched_accounts,
    write_lake,
)
from tests.factories.stellar_ledgers import LAKE_63092990
from tests.factories.stellar_recorded import PUBNET
from warehouse_schema.identifiers import Height

Open = Callable[..., LakeReader]


def h(height: int) -> Height:
    return Height(height)


LAST = h(FIRST - 1 + 44)


@pytest.fixture
def opened() -> Iterator[Open]:
    """Readers that are closed after the test."""
    readers: list[LakeReader] = []

    def open_(url: str, chain: StellarChain = DEVNET) -> LakeReader:
        readers.append(LakeReader(chain, LakeStore(url)))
        return readers[-1]

    yield open_
    for reader in readers:
        reader.close()


@pytest.fixture(scope="module")
def by_node() -> Range:
    """The whole history as the node's RPC gives it."""
    assert history().node.latest.sequence == LAST
    server = DevnetServer(Rpc(history().node), host="127.0.0.1", port=0, interval=None)
    thread = Thread(target=server.run)
    thread.start()
    reader = StellarReader(DEVNET, [f"http://127.0.0.1:{server.port}"])
    try:
        return reader.read(h(FIRST), LAST, watched_accounts())
    finally:
        reader.close()
        server.stop()
        thread.join()


@pytest.mark.parametrize(
    "layout",
    [
        {},
        {"per_partition": 64000},
        {"per_partition": 8, "suffix": "zstd"},
        {"per_batch": 5, "per_partition": 3},
        {"per_batch": 15},
    ],
    ids=str,
)
def test_lake_returns_the_ranges_of_the_node(
    layout: dict[str, Any], by_node: Range, tmp_path: Path, opened: Open
) -> None:
    reader = opened(write_lake(tmp_path, history_metas(), **layout))
    reader.check_identity()
    last = reader.head().height
    assert last > LAST - layout.get("per_batch", 1)
    given = reader.read(h(FIRST), last, watched_accounts())
    assert given.blocks == by_node.blocks[: len(given.blocks)]
    assert given.events == tuple(e for e in by_node.events if e.seen.height <= last)
    assert len(given.blocks) == last - FIRST + 1
    assert len(given.events) > 10


def test_lake_and_node_return_equal_ranges(by_node: Range, tmp_path: Path, opened: Open) -> None:
    reader: ChainReader = opened(write_lake(tmp_path, history_metas(), per_batch=4))
    for first, last in ((2, 2), (3, 9), (4, 7), (9, 12), (24, 40), (5, 30), (2, 43)):
        given = reader.read(h(first), h(last), watched_accounts())
        assert given.blocks == by_node.blocks[first - FIRST : last - FIRST + 1]
        assert given.events == tuple(e for e in by_node.events if first <= e.seen.height <= last)
        assert reader.block(h(last)) == given.blocks[-1]


def test_too_many_events_of_several_ledgers_are_refused(
    by_node: Range, tmp_path: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = opened(write_lake(tmp_path, history_metas()))
    monkeypatch.setattr(range_size, "MAX_EVENTS", len(by_node.events))
    assert reader.read(h(FIRST), LAST, watched_accounts()) == by_node
    monkeypatch.setattr(range_size, "MAX_EVENTS", len(by_node.events) - 1)
    with pytest.raises(RangeTooWide):
        reader.read(h(FIRST), LAST, watched_accounts())
    monkeypatch.setattr(range_size, "MAX_EVENTS", 0)
    last = by_node.events[-1].seen.height
    assert reader.read(last, last, watched_accounts()).events


@pytest.mark.parametrize("kind", ["http", "s3"])
def test_lake_is_read_from_remote_storage(
    kind: str, by_node: Range, tmp_path: Path, opened: Open
) -> None:
    write_lake(tmp_path, history_metas(), per_batch=2, per_partition=4)
    with serving_objects(tmp_path) as server:
        reader = opened(getattr(server, kind))
        assert reader.head().height == LAST
        assert reader.read(h(FIRST), LAST, watched_accounts()) == by_node
        with pytest.raises(NodeBehind):
            reader.read(LAST, h(LAST + 1), [])


def test_only_matching_ledgers_are_decoded(tmp_path: Path, opened: Open) -> None:
    reader = opened(write_lake(tmp_path, history_metas()))
    reader.read(h(FIRST), h(20), [])
    reader.read(h(21), LAST, [])
    assert reader.counts.ledgers == LAST - FIRST + 1
    assert 0 < reader.counts.hits < 10


def test_pubnet_ledgers_are_read_as_recorded(tmp_path: Path, opened: Open) -> None:
    recorded = RecordedLedgers(PUBNET, [LAKE_63092990])
    everything = recorded.ledger(h(63092990)).events
    chain = dataclasses.replace(PUBNET, escrow=everything[-1].contract)
    watched = [
        scval.from_address(xdr.SCVal.from_xdr_bytes(event.topics[1])).address
        for event in everything
        if event.contract == PUBNET.usdc_contract and len(event.topics) == 4
    ]
    raws = [recorded_raws()[63092990]]
    url = write_lake(
        tmp_path, raws, first=63092990, per_partition=64000, passphrase=PUBNET.passphrase
    )
    given = opened(url, chain).read(h(63092990), h(63092990), watched)
    expected = RecordedLedgers(chain, [LAKE_63092990]).read(h(63092990), h(63092990), watched)
    assert given == expected
    assert len(given.events) > 5


# Where a lake ends, and what is missing in it.


def test_missing_lake_ledger_is_gap_or_behind(tmp_path: Path, opened: Open) -> None:
    reader = opened(write_lake(tmp_path, history_metas()[:20]))
    with pytest.raises(NodeBehind, match=r"ends at 21, before 22"):
        reader.read(h(20), h(22), [])
    (tmp_path / name_of(10, 10, 1, 1)).unlink()
    with pytest.raises(RetentionGap, match="goes on to 21"):
        reader.read(h(8), h(12), [])
    with pytest.raises(RetentionGap):
        reader.block(h(10))


def test_empty_lake_is_behind(tmp_path: Path, opened: Open) -> None:
    reader = opened(write_lake(tmp_path, []))
    with pytest.raises(NodeBehind, match="no ledger yet"):
        reader.head()
    with pytest.raises(NodeBehind):
        reader.read(h(FIRST), h(FIRST), [])


@pytest.mark.parametrize("kind", ["file", "http", "s3"])
def test_head_moves_as_the_lake_grows(kind: str, tmp_path: Path, opened: Open) -> None:
    write_lake(tmp_path, history_metas()[:3], per_partition=8)
    with serving_objects(tmp_path) as server:
        reader = opened(tmp_path.as_uri() if kind == "file" else getattr(server, kind))
        assert reader.head().height == 4
        assert reader.wait_for_head(h(4), timeout=0) is None
        write_lake(tmp_path, history_metas()[:31], per_partition=8)
        head = reader.wait_for_head(h(4), timeout=0)
        assert head is not None
        assert head.height == 32


def test_new_head_is_waited_for(
    tmp_path: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = opened(write_lake(tmp_path, history_metas()[:3]))
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        write_lake(tmp_path, history_metas()[:5])

    clock = SimpleNamespace(sleep=sleep, monotonic=time.monotonic)
    monkeypatch.setattr("indexer.chains.stellar.lake.time", clock)
    head = reader.wait_for_head(h(4), timeout=60)
    assert head is not None
    assert (head.height, slept) == (6, [1.0])


# What a lake says of itself.


def test_lake_of_another_network_is_refused(tmp_path: Path, opened: Open) -> None:
    reader = opened(write_lake(tmp_path, history_metas(), passphrase=PUBNET.passphrase))
    with pytest.raises(WrongChain, match="Public Global"):
        reader.check_identity()
    with pytest.raises(WrongChain):
        reader.read(h(2), h(2), [])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"compression": "gzip"}, "only zstd"),
        ({"ledgersPerBatch": 0}, "not numbers from 1"),
        ({"ledgersPerBatch": True}, "not numbers from 1"),
        ({"batchesPerPartition": "8"}, "not numbers from 1"),
    ],
)
def test_unsupported_configuration_is_refused(
    change: dict[str, Any], words: str, tmp_path: Path, opened: Open
) -> None:
    url = write_lake(tmp_path, history_metas()[:1])
    file = tmp_path / ".config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(ConfigurationError, match=words):
        opened(url).check_identity()


@pytest.mark.parametrize("text", ["", "[]", "{}"])
def test_incomplete_configuration_is_refused(text: str, tmp_path: Path, opened: Open) -> None:
    url = write_lake(tmp_path, history_metas()[:1])
    (tmp_path / ".config.json").write_text(text)
    with pytest.raises(ConfigurationError, match=r"\.config\.json of file"):
        opened(url).check_identity()


def test_old_lake_is_read_by_layout_in_url(by_node: Range, tmp_path: Path, opened: Open) -> None:
    url = write_lake(tmp_path, history_metas(), per_partition=10, suffix="zstd", configured=False)
    with pytest.raises(ConfigurationError, match="behind its URL"):
        opened(url).check_identity()
    reader = opened(url + "?ledgers_per_batch=1&batches_per_partition=10")
    reader.check_identity()
    assert reader.read(h(FIRST), LAST, watched_accounts()) == by_node


def test_hit_proves_network_without_configuration(tmp_path: Path, opened: Open) -> None:
    url = write_lake(tmp_path, history_metas(), configured=False)
    other = dataclasses.replace(DEVNET, passphrase="another network")
    reader = opened(url + "?ledgers_per_batch=1&batches_per_partition=1", other)
    with pytest.raises(InconsistentAnswer, match="not those of its transactions"):
        reader.read(h(FIRST), LAST, [])


# Objects that must not be believed.


def _object(tmp_path: Path, content: bytes) -> None:
    (tmp_path / name_of(5, 5, 1, 1)).write_bytes(content)


OBJECTS: dict[str, Callable[[bytes], bytes]] = {
    "no zstd": lambda raw: b"no zstd at all",
    "nothing": lambda raw: b"",
    "cut short": lambda raw: compressed(batch_of([raw], 5))[:-9],
    "without its checksum": lambda raw: compressed(batch_of([raw], 5))[:-4],
    "with another checksum": lambda raw: compressed(batch_of([raw], 5))[:-4] + bytes(4),
    "cut short after saying how long it is": lambda raw: zstandard.compress(batch_of([raw], 5))[
        :-9
    ],
    "with more behind": lambda raw: compressed(batch_of([raw], 5)) + compressed(b"more"),
    "another ledger": lambda raw: compressed(batch_of([history_metas()[4]], 6)),
    "two ledgers": lambda raw: compressed(batch_of(history_metas()[3:5], 5)),
    "a number that is not the ledger's": lambda raw: compressed(batch_of([raw], 6)),
    "no ledger": lambda raw: compressed(batch_of([], 5)),
    "a broken header": lambda raw: compressed(batch_of([raw[:100] + b"\1" + raw[101:]], 5)),
}


@pytest.mark.parametrize("content", OBJECTS.values(), ids=OBJECTS)
def test_object_with_wrong_ledgers_is_refused(
    content: Callable[[bytes], bytes], tmp_path: Path, opened: Open
) -> None:
    reader = opened(write_lake(tmp_path, history_metas()[:9]))
    _object(tmp_path, content(history_metas()[3]))
    with pytest.raises(InconsistentAnswer):
        reader.read(h(2), h(9), [])
    write_lake(tmp_path, history_metas()[:9])
    assert len(reader.read(h(2), h(9), []).blocks) == 8


def test_object_over_the_size_limit_is_refused(
    tmp_path: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake, "_MAX_LEDGER", 100_000)
    reader = opened(write_lake(tmp_path, history_metas()[:9]))
    for said in (True, False):
        writer = zstandard.ZstdCompressor(write_content_size=said)
        _object(tmp_path, writer.compress(bytes(10_000_000)))
        with pytest.raises(InconsistentAnswer, match="larger than 100000 bytes"):
            reader.block(h(5))


def test_unlinked_ledgers_are_refused(tmp_path: Path, opened: Open) -> None:
    url = write_lake(tmp_path, history_metas()[:9])
    meta = parse_meta(history_metas()[3])
    assert meta.v2 is not None
    entry = meta.v2.ledger_header
    entry.header.previous_ledger_hash = xdr.Hash(bytes(32))
    entry.hash = xdr.Hash(sha256(entry.header.to_xdr_bytes()).digest())
    _object(tmp_path, compressed(batch_of([meta.to_xdr_bytes()], 5)))
    with pytest.raises(InconsistentAnswer, match="5 does not follow 4"):
        opened(url).read(h(2), h(9), [])


def _hit() -> tuple[int, bytes]:
    """A ledger with an event of ours, which is small."""
    for height, raw in reversed(list(enumerate(history_metas(), start=FIRST))):
        if any(row.contract == DEVNET.escrow for row in history().node.ledger(height).events):
            return height, raw
    raise AssertionError("no ledger has an event of the escrow")


def test_tampered_hit_is_refused(tmp_path: Path, opened: Open) -> None:
    height, raw = _hit()
    url = write_lake(tmp_path, history_metas())
    meta = parse_meta(raw)
    assert meta.v2 is not None
    meta.v2.tx_processing[0].result.result.fee_charged = xdr.Int64(1)
    path = tmp_path / name_of(height, height, 1, 1)
    path.write_bytes(compressed(batch_of([meta.to_xdr_bytes()], height)))
    with pytest.raises(InconsistentAnswer, match="results"):
        opened(url).read(h(FIRST), LAST, [])


# Ledgers that cannot be decoded.


def _unknown_arm(raw: bytes) -> bytes:
    """The ledger with an arm behind its transactions that no protocol knows yet."""
    at = raw.index(b"\0\0\0\4", 2000)
    return raw[:at] + b"\0\0\0\x63" + raw[at + 4 :]


def _put(tmp_path: Path, height: int, raw: bytes) -> None:
    path = tmp_path / name_of(height, height, 1, 1)
    path.write_bytes(compressed(batch_of([raw], height)))


def test_undecodable_ledger_is_returned_unread(
    by_node: Range, tmp_path: Path, opened: Open
) -> None:
    height, raw = _hit()
    reader = opened(write_lake(tmp_path, history_metas()))
    _put(tmp_path, height, _unknown_arm(raw))
    given = reader.read(h(FIRST), LAST, watched_accounts())
    assert given.blocks == by_node.blocks
    assert given.events == tuple(e for e in by_node.events if e.seen.height != height)
    (unread,) = given.unread
    assert unread.block == by_node.blocks[height - FIRST]
    assert (unread.raw, unread.source) == (_unknown_arm(raw), tmp_path.as_uri())
    assert f"ledger {height} cannot be decoded" in unread.reason
    assert reader.counts.unread == 1


def test_unread_ledger_is_fetched_again(by_node: Range, tmp_path: Path, opened: Open) -> None:
    height, raw = _hit()
    reader = opened(write_lake(tmp_path, history_metas()))
    for damaged in (_unknown_arm(raw), raw[:1000], raw[:1500] + b"\1" + raw[1501:]):
        _put(tmp_path, height, damaged)
        with suppress(InconsistentAnswer):
            reader.read(h(height), h(height), [])
    _put(tmp_path, height, raw)
    given = reader.read(h(height), h(height), watched_accounts())
    assert given.events == tuple(e for e in by_node.events if e.seen.height == height)


def test_removed_transactions_are_detected(tmp_path: Path, opened: Open) -> None:
    """A ledger without events of ours needs a proof that it has none."""
    height, raw = _hit()
    empty = parse_meta(history_metas()[12])
    hit = parse_meta(raw)
    assert hit.v2 is not None
    assert empty.v2 is not None
    assert not empty.v2.tx_processing
    empty.v2.ledger_header = hit.v2.ledger_header
    url = write_lake(tmp_path, history_metas())
    _put(tmp_path, height, empty.to_xdr_bytes())
    with pytest.raises(InconsistentAnswer, match=f"{tmp_path.as_uri()}: ledger {height}: its tran"):
        opened(url).read(h(FIRST), LAST, [])


def test_close_ends_the_threads(tmp_path: Path) -> None:
    reader = LakeReader(DEVNET, LakeStore(write_lake(tmp_path, history_metas()[:5])))
    reader.block(h(3))
    reader.close()
    with pytest.raises(RuntimeError):
        reader.read(h(4), h(5), [])
