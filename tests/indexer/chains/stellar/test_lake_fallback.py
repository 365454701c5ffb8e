"""Gap repair from a lake after the node's retention window."""

import dataclasses
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from sqlalchemy import URL, Engine

from devnet.stellar.rpc import Rpc
from devnet.stellar.server import DevnetServer
from indexer.chains.ports import Block, ChainReader, Range
from indexer.chains.stellar.lake import LakeReader
from indexer.chains.stellar.lake_fallback import LakeFallbackReader
from indexer.chains.stellar.lake_store import LakeStore
from indexer.chains.stellar.reader import StellarReader
from indexer.chains.watchlist import Watched
from indexer.config.networks import load_network
from indexer.errors import (
    InconsistentAnswer,
    NodeBehind,
    NodeUnavailable,
    RetentionGap,
    WrongChain,
)
from indexer.facts.checks import block_faults
from indexer.ingest.ranges import RangeProgress
from tests.factories.contents import contents
from tests.factories.ingesting import ingest_once
from tests.factories.stellar_lake import (
    DEVNET,
    FIRST,
    history,
    history_metas,
    watched_accounts,
    write_lake,
)
from tests.factories.stellar_recorded import PUBNET
from warehouse_schema.engine import make_engine
from warehouse_schema.identifiers import BlockHash, Height

LAST = Height(FIRST + 43)
NETWORK = dataclasses.replace(
    load_network("devnet"),
    stellar=dataclasses.replace(DEVNET, watched=tuple(watched_accounts())),
)


def h(height: int) -> Height:
    return Height(height)


@contextmanager
def _node(retention: int) -> Iterator[StellarReader]:
    """The devnet's RPC, which remembers so many ledgers, 0 for all."""
    rpc = Rpc(history().node, retention=retention)
    server = DevnetServer(rpc, host="127.0.0.1", port=0, interval=None)
    thread = Thread(target=server.run)
    thread.start()
    reader = StellarReader(NETWORK.stellar, [f"http://127.0.0.1:{server.port}"])
    try:
        yield reader
    finally:
        reader.close()
        server.stop()
        thread.join()


@pytest.fixture
def lake(tmp_path: Path) -> Callable[..., LakeReader]:
    def make(metas: Sequence[bytes] | None = None, **layout: Any) -> LakeReader:
        url = write_lake(tmp_path, history_metas() if metas is None else metas, **layout)
        return LakeReader(NETWORK.stellar, LakeStore(url))

    return make


def _drained(engine: Engine, reader: ChainReader, max_blocks: int) -> list[RangeProgress]:
    done = []
    while (progress := ingest_once(engine, reader, NETWORK, max_blocks=max_blocks)) is not None:
        done.append(progress)
    return done


@pytest.fixture
def second_engine(clone: Callable[[], URL]) -> Iterator[Engine]:
    engine = make_engine(clone(), role="indexer")
    yield engine
    engine.dispose()


@pytest.mark.parametrize(("retention", "max_blocks"), [(7, 10), (20, 6), (1, 200)])
def test_gap_repair_gives_the_same_database(
    retention: int,
    max_blocks: int,
    indexer_engine: Engine,
    second_engine: Engine,
    lake: Callable[..., LakeReader],
) -> None:
    with _node(0) as full:
        _drained(second_engine, full, max_blocks)
    with _node(retention) as forgetful:
        with pytest.raises(RetentionGap):
            ingest_once(indexer_engine, forgetful, NETWORK)
        healed = lake()
        reader = LakeFallbackReader(forgetful, healed)
        reader.check_identity()
        done = _drained(indexer_engine, reader, max_blocks)
        reader.close()
    assert done[-1].height == LAST
    found = contents(indexer_engine)
    assert found == contents(second_engine)
    filled = {name.partition(".")[2] for name, rows in found.items() if rows}
    assert {"blocks", "stellar_events", "oft_sent", "asset_movements", "cursors"} <= filled
    assert block_faults(indexer_engine, DEVNET.id) == []
    # Back on the node as soon as its window is reached.
    assert LAST - retention <= healed.counts.ledgers + 1 < LAST - retention + max_blocks + 1


def test_node_with_history_uses_no_lake(lake: Callable[..., LakeReader]) -> None:
    healed = lake()
    with _node(10) as node:
        reader = LakeFallbackReader(node, healed)
        given = reader.read(h(LAST - 5), LAST, [])
        assert reader.head() == given.blocks[-1] == reader.block(LAST)
        assert reader.wait_for_head(h(2), 0) == reader.head()
    reader.close()
    assert (len(given.blocks), healed.counts.ledgers) == (6, 0)


