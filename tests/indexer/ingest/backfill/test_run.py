"""A columnar backfill through a node: rows, resumption after a kill, and its lease."""

import multiprocessing
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Engine, Table, func, select, update
from sqlalchemy.engine import make_url
from sqlalchemy.exc import IntegrityError

from indexer.bridges.oft.events import OftReceived
from indexer.chains.evm.reader import EvmReader
from indexer.config.networks import EvmChain
from indexer.decode.evm import event_topics
from indexer.errors import FollowerConflict, InconsistentAnswer, RangeRefused
from indexer.facts import proofs, store
from indexer.facts.backfills import BackfillSpan, save_spans
from indexer.facts.checks import block_faults
from indexer.facts.rows import EVENT_MAPPINGS, copy_into
from indexer.facts.watchlist import StoredWatchlist
from indexer.ingest.backfill import BackfillProgress, backfill, chunks, commit, fetch
from indexer.ingest.backfill_lease import backfill_lease
from indexer.ingest.rebuild import differences
from indexer.movements.store import refold_movements
from tests.factories.fake_chain import ETHEREUM, FakeChain, fake_network, guid_of
from tests.factories.fake_evm_node import FakeEvmNode
from tests.factories.ingesting import ingest_once
from tests.factories.transfers import make_oft_received, moved
from tests.system.replay.serving import serving
from warehouse_schema.engine import make_engine
from warehouse_schema.events import oft_received, oft_sent
from warehouse_schema.facts import alarms, backfills, blocks, evm_logs, unproven_blocks
from warehouse_schema.identifiers import Height
from warehouse_schema.projections import movements

LAST = 60
NETWORK = fake_network(confirmations=4, start_height=80)


def make_chain(*, sends: int = 2, delivered: bool = False) -> FakeChain:
    """90 blocks, of which a follower would begin with the 80th; one log in block 7 is malformed.

    `delivered` are the sends of every second block: the others are folded with their chunk, however
    many they are.
    """
    chain = FakeChain(NETWORK)
    chain.grow(90, sends=sends)
    if delivered:
        chain.deliver(*range(2, 91, 2))
    chain.spoil(7)
    return chain


def config() -> EvmChain:
    (chain,) = NETWORK.evm
    return chain


@contextmanager
def reading(node: FakeEvmNode) -> Iterator[EvmReader]:
    with serving(node) as url:
        reader = EvmReader(config(), [url], event_topics, timeout=30.0)
        try:
            yield reader
        finally:
            reader.close()


def ignore(_: BackfillProgress) -> None:
    pass


def run(engine: Engine, chain: FakeChain, last: int = LAST) -> list[BackfillProgress]:
    reports: list[BackfillProgress] = []
    with reading(FakeEvmNode(chain)) as reader:
        backfill(engine, reader, NETWORK, Height(1), Height(last), reports.append)
    return reports


def stored(engine: Engine) -> dict[str, list[Any]]:
    """Everything a backfill writes, but for when."""
    with engine.connect() as conn:
        tables: list[Table] = [blocks, evm_logs, oft_sent, oft_received, movements]
        rows = {table.name: sorted(map(repr, conn.execute(select(table)))) for table in tables}
        raised = select(alarms.c.chain, alarms.c.kind, alarms.c.subject, alarms.c.detail)
        return {**rows, "alarms": sorted(map(repr, conn.execute(raised)))}


def under_way(engine: Engine) -> list[Any]:
    query = select(backfills.c.first, backfills.c.last, backfills.c.done, backfills.c.folded)
    with engine.connect() as conn:
        return [tuple(row) for row in conn.execute(query)]


@pytest.fixture
def expected(engine: Engine, indexer_engine: Engine) -> dict[str, list[Any]]:
    """What the same range leaves when it is read and decoded log by log; then it is taken away."""
    rows = _read_one_by_one(engine, indexer_engine, make_chain())
    assert len(rows["evm_logs"]) == 2 * LAST
    assert len(rows["oft_sent"]) == len(rows["movements"]) == 2 * LAST - 1
    assert len(rows["alarms"]) == 1
    return rows


@pytest.fixture
def expected_of_delivered(engine: Engine, indexer_engine: Engine) -> dict[str, list[Any]]:
    """As `expected`, of sends of which a half is delivered."""
    rows = _read_one_by_one(engine, indexer_engine, make_chain(delivered=True))
    assert len(rows["evm_logs"]) == 3 * LAST
    assert len(rows["movements"]) == 2 * LAST - 1
    assert sum("'COMPLETED'" in row for row in rows["movements"]) == LAST
    return rows


