import base64
import dataclasses
import gzip
from pathlib import Path

import pytest
import zstandard
from stellar_sdk import scval, xdr

from indexer.chains.ports import ChainReader
from indexer.chains.stellar.xdr.ledgers import LedgerProof, block_of_meta
from indexer.errors import (
    ConfigurationError,
    InconsistentAnswer,
    NodeBehind,
    RetentionGap,
)
from tests.factories.recorded_ledgers import RecordedLedgers, recorded_ledgers
from tests.factories.stellar_lake import FIRST, batch_of, history_metas
from tests.factories.stellar_ledgers import (
    BATCH_53312000,
    FILES,
    HEIGHTS,
    LAKE_63092988,
    LAKE_63092990,
    LINES,
)
from tests.factories.stellar_recorded import PUBNET, TESTNET
from warehouse_schema.identifiers import Height


def h(height: int) -> Height:
    return Height(height)


@pytest.fixture(scope="module")
def lake() -> RecordedLedgers:
    return RecordedLedgers(PUBNET, [LAKE_63092988, LAKE_63092990])


def _heights(path: Path) -> list[int]:
    return [block_of_meta(raw, PUBNET.id).height for raw in recorded_ledgers(path)]


def test_every_kind_of_file_is_read() -> None:
    assert _heights(LAKE_63092988) == [63092988]
    assert _heights(BATCH_53312000) == [53312000]
    assert _heights(LINES) == [6154623, 16154623, 26154623, 46154623, 36154623]


def test_ledger_is_equal_in_every_kind_of_file(tmp_path: Path) -> None:
    raw = list(recorded_ledgers(LINES))[1]
    files = {
        "one.xdr": raw,
        "one.xdr.gz": gzip.compress(raw, mtime=0),
        "one.xdr.zst": zstandard.compress(batch_of([raw], 16154623)),
        "one.xdr.zstd": zstandard.compress(batch_of([raw], 16154623)),
        "one.txt": base64.b64encode(raw) + b"\n",
        "one.txt.gz": gzip.compress(base64.b64encode(raw)),
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        assert set(recorded_ledgers(tmp_path / name)) == {raw}


def test_batch_gives_each_of_its_ledgers(tmp_path: Path) -> None:
    metas = history_metas()
    (tmp_path / "all.xdr.zst").write_bytes(zstandard.compress(batch_of(metas, FIRST)))
    assert list(recorded_ledgers(tmp_path / "all.xdr.zst")) == list(metas)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", b"{}"),
        ("a.xdr.gz", b"not gzip"),
        ("a.xdr.gz", gzip.compress(b"long enough to be cut", mtime=0)[:-9]),
        ("a.xdr.zst", b"not zstd"),
        ("a.xdr.zst", zstandard.compress(b"\0" * 8 + b"\0\0\0\2")),
        # The second ledger is not the one after the first.
        ("a.xdr.zst", zstandard.compress(batch_of([history_metas()[0]] * 2, FIRST))),
        ("a.txt", b"?"),
        ("a.txt.gz", gzip.compress(b"AAA", mtime=0)),
    ],
)
def test_unreadable_file_is_named(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigurationError, match=name):
        list(recorded_ledgers(tmp_path / name))


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"gone\.xdr"):
        list(recorded_ledgers(tmp_path / "gone.xdr"))


def test_recording_needs_ledgers() -> None:
    with pytest.raises(ConfigurationError, match="no recorded ledgers"):
        RecordedLedgers(PUBNET, [])


def test_recording_knows_its_ledgers() -> None:
    reader: ChainReader = RecordedLedgers(PUBNET, FILES)
    assert isinstance(reader, RecordedLedgers)
    assert reader.heights == HEIGHTS
    assert reader.head().height == 63092990
    assert reader.block(h(36154623)).protocol_version == 17


def test_ledgers_of_another_network_do_not_decode() -> None:
    with pytest.raises(InconsistentAnswer, match="results are not those"):
        RecordedLedgers(TESTNET, [LINES]).ledger(h(16154623))


def test_ledger_holds_every_contract_event(lake: RecordedLedgers) -> None:
    ledger = lake.ledger(h(63092990))
    assert (len(ledger.events), len(ledger.failed_fees)) == (504, 132)
    assert lake.ledger(h(63092990)) is ledger


def test_ledger_has_the_proof_of_its_header(lake: RecordedLedgers) -> None:
    assert lake.proof(h(63092990)) == LedgerProof(invocations=6, unproven=())
    with pytest.raises(NodeBehind):
        lake.proof(h(63092991))


def test_range_holds_only_our_events(lake: RecordedLedgers) -> None:
    chain = dataclasses.replace(PUBNET, escrow=lake.ledger(h(63092990)).events[-1].contract)
    reader = RecordedLedgers(chain, [LAKE_63092990])
    everything = reader.ledger(h(63092990)).events
    given = reader.read(h(63092990), h(63092990), [])
    assert [block.height for block in given.blocks] == [63092990]
    assert list(given.events) == [e for e in everything if e.contract == chain.escrow]
    assert given.events != ()


def test_range_holds_movements_of_watched_accounts(lake: RecordedLedgers) -> None:
    transfers = [
        event
        for event in lake.ledger(h(63092990)).events
        if event.contract == PUBNET.usdc_contract and len(event.topics) == 4
    ]
    sender = xdr.SCVal.from_xdr_bytes(transfers[0].topics[1])
    account = scval.from_address(sender).address
    named = sender.to_xdr_bytes()
    given = lake.read(h(63092990), h(63092990), [account])
    assert list(given.events) == [event for event in transfers if named in event.topics[1:3]]
    assert 0 < len(given.events) < len(transfers)
    assert lake.read(h(63092990), h(63092990), []).events == ()


def test_unrecorded_ledger_is_gap_or_behind(lake: RecordedLedgers) -> None:
    with pytest.raises(RetentionGap, match="63092989"):
        lake.read(h(63092988), h(63092990), [])
    with pytest.raises(RetentionGap, match="63092989"):
        lake.block(h(63092989))
    with pytest.raises(NodeBehind, match="63092991"):
        lake.block(h(63092991))


def test_recording_does_not_grow(lake: RecordedLedgers) -> None:
    assert lake.wait_for_head(h(63092990), 60) is None
    assert lake.wait_for_head(h(63092989), 0) == lake.head()
    lake.close()


def test_invalid_ledger_is_refused_when_read(tmp_path: Path) -> None:
    meta = xdr.LedgerCloseMeta.from_xdr_bytes(list(recorded_ledgers(LINES))[1])
    assert meta.v0 is not None
    meta.v0.tx_processing.reverse()
    (tmp_path / "forged.xdr").write_bytes(meta.to_xdr_bytes())
    reader = RecordedLedgers(PUBNET, [tmp_path / "forged.xdr"])
    with pytest.raises(InconsistentAnswer, match="results"):
        reader.read(h(16154623), h(16154623), [])
