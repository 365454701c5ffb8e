"""A follower that is far behind: what it reads in chunks equals what it reads in ranges."""

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest
from sqlalchemy import URL, Engine, Table, create_engine, select
from sqlalchemy.exc import OperationalError

from indexer.chains.evm.history import EvmHistory
from indexer.chains.evm.reader import EvmReader
from indexer.chains.ports import ChainReader
from indexer.decode.evm import event_topics
from indexer.errors import InconsistentAnswer, PermanentChainError
from indexer.facts.cursors import notify_ingested
from indexer.ingest import catch_up
from indexer.ingest import follow as following
from indexer.ingest.backfill import chunks, fetch
from indexer.ingest.follow import follow
from indexer.ingest.ranges import RangeProgress
from indexer.ingest.rebuild import differences
from tests.factories.fake_chain import FakeChain, fake_network
from tests.factories.fake_evm_node import FakeEvmNode
from tests.factories.intake import ask
from tests.factories.notifications import queued_notifications
from tests.factories.stage_history import make_terms
from tests.system.replay.serving import serving
from warehouse_schema import channels
from warehouse_schema.engine import make_engine
from warehouse_schema.events import oft_sent
from warehouse_schema.facts import alarms, blocks, cursors, evm_logs, unproven_blocks
from warehouse_schema.projections import movements, transfer_states

NETWORK = fake_network(confirmations=4, log_proof="operators")
FIRST_CHUNK = 7
"""Blocks: no range has as few while the follower is behind."""


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catch_up, "MIN_BLOCKS", 20)
    monkeypatch.setattr(fetch, "CHUNK_EVENTS", 30)
    monkeypatch.setattr(fetch, "FIRST_BLOCKS", FIRST_CHUNK)


@pytest.fixture
def second_engine(clone: Callable[[], URL]) -> Iterator[Engine]:
    """Another empty warehouse, to compare with."""
    engine = make_engine(clone(), role="indexer")
    yield engine
    engine.dispose()


def make_chain(blocks: int = 90) -> FakeChain:
    """Two sends a block; one log in block 3 is malformed."""
    chain = FakeChain(NETWORK)
    chain.grow(blocks, sends=2)
    chain.spoil(3)
    return chain


def follow_to(engine: Engine, reader: ChainReader, height: int) -> list[RangeProgress]:
    """Follow until a range or a chunk ends at `height` or above."""
    reached: list[RangeProgress] = []

    def should_stop() -> bool:
        return bool(reached) and reached[-1].height >= height

    follow(engine, reader, NETWORK, should_stop=should_stop, on_progress=reached.append)
    return reached


def follow_node(engine: Engine, chain: FakeChain, height: int) -> list[RangeProgress]:
    """As `follow_to`, through a node: only there are chunks read."""
    (config,) = NETWORK.evm
    with (
        serving(FakeEvmNode(chain)) as url,
        closing(EvmReader(config, [url], event_topics, timeout=30.0)) as reader,
    ):
        return follow_to(engine, reader, height)


def contents(engine: Engine) -> dict[str, list[Any]]:
    """Every row of facts and projections, but for the database's own clocks."""
    tables: list[Table] = [blocks, evm_logs, oft_sent, movements]
    shown = [transfer_states.c[name] for name in ("transfer", "stage", "movement", "keys")]
    unproven = select(unproven_blocks.c.chain, unproven_blocks.c.block_hash)
    with engine.connect() as conn:
        rows = {table.name: sorted(map(repr, conn.execute(select(table)))) for table in tables}
        rows["transfers"] = [repr(row) for row in conn.execute(select(*shown))]
        rows["unproven"] = sorted(map(repr, conn.execute(unproven)))
        raised = select(alarms.c.chain, alarms.c.kind, alarms.c.subject, alarms.c.detail)
        places = select(cursors.c.chain, cursors.c.height, cursors.c.block_hash)
        return {
            **rows,
            "alarms": sorted(map(repr, conn.execute(raised))),
            "cursors": sorted(map(repr, conn.execute(places))),
        }


def test_chunks_give_rows_of_ranges(indexer_engine: Engine, second_engine: Engine) -> None:
    chain = make_chain()
    progress = follow_node(indexer_engine, chain, 90)
    follow_to(second_engine, chain, 90)
    assert progress[0].blocks == FIRST_CHUNK
    # The last blocks are not final: a range reads them.
    assert progress[-2].height == 86
    assert sum(each.blocks for each in progress) == 90
    assert sum(each.events for each in progress) == 180
    assert sum(each.undecodable for each in progress) == 1
    found = contents(indexer_engine)
    assert found == contents(second_engine)
    assert len(found["unproven"]) == 90
    assert differences(indexer_engine, NETWORK) == []