def _read_one_by_one(
    engine: Engine, indexer_engine: Engine, chain: FakeChain
) -> dict[str, list[Any]]:
    backfill(indexer_engine, chain, NETWORK, Height(1), Height(LAST), ignore)
    rows = stored(indexer_engine)
    with engine.begin() as conn:
        for table in (blocks, evm_logs, oft_sent, oft_received, movements, alarms):
            conn.execute(table.delete())
    return rows


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many small chunks, whose movements are too many to be folded with them."""
    monkeypatch.setattr(fetch, "CHUNK_EVENTS", 10)
    monkeypatch.setattr(fetch, "FIRST_BLOCKS", 3)
    monkeypatch.setattr(chunks, "MAX_MOVEMENTS", 1)
    monkeypatch.setattr(commit, "FOLDED_EVENTS", 24)


# What is written


def test_columnar_rows_equal_object_rows(indexer_engine: Engine, expected: Any):
    reports = run(indexer_engine, make_chain())
    assert stored(indexer_engine) == expected
    assert (reports[-1].committed, reports[-1].events, reports[-1].share) == (LAST, 2 * LAST, 1.0)
    assert {progress.step for progress in reports} == {"facts"}
    assert block_faults(indexer_engine, ETHEREUM) == []
    assert differences(indexer_engine, NETWORK) == []
    assert under_way(indexer_engine) == []


def test_repeated_backfill_gives_equal_rows(indexer_engine: Engine, expected: Any):
    run(indexer_engine, make_chain())
    run(indexer_engine, make_chain())
    assert stored(indexer_engine) == expected


def test_alarm_ends_when_the_log_decodes(indexer_engine: Engine):
    run(indexer_engine, make_chain())
    whole = FakeChain(NETWORK)
    whole.grow(90, sends=2)

    run(indexer_engine, whole)

    with indexer_engine.connect() as conn:
        (alarm,) = conn.execute(select(alarms.c.kind, alarms.c.cleared_at))
    assert alarm.kind == store.UNDECODABLE
    assert alarm.cleared_at is not None


def test_proven_block_stays_proven_when_it_is_read_again(indexer_engine: Engine):
    network = fake_network(confirmations=4, start_height=80, log_proof="operators")
    chain = FakeChain(network)
    chain.grow(90)
    backfill(indexer_engine, chain, network, Height(1), Height(LAST), ignore)
    with indexer_engine.begin() as conn:
        proofs.record_proven(conn, chain.blocks[5])

    backfill(indexer_engine, chain, network, Height(1), Height(LAST), ignore)

    with indexer_engine.connect() as conn:
        unproven = conn.scalars(select(unproven_blocks.c.height)).all()
    assert sorted(unproven) == [each for each in range(1, LAST + 1) if each != 5]


def test_events_of_a_wider_chunk_are_counted_once(indexer_engine: Engine):
    chain = make_chain()
    span = BackfillSpan(
        chain=config().id,
        range_first=Height(1),
        range_last=Height(LAST),
        first=Height(1),
        last=Height(LAST),
        done=Height(0),
        folded=Height(0),
        events=0,
    )
    watched = StoredWatchlist(config(), indexer_engine.begin)
    with (
        indexer_engine.connect() as conn,
        fetch.open_source(chain, NETWORK, watched) as source,
    ):
        with conn.begin():
            save_spans(conn, [span])
        (read,) = source.fetchers
        after = commit.commit_chunk(conn, NETWORK, span, read(Height(1), Height(3)))
        assert after is not None
        after = commit.commit_chunk(conn, NETWORK, after, read(Height(1), Height(5)))

    assert after is not None
    assert (after.done, after.events) == (5, 10)


@pytest.mark.usefixtures("small")
def test_many_movements_are_folded_after_facts(indexer_engine: Engine, expected_of_delivered: Any):
    reports = run(indexer_engine, make_chain(delivered=True))
    steps = [progress.step for progress in reports]
    assert steps.count("facts") > 8
    assert steps.count("movements") > 4
    assert sorted(steps) == steps
    shares = [progress.share for progress in reports]
    facts, folding = shares[: steps.index("movements")], shares[steps.index("movements") :]
    assert facts == sorted(facts)
    assert folding == sorted(folding)
    assert (folding[-1], reports[-1].unfolded) == (1.0, 0)
    assert stored(indexer_engine) == expected_of_delivered
    assert differences(indexer_engine, NETWORK) == []


@pytest.mark.parametrize("most", [1, 1_000], ids=["later", "with their chunk"])
def test_sends_delivered_before_are_folded(
    indexer_engine: Engine, monkeypatch: pytest.MonkeyPatch, most: int
):
    """Of every third block, on a chain that was read first; with `most`, more than fit a chunk."""
    monkeypatch.setattr(chunks, "MAX_MOVEMENTS", most)
    guids = [guid_of(height * 100, "main") for height in range(1, LAST + 1, 3)]
    received = [
        moved(replace(make_oft_received(), guid=guid), position=place)
        for place, guid in enumerate(guids)
    ]
    mapping = EVENT_MAPPINGS[OftReceived]
    with indexer_engine.begin() as conn:
        copy_into(conn, mapping.columns, map(mapping.row, received))
        refold_movements(conn, NETWORK, [("oft", guid) for guid in guids])
    steps = {progress.step for progress in run(indexer_engine, make_chain())}
    assert steps == ({"facts", "movements"} if most == 1 else {"facts"})
    completed = select(func.count()).where(
        movements.c.stage == "COMPLETED", movements.c.source_tx.is_not(None)
    )
    with indexer_engine.connect() as conn:
        # The send of block 7 is malformed.
        assert conn.scalar(completed) == len(guids) - 1
        assert conn.scalar(select(func.count()).select_from(movements)) == 2 * LAST
    assert differences(indexer_engine, NETWORK) == []


def test_log_limit_narrows_ranges(indexer_engine: Engine, expected: Any):
    node = FakeEvmNode(make_chain(), most_logs=9)
    with reading(node) as reader:
        backfill(indexer_engine, reader, NETWORK, Height(1), Height(LAST), ignore)
    assert stored(indexer_engine) == expected
    assert max(last - first for first, last in node.ranges) > 9


def test_foreign_packets_are_not_stored(indexer_engine: Engine, expected: dict[str, list[Any]]):
    """Neither by columns, nor one by one, nor by the follower."""
    chain = make_chain()
    for height in (3, 40, 85):
        chain.overhear(height)
    run(indexer_engine, chain)
    assert stored(indexer_engine) == expected
    backfill(indexer_engine, chain, NETWORK, Height(1), Height(LAST), ignore)
    assert stored(indexer_engine) == expected
    ingest_once(indexer_engine, chain, NETWORK)
    with indexer_engine.connect() as conn:
        kept = select(blocks.c.events).where(blocks.c.height.in_([3, 40, 85]))
        assert list(conn.scalars(kept)) == [2, 2, 2]
        assert conn.scalar(select(func.count()).select_from(evm_logs)) == 2 * (LAST + 11)


def test_chunk_size_follows_logs_read():
    chain = make_chain()
    chain.overhear(2)
    chunk = chunks.chunk_of_range(NETWORK, config(), chain.read(Height(1), Height(4), []))
    assert (chunk.events, chunk.read) == (8, 10)


def test_backfill_joins_followed_blocks(indexer_engine: Engine):
    chain = make_chain()
    ingest_once(indexer_engine, chain, NETWORK)
    run(indexer_engine, chain, last=79)
    assert block_faults(indexer_engine, ETHEREUM) == []
    assert differences(indexer_engine, NETWORK) == []


def test_foreign_history_does_not_join(indexer_engine: Engine):
    ingest_once(indexer_engine, make_chain(), NETWORK)
    other = FakeChain(NETWORK)
    other.grow(90, fork="other")
    with pytest.raises(InconsistentAnswer, match="block 79 does not join above"):
        run(indexer_engine, other, last=79)


# Refused


def test_range_within_reorg_depth_is_refused(indexer_engine: Engine):
    """Nothing is followed, so the node's head says how far that is."""
    network = replace(NETWORK, evm=(replace(config(), start_height=None),))
    with reading(FakeEvmNode(make_chain())) as reader:
        with pytest.raises(RangeRefused, match="may reach up to 86, not 87"):
            backfill(indexer_engine, reader, network, Height(1), Height(87), ignore)
        backfill(indexer_engine, reader, network, Height(1), Height(86), ignore)


