"""A backfill replaces a range below finality and joins the followed blocks."""

import pytest
from sqlalchemy import Engine, select

from indexer.errors import ConfigurationError, InconsistentAnswer
from indexer.facts.checks import block_faults
from indexer.ingest.backfill import BackfillProgress, backfill
from indexer.ingest.rebuild import differences
from tests.factories.fake_chain import ETHEREUM, FakeChain, fake_network
from tests.factories.ingesting import ingest_once
from warehouse_schema.events import oft_sent
from warehouse_schema.facts import blocks
from warehouse_schema.identifiers import Height
from warehouse_schema.projections import movements

LATE_START = fake_network(confirmations=4, start_height=20)


def make_followed_chain(engine: Engine) -> FakeChain:
    """A chain of 30 blocks that is followed from block 20 on."""
    chain = FakeChain(LATE_START)
    chain.grow(30)
    ingest_once(engine, chain, LATE_START)
    return chain


def run(engine: Engine, chain: FakeChain, first: int, last: int) -> list[BackfillProgress]:
    done: list[BackfillProgress] = []
    backfill(engine, chain, LATE_START, Height(first), Height(last), done.append)
    return done


def heights(engine: Engine) -> list[int]:
    with engine.connect() as conn:
        return list(conn.scalars(select(blocks.c.height).order_by(blocks.c.height)))


def test_history_joins_followed_blocks(indexer_engine: Engine) -> None:
    chain = make_followed_chain(indexer_engine)
    (progress,) = run(indexer_engine, chain, 1, 19)
    assert (progress.committed, progress.events, progress.share) == (19, 19, 1.0)
    assert heights(indexer_engine) == [*range(1, 31)]
    assert block_faults(indexer_engine, ETHEREUM) == []
    assert differences(indexer_engine, LATE_START) == []


def test_repeated_backfill_changes_nothing(indexer_engine: Engine) -> None:
    chain = make_followed_chain(indexer_engine)
    run(indexer_engine, chain, 1, 19)
    with indexer_engine.connect() as conn:
        before = conn.execute(select(oft_sent).order_by(oft_sent.c.height)).all()
    run(indexer_engine, chain, 5, 24)
    with indexer_engine.connect() as conn:
        assert conn.execute(select(oft_sent).order_by(oft_sent.c.height)).all() == before


def test_backfill_corrects_facts(indexer_engine: Engine) -> None:
    chain = make_followed_chain(indexer_engine)
    with indexer_engine.begin() as conn:
        conn.execute(oft_sent.delete().where(oft_sent.c.height == 22))
    assert differences(indexer_engine, LATE_START) != []
    run(indexer_engine, chain, 21, 23)
    assert differences(indexer_engine, LATE_START) == []
    with indexer_engine.connect() as conn:
        assert len(conn.execute(select(movements)).all()) == 11


def test_range_above_finality_is_refused(indexer_engine: Engine) -> None:
    chain = make_followed_chain(indexer_engine)
    with pytest.raises(ConfigurationError, match="a backfill may reach up to 26, not 27"):
        run(indexer_engine, chain, 1, 27)
    assert heights(indexer_engine) == [*range(20, 31)]


def test_range_that_does_not_join_is_refused(indexer_engine: Engine) -> None:
    chain = make_followed_chain(indexer_engine)
    other = FakeChain(LATE_START)
    other.grow(30, fork="other")
    with pytest.raises(InconsistentAnswer, match="block 19 does not join above"):
        run(indexer_engine, other, 1, 19)
    assert heights(indexer_engine) == [*range(20, 31)]
    run(indexer_engine, chain, 1, 9)
    with pytest.raises(InconsistentAnswer, match="block 10 does not join below"):
        run(indexer_engine, other, 10, 18)
    assert heights(indexer_engine) == [*range(1, 10), *range(20, 31)]


def test_wide_range_is_halved(indexer_engine: Engine) -> None:
    chain = make_followed_chain(indexer_engine)
    chain.max_range = 5
    progress = run(indexer_engine, chain, 1, 19)
    assert [step.committed for step in progress][-1] == 19
    assert len(progress) > 3


def test_reversed_range_is_refused(indexer_engine: Engine) -> None:
    with pytest.raises(ConfigurationError, match="from low to high, not from 9 to 3"):
        run(indexer_engine, make_followed_chain(indexer_engine), 9, 3)
