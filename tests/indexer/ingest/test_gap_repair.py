"""Gap repair: a provider's sequence gap is closed by reading its ledgers again."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import URL, Engine

from indexer.chains.stellar.lake import LakeReader
from indexer.chains.stellar.lake_store import LakeStore
from indexer.facts.gaps import Gap, stale_gaps
from indexer.ingest.gap_repair import GapRepair, repair_gaps
from indexer.ingest.rebuild import differences
from tests.factories.forgetful import Forgetful
from tests.factories.ingesting import ingest_once
from tests.factories.quarantine import alarms, drained, history, mended, network
from tests.factories.stellar_lake import DEVNET, FIRST, write_lake
from warehouse_schema.engine import make_engine
from warehouse_schema.identifiers import Height


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[LakeReader]:
    reader = LakeReader(network().stellar, LakeStore(write_lake(tmp_path, history().metas)))
    yield reader
    reader.close()


@pytest.fixture
def straight(clone: Callable[[], URL], lake: LakeReader) -> Iterator[dict[str, list[str]]]:
    """What a reader that leaves nothing out fills a warehouse with."""
    engine = make_engine(clone(), role="indexer")
    drained(engine, lake)
    yield mended(engine)
    engine.dispose()


def found(engine: Engine) -> tuple[Gap, ...]:
    with engine.connect() as conn:
        return stale_gaps(conn, DEVNET.id)


def healed(engine: Engine, reader: LakeReader | Forgetful) -> GapRepair:
    return repair_gaps(engine, reader, network(), lambda _: None)


def test_no_gap_reads_nothing(indexer_engine: Engine, lake: LakeReader) -> None:
    drained(indexer_engine, lake)
    assert found(indexer_engine) == ()
    assert healed(indexer_engine, Forgetful(lake)) == GapRepair((), ())


def gap(first: int, last: int) -> Gap:
    return Gap(Height(first), Height(last), (history().provider,))


# What the node leaves out → between which ledgers that shows.

DEPOSITS = history().deposits
LOSSES: dict[str, tuple[list[Height], tuple[Gap, ...]]] = {
    "a deposit": ([DEPOSITS[1]], (gap(DEPOSITS[0], DEPOSITS[2]),)),
    "the first deposit": ([DEPOSITS[0]], (gap(FIRST, DEPOSITS[1]),)),
    "two deposits in a row": ([*DEPOSITS[:2]], (gap(FIRST, DEPOSITS[2]),)),
    "the terms": ([history().terms], (gap(FIRST, history().terms + 1),)),
    "the terms and a deposit": (
        [history().terms, DEPOSITS[1]],
        (gap(FIRST, history().terms + 1), gap(DEPOSITS[0], DEPOSITS[2])),
    ),
}


@pytest.mark.parametrize("lost", LOSSES)
def test_repaired_gap_lists_provider_again(
    lost: str, indexer_engine: Engine, lake: LakeReader, straight: dict[str, list[str]]
) -> None:
    heights, gaps = LOSSES[lost]
    drained(indexer_engine, Forgetful(lake, *heights))
    assert ("sequence_gap", history().provider) in alarms(indexer_engine)
    assert found(indexer_engine) == gaps
    assert healed(indexer_engine, lake) == GapRepair(gaps, ())
    assert found(indexer_engine) == ()
    assert alarms(indexer_engine) == []
    assert differences(indexer_engine, network()) == []
    assert mended(indexer_engine) == straight


def test_incomplete_source_is_reported(
    indexer_engine: Engine, lake: LakeReader, straight: dict[str, list[str]]
) -> None:
    node = Forgetful(lake, DEPOSITS[1])
    drained(indexer_engine, node)
    healing = healed(indexer_engine, node)
    assert healing == GapRepair((), (gap(DEPOSITS[0], DEPOSITS[2]),))
    assert str(healing).endswith("is there still: its source left the same out")
    assert alarms(indexer_engine) == [("sequence_gap", history().provider)]
    node.leaves_out.clear()
    assert healed(indexer_engine, node) == GapRepair(healing.remaining, ())
    assert mended(indexer_engine) == straight


def test_chain_continues_during_gap(
    indexer_engine: Engine, lake: LakeReader, straight: dict[str, list[str]]
) -> None:
    forgetful = Forgetful(lake, DEPOSITS[0])
    while found(indexer_engine) == ():
        assert ingest_once(indexer_engine, forgetful, network(), max_blocks=1)
    assert healed(indexer_engine, lake).remaining == ()
    drained(indexer_engine, forgetful)
    assert mended(indexer_engine) == straight