def test_range_at_start_height_is_refused(indexer_engine: Engine):
    """It appends, and would meet blocks that are there."""
    with pytest.raises(RangeRefused, match=r"begins at 80 and has not begun.* up to 79, not 80"):
        run(indexer_engine, make_chain(), last=80)
    run(indexer_engine, make_chain(), last=79)
    ingest_once(indexer_engine, make_chain(), NETWORK)
    assert block_faults(indexer_engine, ETHEREUM) == []


# Killed


class Killed(Exception):
    """The process ends here."""


def killing(after: int) -> Callable[[BackfillProgress], None]:
    """End after so many commits."""
    left = [after]

    def report(_: BackfillProgress) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise Killed

    return report


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("commits", [1, 3])
def test_killed_backfill_continues(
    indexer_engine: Engine, expected_of_delivered: Any, commits: int
):
    node, kills, done = FakeEvmNode(make_chain(delivered=True)), 0, 0
    with reading(node) as reader:
        while under_way(indexer_engine) or not kills:
            node.ranges.clear()
            try:
                backfill(indexer_engine, reader, NETWORK, Height(1), Height(LAST), killing(commits))
            except Killed:
                kills += 1
            assert all(first > done for first, _ in node.ranges)
            done = max([done, *(row[2] for row in under_way(indexer_engine))])
    assert kills > 15 / commits
    assert done == LAST
    assert stored(indexer_engine) == expected_of_delivered
    assert differences(indexer_engine, NETWORK) == []


