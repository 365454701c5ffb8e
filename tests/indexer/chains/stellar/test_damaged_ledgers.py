"""Ledgers with random damage in their XDR, from a lake and by RPC.

Allowed results: equal facts; an event marked undecodable; a ledger without its events, for
quarantine; an error that names the source.
"""

import base64
import dataclasses
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL, Engine, func, select, text
from stellar_sdk import StrKey

from indexer.chains.ports import ChainReader, Range
from indexer.chains.raw import Block, StellarEvent
from indexer.chains.stellar.lake import LakeReader
from indexer.chains.stellar.lake_store import LakeStore
from indexer.chains.stellar.reader import StellarReader
from indexer.chains.watchlist import Watched
from indexer.errors import PermanentChainError, RetryableChainError
from indexer.facts import quarantine
from indexer.facts.alarms import open_alarms
from indexer.facts.checks import block_faults
from indexer.ingest.quarantine import retry
from indexer.ingest.rebuild import differences
from tests.factories.damage import damaged
from tests.factories.ingesting import ingest_once
from tests.factories.quarantine import drained, history, mended, network
from tests.factories.sdk_ledgers import closed_ledger, invocation_hash, parse_meta
from tests.factories.stellar_lake import (
    DEVNET,
    FIRST,
    batch_of,
    compressed,
    history_metas,
    name_of,
    watched_accounts,
    write_lake,
)
from tests.factories.stellar_node import FakeStellarNode, serving
from warehouse_schema.engine import make_engine
from warehouse_schema.facts import stellar_events
from warehouse_schema.identifiers import Height
from warehouse_schema.metadata import LOCKS, metadata

ROUNDS = 300


def h(height: int) -> Height:
    return Height(height)


def put(folder: Path, height: int, raw: bytes) -> None:
    """Into a lake, in an object that is in order."""
    (folder / name_of(height, height, 1, 1)).write_bytes(compressed(batch_of([raw], height)))


def outcome_of(error: Exception, source: str) -> str:
    """The kind of an error, which must name where the damage was read."""
    assert source in str(error)
    return type(error).__name__


# From a lake