def test_lake_fallback_is_logged(
    lake: Callable[..., LakeReader], caplog: pytest.LogCaptureFixture
) -> None:
    with _node(10) as node, caplog.at_level(logging.WARNING):
        reader = LakeFallbackReader(node, lake())
        assert reader.block(h(5)).height == 5
        reader.read(h(5), h(9), [])
        reader.close()
    assert "reading header from lake chain=stellar:devnet height=5" in caplog.text
    assert "reading from lake chain=stellar:devnet from=5 to=9" in caplog.text


def test_range_joins_lake_and_node(lake: Callable[..., LakeReader]) -> None:
    with _node(0) as full:
        whole = full.read(h(FIRST), LAST, watched_accounts())
    with _node(20) as node:
        reader = LakeFallbackReader(node, lake(history_metas()[:30]))
        assert reader.read(h(FIRST), LAST, watched_accounts()) == whole
        reader.close()


@pytest.mark.parametrize("length", [3, 10])
def test_lake_ending_before_window_is_behind(length: int, lake: Callable[..., LakeReader]) -> None:
    with _node(5) as node:
        reader = LakeFallbackReader(node, lake(history_metas()[:length]))
        with pytest.raises(NodeBehind, match="the lake ends at"):
            reader.read(h(8), h(20), [])
        with pytest.raises(NodeBehind):
            reader.block(h(30))
        reader.close()


def test_gap_in_node_and_lake_is_a_gap(tmp_path: Path, lake: Callable[..., LakeReader]) -> None:
    healed = lake()
    next(tmp_path.glob("*--9.xdr.zst")).unlink()
    with _node(5) as node:
        reader = LakeFallbackReader(node, healed)
        with pytest.raises(RetentionGap, match="goes on to"):
            reader.read(h(8), h(20), [])
        reader.close()


class _Other:
    """A chain of other ledgers, from some height on."""

    chain = DEVNET.id

    def read(self, first: Height, last: Height, watched: Watched) -> Range:
        if first <= 30:
            raise RetentionGap("gone")
        with _node(0) as node:
            given = node.read(first, last, watched)
        forged = dataclasses.replace(given.blocks[0], parent_hash=BlockHash("ab" * 32))
        return Range((forged, *given.blocks[1:]), given.events)

    def head(self) -> Block:
        raise NotImplementedError

    def check_identity(self) -> None:
        raise WrongChain("another")

    block = wait_for_head = close = head


def test_node_that_forks_from_lake_is_inconsistent(
    lake: Callable[..., LakeReader],
) -> None:
    healed = lake(history_metas()[:30])
    reader = LakeFallbackReader(_Other(), healed)  # type: ignore[arg-type]
    with pytest.raises(InconsistentAnswer, match="differ at 31"):
        reader.read(h(20), h(40), [])
    healed.close()


def test_node_and_lake_must_be_of_our_network(
    tmp_path: Path, lake: Callable[..., LakeReader]
) -> None:
    healed = lake()
    with pytest.raises(WrongChain):
        LakeFallbackReader(_Other(), healed).check_identity()  # type: ignore[arg-type]
    healed.close()
    with _node(5) as node:
        reader = LakeFallbackReader(node, lake(passphrase=PUBNET.passphrase))
        with pytest.raises(WrongChain):
            reader.check_identity()
        reader.close()


def test_unavailable_lake_does_not_stop_the_node(
    lake: Callable[..., LakeReader],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    healed = lake()

    def fail() -> None:
        raise NodeUnavailable("the lake is down")

    monkeypatch.setattr(healed, "check_identity", fail)
    with _node(5) as node, caplog.at_level(logging.WARNING):
        reader = LakeFallbackReader(node, healed)
        reader.check_identity()
        reader.close()
    assert "lake unavailable chain=" in caplog.text


def test_lake_of_other_chain_is_refused(lake: Callable[..., LakeReader]) -> None:
    healed = lake()
    with _node(5) as node:
        other = StellarReader(PUBNET, ["http://127.0.0.1:1"])
        with pytest.raises(ValueError, match="does not match"):
            LakeFallbackReader(other, healed)
        other.close()
        assert node.chain == healed.chain
    healed.close()