def _run_in_a_child(url: str, database: str) -> None:
    fetch.FIRST_BLOCKS = fetch.MAX_BLOCKS_COLUMNAR = 1
    backfill(
        make_engine(make_url(database), role="indexer"),
        EvmReader(config(), [url], event_topics, timeout=30.0),
        NETWORK,
        Height(1),
        Height(LAST),
        # Slow enough for its parent to kill it before its end.
        lambda _: time.sleep(0.05),
    )


def test_other_process_continues_backfill(indexer_engine: Engine, expected: Any):
    node = FakeEvmNode(make_chain())
    database = indexer_engine.url.render_as_string(hide_password=False)
    with reading(node) as reader:
        url = reader.urls[0]
        child = multiprocessing.get_context("spawn").Process(
            target=_run_in_a_child, args=(url, database)
        )
        child.start()
        deadline = time.monotonic() + 60
        while (not under_way(indexer_engine) or under_way(indexer_engine)[0][2] < 5) and (
            time.monotonic() < deadline
        ):
            time.sleep(0.005)
        child.kill()
        child.join()
        ((_, _, done, _),) = under_way(indexer_engine)
        assert 5 <= done < LAST
        with indexer_engine.connect() as conn:
            assert list(conn.scalars(select(blocks.c.height).order_by(blocks.c.height))) == list(
                range(1, done + 1)
            )
        node.ranges.clear()
        _patiently(indexer_engine, reader)
    assert min(first for first, _ in node.ranges) == done + 1
    assert stored(indexer_engine) == expected


def _patiently(engine: Engine, reader: EvmReader) -> None:
    """The killed process's session, and the lock with it, may live a moment longer."""
    for _ in range(200):
        try:
            return backfill(engine, reader, NETWORK, Height(1), Height(LAST), ignore)
        except FollowerConflict:
            time.sleep(0.02)
    raise AssertionError("the lock of a killed process is still held")


@pytest.mark.usefixtures("long_leases")
def test_second_backfill_is_refused(indexer_engine: Engine):
    refused = pytest.raises(FollowerConflict, match="another backfill of eip155:1")
    with backfill_lease(indexer_engine, ETHEREUM), refused:
        run(indexer_engine, make_chain())
    run(indexer_engine, make_chain())


# While it is under way


@pytest.mark.usefixtures("small")
def test_unfolded_movements_are_no_difference(indexer_engine: Engine):
    chain = make_chain(delivered=True)
    ingest_once(indexer_engine, chain, NETWORK)
    with reading(FakeEvmNode(chain)) as reader, pytest.raises(Killed):
        backfill(indexer_engine, reader, NETWORK, Height(1), Height(79), killing(5))
    ((_, _, done, folded),) = under_way(indexer_engine)
    assert 0 == folded < done < 79
    assert differences(indexer_engine, NETWORK) == []
    assert block_faults(indexer_engine, ETHEREUM) == []
    with indexer_engine.begin() as conn:
        conn.execute(backfills.delete())
    assert differences(indexer_engine, NETWORK) != []
    assert block_faults(indexer_engine, ETHEREUM) == [f"{ETHEREUM}: no block between {done} and 80"]


@pytest.mark.usefixtures("small")
def test_other_differences_are_found_during_backfill(indexer_engine: Engine):
    chain = make_chain()
    ingest_once(indexer_engine, chain, NETWORK)
    with reading(FakeEvmNode(chain)) as reader, pytest.raises(Killed):
        backfill(indexer_engine, reader, NETWORK, Height(1), Height(70), killing(5))
    with indexer_engine.begin() as conn:
        conn.execute(oft_sent.delete().where(oft_sent.c.height == 85))
        conn.execute(blocks.delete().where(blocks.c.height == 85))
    found = differences(indexer_engine, NETWORK)
    assert len(found) == 2
    assert block_faults(indexer_engine, ETHEREUM) == [
        # Blocks 71 to 79 are nobody's to bring in.
        f"{ETHEREUM}: no block between {under_way(indexer_engine)[0][2]} and 80",
        f"{ETHEREUM}: no block between 84 and 86",
    ]


def test_backfill_row_constraints(engine: Engine):
    whole = {"range_first": 1, "range_last": 9, "first": 1, "last": 9}
    row = {"chain": ETHEREUM, **whole, "done": 5, "folded": 5, "events": 0}
    with engine.begin() as conn:
        conn.execute(backfills.insert().values(row))
    for wrong in ({"done": 10}, {"folded": 6}):
        with pytest.raises(IntegrityError), engine.begin() as conn:
            conn.execute(update(backfills).values(wrong))