class Lake:
    """The devnet's history in a lake, and what is in each ledger of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.reader = LakeReader(DEVNET, LakeStore(write_lake(folder, history_metas())))
        self.sound = {
            height: self.reader.read(h(height), h(height), watched_accounts())
            for height in range(FIRST, FIRST + len(history_metas()))
        }

    def outcome(self, height: int, raw: bytes) -> str:
        """What comes of a ledger when its bytes are these; none of it may be silent."""
        put(self.folder, height, raw)
        sound = self.sound[height]
        try:
            given = self.reader.read(h(height), h(height), watched_accounts())
        except (RetryableChainError, PermanentChainError) as error:
            return outcome_of(error, self.folder.as_uri())
        finally:
            put(self.folder, height, history_metas()[height - FIRST])
        assert given.blocks == sound.blocks
        if given.unread:
            (unread,) = given.unread
            assert (unread.raw, unread.block, given.events) == (raw, sound.blocks[0], ())
            return "quarantined"
        assert self._proven(height, given) == self._proven(height, sound)
        return "the same" if given.events == sound.events else "otherwise, where nothing is proven"

    def _proven(self, height: int, given: Range) -> list[Any]:
        """What contracts emitted when they were called: their results hash to it."""
        applied = closed_ledger(parse_meta(history_metas()[height - FIRST])).tx_processing
        called = {
            each.result.transaction_hash.hash.hex()
            for each in applied
            if invocation_hash(each.result.result) is not None
        }
        return [event for event in given.events if event.seen.tx_hash in called]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    lake = Lake(tmp_path_factory.mktemp("lake"))
    yield lake
    lake.reader.close()


@pytest.mark.parametrize("seed", range(2))
def test_damaged_lake_ledger_is_equal_or_refused(seed: int, lake: Lake) -> None:
    dice = random.Random(seed)
    ours = [height for height, given in lake.sound.items() if given.events]
    found: Counter[str] = Counter()
    for _ in range(ROUNDS):
        height = dice.choice(ours if dice.random() < 0.8 else list(lake.sound))
        raw = history_metas()[height - FIRST]
        found[lake.outcome(height, damaged(raw, dice))] += 1
    assert found.keys() >= {"the same", "quarantined", "InconsistentAnswer"}
    # Movements by classic operations, which no header commits to: there the lake is trusted.
    assert found["otherwise, where nothing is proven"] < ROUNDS / 8


def test_damaged_header_is_refused(lake: Lake) -> None:
    dice = random.Random(1)
    header = 472
    for _ in range(100):
        height = dice.choice(list(lake.sound))
        raw = history_metas()[height - FIRST]
        outcome = lake.outcome(height, damaged(raw[:header], dice) + raw[header:])
        assert outcome in ("InconsistentAnswer", "UnsupportedProtocol", "the same"), outcome


def test_missing_own_transaction_is_detected(lake: Lake) -> None:
    """Cut before the first byte that tells that something of ours is inside."""
    dice = random.Random(2)
    for height, given in lake.sound.items():
        if any(event.contract in DEVNET.event_contracts for event in given.events):
            raw = history_metas()[height - FIRST]
            keys = map(StrKey.decode_contract, DEVNET.event_contracts)
            first = min(at for at in map(raw.find, keys) if at > 0)
            for _ in range(10):
                cut = dice.randrange(480, first)
                assert lake.outcome(height, raw[:cut]) == "InconsistentAnswer"


def test_damaged_ledgers_give_the_same_warehouse(
    tmp_path: Path, indexer_engine: Engine, clone: Callable[[], URL]
) -> None:
    dice = random.Random(3)
    metas = history().metas
    reader = LakeReader(network().stellar, LakeStore(write_lake(tmp_path, metas)))
    second_engine = make_engine(clone(), role="indexer")
    drained(second_engine, reader)
    bad = {history().sent, history().terms, *history().deposits[:2]}
    for height in bad:
        raw = metas[height - FIRST]
        put(tmp_path, height, raw[: dice.randrange(len(raw) * 2 // 3, len(raw))])
    reader._last_batch = None
    assert drained(indexer_engine, reader) == len(bad)
    assert block_faults(indexer_engine, DEVNET.id) == []
    assert differences(indexer_engine, network()) == []
    write_lake(tmp_path, metas)
    with indexer_engine.connect() as conn:
        ledgers = quarantine.list_ledgers(conn)
    assert {ledger.height for ledger in ledgers} == bad
    assert all(trial.failure is None for trial in retry(indexer_engine, network(), ledgers, reader))
    assert mended(indexer_engine) == mended(second_engine)
    reader.close()
    second_engine.dispose()


# By RPC, which gives headers and events


@pytest.fixture
def node() -> Iterator[FakeStellarNode]:
    with serving(FakeStellarNode(latest=12)) as node:
        yield node


def test_damaged_rpc_header_is_equal_or_refused(node: FakeStellarNode) -> None:
    dice = random.Random(4)
    reader = StellarReader(DEVNET, [node.url])
    sound = reader.read(h(5), h(8), [])
    found: Counter[str] = Counter()

    def damage(_: Any, answer: Any) -> Any:
        page = answer()
        for record in page["ledgers"]:
            if record["sequence"] == 7:
                raw = base64.b64decode(record["headerXdr"])
                record["headerXdr"] = base64.b64encode(damaged(raw, dice)).decode()
        return page

    node.answer_with("getLedgers", damage)
    for _ in range(150):
        reader._headers.clear()
        try:
            assert reader.read(h(5), h(8), []) == sound
            found["the same"] += 1
        except (RetryableChainError, PermanentChainError) as error:
            found[outcome_of(error, node.url.removeprefix("http://"))] += 1
    reader.close()
    assert found["InconsistentAnswer"] > 100


class Damaged:
    """A reader whose events are of no shape that anybody promised, as an unproven source may."""

    def __init__(self, reader: ChainReader, seed: int) -> None:
        self.chain = reader.chain
        self._reader, self._dice = reader, random.Random(seed)
        self.given: list[StellarEvent] = []

    def head(self) -> Block:
        return self._reader.head()

    def read(self, first: Height, last: Height, watched: Watched) -> Range:
        sound = self._reader.read(first, last, watched)
        events = tuple(map(self._damaged, sound.events))
        self.given += events
        return dataclasses.replace(sound, events=events)

    def _damaged(self, event: Any) -> StellarEvent:
        topics, value = list(event.topics), event.value
        match self._dice.randrange(4):
            case 0:
                value = damaged(value, self._dice)
            case 1:
                place = self._dice.randrange(len(topics))
                topics[place] = damaged(topics[place], self._dice)
            case 2:
                topics = topics[: self._dice.randrange(len(topics))]
            case _:
                pass
        return dataclasses.replace(event, topics=tuple(topics), value=value)


def test_malformed_events_are_stored_undecodable(
    tmp_path: Path, indexer_engine: Engine, engine: Engine
) -> None:
    sound = LakeReader(network().stellar, LakeStore(write_lake(tmp_path, history().metas)))
    undecodable = 0
    for seed in range(12):
        reader = Damaged(sound, seed)
        while ingest_once(indexer_engine, reader, network()) is not None:  # type: ignore[arg-type]
            pass
        with indexer_engine.connect() as conn:
            stored = conn.scalar(select(func.count()).select_from(stellar_events))
            marked = [alarm for alarm in open_alarms(conn) if alarm.kind == "undecodable"]
        # Of the endpoint that all applications share, what names nobody of ours is nobody's.
        others = [event for event in reader.given if event.contract == DEVNET.lz_endpoint]
        assert len(reader.given) - len(others) <= (stored or 0) <= len(reader.given)
        undecodable += len(marked)
        assert differences(indexer_engine, network()) == []
        with engine.begin() as conn:
            written = [name for name, table in metadata.tables.items() if table.schema != LOCKS]
            conn.execute(text(f"TRUNCATE {', '.join(written)}"))
    sound.close()
    assert undecodable > 20