def test_send_in_a_chunk_refolds_its_transfer(
    engine: Engine, indexer_engine: Engine, second_engine: Engine
) -> None:
    """Found by payer and amount. Nothing else writes the row of the transfer."""
    chain = make_chain()
    terms = make_terms(
        mechanism="oft",
        source_token=NETWORK.evm[0].usdt0,
        source_address="0x" + "5e" * 20,
        deposit_address=None,
        amount_in=5_000_000,
        started_at=chain.blocks[10].time,
        expires_at=chain.blocks[90].time,
    )
    second_owner = create_engine(second_engine.url)
    for owner in (engine, second_owner):
        with owner.begin() as conn:
            ask(conn, terms)
    second_owner.dispose()
    # Before the range of the last blocks, which has such sends too.
    follow_node(indexer_engine, chain, 86)
    assert len(contents(indexer_engine)["transfers"]) == 1
    follow_node(indexer_engine, chain, 90)
    follow_to(second_engine, chain, 90)
    assert contents(indexer_engine) == contents(second_engine)
    with engine.connect() as conn:
        assert f"{chain.chain}:86" in queued_notifications(conn, channels.INGESTED)


def test_many_movements_of_a_chunk_are_folded(
    indexer_engine: Engine, second_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "MAX_MOVEMENTS", 4)
    chain = make_chain()
    chain.deliver(*range(1, 90, 2))
    follow_node(indexer_engine, chain, 90)
    follow_to(second_engine, chain, 90)
    assert contents(indexer_engine) == contents(second_engine)


def test_stopped_follower_continues(indexer_engine: Engine, second_engine: Engine) -> None:
    chain = make_chain()
    assert follow_node(indexer_engine, chain, 1)[-1].height < 20
    follow_node(indexer_engine, chain, 90)
    follow_to(second_engine, chain, 90)
    assert contents(indexer_engine) == contents(second_engine)


def test_follower_near_the_head_reads_ranges(indexer_engine: Engine) -> None:
    assert [each.blocks for each in follow_node(indexer_engine, make_chain(20), 20)] == [20]


def test_replaced_blocks_are_rewound(indexer_engine: Engine, second_engine: Engine) -> None:
    chain = make_chain(40)
    follow_node(indexer_engine, chain, 40)
    chain.drop(3)
    chain.grow(60, fork="other")
    follow_node(indexer_engine, chain, 97)
    follow_to(second_engine, chain, 97)
    assert contents(indexer_engine) == contents(second_engine)


def test_failed_chunk_writes_nothing(
    indexer_engine: Engine, second_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last step of a chunk's transaction fails once, as if the connection were lost."""
    monkeypatch.setattr(following, "_FIRST_BACKOFF", 0.001)
    notify, failures = notify_ingested, iter([True])
    stored: list[dict[str, list[Any]]] = []

    def fail_once(*where: Any) -> None:
        if next(failures, False):
            raise OperationalError("INSERT", {}, psycopg.OperationalError("server closed"))
        if not stored:
            stored.append(contents(indexer_engine))
        notify(*where)

    monkeypatch.setattr(catch_up, "notify_ingested", fail_once)
    chain = make_chain()
    follow_node(indexer_engine, chain, 90)
    follow_to(second_engine, chain, 90)
    assert set(map(len, stored[0].values())) == {0}
    assert contents(indexer_engine) == contents(second_engine)


@pytest.mark.parametrize(
    "error",
    [
        InconsistentAnswer("a column is malformed"),
        PermanentChainError("one block is too much"),
        ValueError("a fault of ours"),
    ],
    ids=["retryable", "permanent", "fault"],
)
def test_failing_columns_do_not_stop_the_chain(
    indexer_engine: Engine,
    second_engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
) -> None:
    monkeypatch.setattr(following, "_FIRST_BACKOFF", 0.001)
    failed: list[bool] = []

    def fail(*_: object) -> None:
        failed.append(True)
        raise error

    monkeypatch.setattr(EvmHistory, "read_columns", fail)
    chain = make_chain()
    follow_node(indexer_engine, chain, 90)
    follow_to(second_engine, chain, 90)
    assert failed
    assert contents(indexer_engine) == contents(second_engine)
