"""Ingestion of ranges: each range once despite failures, and rewind after a reorg."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import pairwise
from typing import Any

import psycopg
import pytest
from sqlalchemy import URL, Connection, Engine, func, select, text
from sqlalchemy.exc import OperationalError

from indexer.chains.ports import Block
from indexer.config.networks import Network
from indexer.errors import (
    DeepReorg,
    FollowerConflict,
    InconsistentAnswer,
    NodeUnavailable,
    PermanentChainError,
)
from indexer.facts import decoding
from indexer.facts.alarms import open_alarms, raise_alarm
from indexer.facts.checks import alarm_lines, block_faults
from indexer.facts.cursors import put_on_hold
from indexer.facts.status import chain_status
from indexer.ingest import follow as following
from indexer.ingest import ranges as drain
from indexer.ingest.follow import follow
from indexer.ingest.projections import apply_range
from indexer.ingest.ranges import RangeProgress, follower_lease
from indexer.ingest.rebuild import differences, rebuild
from tests.factories.fake_chain import ETHEREUM, FakeChain, fake_network, guid_of
from tests.factories.ingesting import ingest_once
from warehouse_schema.engine import make_engine
from warehouse_schema.events import oft_sent
from warehouse_schema.facts import alarms, blocks, cursors, evm_logs, orphans
from warehouse_schema.identifiers import ChainId, Height
from warehouse_schema.projections import movements

NETWORK = fake_network()


@pytest.fixture
def second_engine(clone: Callable[[], URL]) -> Iterator[Engine]:
    """Another empty warehouse, to compare with."""
    engine = make_engine(clone(), role="indexer")
    yield engine
    engine.dispose()


def make_chain(grown: int = 5, **options: object) -> FakeChain:
    chain = FakeChain(NETWORK, **options)  # type: ignore[arg-type]
    chain.grow(grown)
    return chain


def drain_all(engine: Engine, chain: FakeChain, max_blocks: int = 200) -> list[RangeProgress]:
    """Drain until there is nothing new."""
    done = []
    while (progress := ingest_once(engine, chain, NETWORK, max_blocks=max_blocks)) is not None:
        done.append(progress)
    return done


def contents(engine: Engine) -> dict[str, list[tuple[object, ...]]]:
    """Every fact and projection row, but for the database's own clocks and counters."""
    tables = (blocks, evm_logs, oft_sent, movements)
    with engine.connect() as conn:
        found = {t.name: sorted(map(tuple, conn.execute(select(t))), key=repr) for t in tables}
        found["cursors"] = [
            (row.chain, row.height, row.block_hash) for row in conn.execute(select(cursors))
        ]
    return found


def test_range_writes_facts_and_cursor(indexer_engine: Engine) -> None:
    chain = make_chain(5)
    (progress,) = drain_all(indexer_engine, chain)
    assert (progress.height, progress.blocks, progress.events, progress.lag_blocks) == (5, 5, 5, 0)
    with indexer_engine.connect() as conn:
        assert conn.scalar(select(func.count()).select_from(blocks)) == 5
        assert conn.scalars(select(evm_logs.c.event)).all() == ["OftSent"] * 5
        stages = conn.scalars(select(movements.c.stage)).all()
        assert stages == ["IN_FLIGHT"] * 5
        assert conn.scalar(select(cursors.c.block_hash)) == chain.blocks[5].hash
    assert block_faults(indexer_engine, ETHEREUM) == []


def test_no_new_blocks_return_none(indexer_engine: Engine) -> None:
    chain = make_chain(3)
    drain_all(indexer_engine, chain)
    assert ingest_once(indexer_engine, chain, NETWORK) is None


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_range_size_changes_nothing(indexer_engine: Engine, size: int) -> None:
    chain = make_chain(7)
    drain_all(indexer_engine, chain, max_blocks=size)
    with indexer_engine.connect() as conn:
        assert conn.scalars(select(blocks.c.height).order_by(blocks.c.height)).all() == [
            *range(1, 8)
        ]
        assert conn.scalar(select(func.count()).select_from(oft_sent)) == 7


def test_failed_range_writes_nothing(
    indexer_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = make_chain(3)
    before = contents(indexer_engine)

    def fail(*arguments: Any) -> None:
        apply_range(*arguments)
        raise RuntimeError("killed before commit")

    with monkeypatch.context() as patched:
        patched.setattr(drain, "apply_range", fail)
        with pytest.raises(RuntimeError, match="killed before commit"):
            ingest_once(indexer_engine, chain, NETWORK)
    assert contents(indexer_engine) == before
    drain_all(indexer_engine, chain)
    assert len(contents(indexer_engine)["oft_sent"]) == 3


def test_restarts_give_equal_rows(indexer_engine: Engine, second_engine: Engine) -> None:
    chain = make_chain(9)
    drain_all(indexer_engine, chain)
    while ingest_once(second_engine, chain, NETWORK, max_blocks=2) is not None:
        second_engine.dispose()
    assert contents(second_engine) == contents(indexer_engine)


@pytest.mark.parametrize("depth", [1, 2, 5, 8])
def test_reorg_gives_rows_of_straight_run(
    indexer_engine: Engine, second_engine: Engine, depth: int
) -> None:
    chain = make_chain(12)
    drain_all(indexer_engine, chain)
    chain.drop(depth)
    chain.grow(depth + 1, fork="other")
    drain_all(indexer_engine, chain)
    drain_all(second_engine, chain)
    assert contents(indexer_engine) == contents(second_engine)
    with indexer_engine.connect() as conn:
        assert conn.scalar(select(func.count()).select_from(orphans)) == depth
    assert block_faults(indexer_engine, ETHEREUM) == []
    assert differences(indexer_engine, NETWORK) == []


def test_reorg_at_same_height_is_detected(indexer_engine: Engine) -> None:
    chain = make_chain(6)
    drain_all(indexer_engine, chain)
    chain.drop(2)
    chain.grow(2, fork="other")
    drain_all(indexer_engine, chain)
    with indexer_engine.connect() as conn:
        assert conn.scalar(select(cursors.c.block_hash)) == chain.blocks[6].hash


def test_send_mined_again_keeps_movement(indexer_engine: Engine) -> None:
    chain = make_chain(3)
    chain.mine([guid_of(7)])
    drain_all(indexer_engine, chain)
    chain.drop(1)
    chain.grow(1, sends=0, fork="other")
    chain.mine([guid_of(7)], fork="other")
    drain_all(indexer_engine, chain)
    with indexer_engine.connect() as conn:
        rows = conn.execute(select(movements).where(movements.c.group_key == guid_of(7))).all()
    assert [row.sent_at for row in rows] == [chain.blocks[5].time]


def test_lagging_node_changes_nothing(indexer_engine: Engine) -> None:
    chain = make_chain(6)
    drain_all(indexer_engine, chain)
    before = contents(indexer_engine)
    behind = FakeChain(NETWORK)
    behind.blocks = chain.blocks[:4]
    behind.logs = chain.logs
    assert ingest_once(indexer_engine, behind, NETWORK) is None
    assert contents(indexer_engine) == before


def test_deep_reorg_puts_chain_on_hold(
    indexer_engine: Engine,
) -> None:
    chain = make_chain(12)
    drain_all(indexer_engine, chain)
    before = contents(indexer_engine)
    chain.drop(9)
    chain.grow(10, fork="other")
    with pytest.raises(DeepReorg, match="8 confirmations"):
        follow(
            indexer_engine,
            chain,
            NETWORK,
            should_stop=lambda: False,
            on_progress=lambda progress: None,
        )
    assert contents(indexer_engine) == before
    (status,) = [s for s in chain_status(indexer_engine, NETWORK) if s.chain == ETHEREUM]
    assert status.held is not None
    assert status.open_alarms == 1


def test_hold_is_written_after_outage(
    indexer_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold, lost = put_on_hold, iter([psycopg.OperationalError("server closed"), None])

    def fail_first(conn: Connection, chain: ChainId, reason: str) -> None:
        if (error := next(lost)) is not None:
            raise OperationalError("UPDATE", {}, error)
        hold(conn, chain, reason)

    monkeypatch.setattr(following, "put_on_hold", fail_first)
    with pytest.raises(PermanentChainError):
        follow_to(indexer_engine, make_chain(2, max_range=0), 2)
    assert len(alarm_lines(indexer_engine, ETHEREUM)) == 1


def test_moving_chain_clears_its_alarm(indexer_engine: Engine) -> None:
    chain = make_chain(2, max_range=0)
    with pytest.raises(PermanentChainError):
        follow_to(indexer_engine, chain, 2)
    assert len(alarm_lines(indexer_engine, ETHEREUM)) == 1
    chain.max_range = 10
    follow_to(indexer_engine, chain, 2)
    assert alarm_lines(indexer_engine, ETHEREUM) == []


def test_inconsistent_node_is_not_followed(indexer_engine: Engine) -> None:
    chain = make_chain(4)
    drain_all(indexer_engine, chain)
    before = contents(indexer_engine)
    chain.grow(1)
    # The range comes from a fork, the single block from our chain.
    forked = FakeChain(NETWORK)
    forked.grow(5, fork="other")
    split = FakeChain(NETWORK)
    split.blocks, split.logs = chain.blocks, chain.logs
    split.read = forked.read  # type: ignore[method-assign]
    with pytest.raises(InconsistentAnswer, match="has block 4 and denies it"):
        ingest_once(indexer_engine, split, NETWORK)
    assert contents(indexer_engine) == before


def test_undecodable_log_is_stored_and_alarmed(
    indexer_engine: Engine,
) -> None:
    chain = make_chain(4)
    chain.spoil(2)
    (progress,) = drain_all(indexer_engine, chain)
    assert progress.undecodable == 1
    with indexer_engine.connect() as conn:
        row = conn.execute(select(evm_logs).where(evm_logs.c.undecodable.is_not(None))).one()
        assert (row.height, row.event) == (2, None)
        assert conn.scalar(select(func.count()).select_from(oft_sent)) == 3
        assert conn.scalars(select(alarms.c.kind)).all() == ["undecodable"]
    assert len(alarm_lines(indexer_engine, ETHEREUM)) == 1


def test_reorg_clears_alarms_of_removed_blocks(indexer_engine: Engine) -> None:
    chain = make_chain(6)
    chain.spoil(2)
    chain.spoil(5)
    drain_all(indexer_engine, chain)
    burned, sent = chain.logs[chain.blocks[4].hash][0].seen.tx_hash, guid_of(600, "main")
    with indexer_engine.begin() as conn:
        for kind, subject in (
            ("attestation_refused", burned),
            ("attestation_refused", sent),
            ("attestation_unverified", f"{burned}/nonce"),
            ("rescan", "1-5"),
        ):
            raise_alarm(conn, ETHEREUM, kind, subject, "said before the reorg")
    chain.drop(3)
    chain.grow(4, fork="other")
    chain.spoil(5)
    drain_all(indexer_engine, chain)
    with indexer_engine.connect() as conn:
        left = [(alarm.kind, alarm.subject) for alarm in open_alarms(conn)]
    spoiled = [chain.logs[chain.blocks[height].hash][0].seen for height in (2, 5)]
    assert left == [
        ("undecodable", f"2/{spoiled[0].tx_hash}/0"),
        # What an attester signed stays wrong, whatever became of the burn.
        ("attestation_unverified", f"{burned}/nonce"),
        ("rescan", "1-5"),
        ("undecodable", f"5/{spoiled[1].tx_hash}/0"),
    ]


def test_unstorable_event_is_marked(
    indexer_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding, "storage_error", lambda event: "guid: too odd")
    (progress,) = drain_all(indexer_engine, make_chain(2))
    assert progress.undecodable == 2
    assert contents(indexer_engine)["oft_sent"] == []
    assert "guid: too odd" in alarm_lines(indexer_engine, ETHEREUM)[0]


@pytest.mark.usefixtures("long_leases")
def test_second_follower_is_refused(indexer_engine: Engine) -> None:
    chain = make_chain(2)
    with follower_lease(indexer_engine, ETHEREUM), pytest.raises(FollowerConflict, match=ETHEREUM):
        ingest_once(indexer_engine, chain, NETWORK)
    assert ingest_once(indexer_engine, chain, NETWORK) is not None


class Stop:
    """Stops a follower once it has reached a height."""

    def __init__(self, height: int) -> None:
        self.height = height
        self.reached: list[RangeProgress] = []

    def __call__(self) -> bool:
        return bool(self.reached) and self.reached[-1].height >= self.height


def follow_to(engine: Engine, chain: FakeChain, height: int) -> list[RangeProgress]:
    stop = Stop(height)
    follow(engine, chain, NETWORK, should_stop=stop, on_progress=stop.reached.append)
    return stop.reached


def test_retryable_error_is_retried(
    indexer_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "_FIRST_BACKOFF", 0.001)
    faults = [NodeUnavailable("429", retry_after=0.001), InconsistentAnswer("hash"), None]

    def fail(first: Height, last: Height) -> None:
        fault = faults.pop(0) if faults else None
        if fault is not None:
            raise fault

    follow_to(indexer_engine, make_chain(5, before_read=fail), 5)
    assert faults == []
    assert len(contents(indexer_engine)["oft_sent"]) == 5


def test_too_wide_range_is_halved(indexer_engine: Engine) -> None:
    progress = follow_to(indexer_engine, make_chain(40, max_range=3), 40)
    assert max(step.blocks for step in progress) <= 3
    assert len(contents(indexer_engine)["oft_sent"]) == 40


def test_refused_size_is_not_repeated_at_once(indexer_engine: Engine) -> None:
    refused = 0
    chain = make_chain(60, max_range=10)

    def count(first: Height, last: Height) -> None:
        nonlocal refused
        refused += last - first + 1 > chain.max_range

    chain.before_read = count
    follow_to(indexer_engine, chain, 60)
    assert refused <= 6


def test_full_disk_is_not_retried(indexer_engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise OperationalError("INSERT", {}, psycopg.errors.DiskFull("no space left on device"))

    monkeypatch.setattr(drain, "apply_range", fail)
    with pytest.raises(OperationalError, match="no space left"):
        follow_to(indexer_engine, make_chain(2), 2)


def test_too_large_block_stops_chain(indexer_engine: Engine) -> None:
    with pytest.raises(PermanentChainError, match="one block is too much"):
        follow_to(indexer_engine, make_chain(2, max_range=0), 2)


def test_lost_session_loses_lease(
    indexer_engine: Engine, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "_FIRST_BACKOFF", 0.001)
    kills = 1

    def kill_sessions(first: Height, last: Height) -> None:
        nonlocal kills
        if kills:
            kills -= 1
            with engine.connect() as conn:
                terminate_followers(conn)

    follow_to(indexer_engine, make_chain(5, before_read=kill_sessions), 5)
    assert kills == 0
    assert len(contents(indexer_engine)["oft_sent"]) == 5


def terminate_followers(conn: Connection) -> None:
    conn.execute(
        text(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name = 'isthmus-indexer'"
        )
    )


def test_rebuild_gives_equal_rows(indexer_engine: Engine) -> None:
    chain = make_chain(8)
    drain_all(indexer_engine, chain)
    before = contents(indexer_engine)
    rebuild(indexer_engine, NETWORK)
    assert contents(indexer_engine) == before


def test_changed_projection_is_a_difference(indexer_engine: Engine) -> None:
    drain_all(indexer_engine, make_chain(3))
    assert differences(indexer_engine, NETWORK) == []
    with indexer_engine.begin() as conn:
        conn.execute(movements.update().values(amount_in=1))
    assert len(differences(indexer_engine, NETWORK)) == 3


class LiveChain(FakeChain):
    """A chain on which something happens whenever somebody waits for its head."""

    def __init__(self, network: Network, happenings: Sequence[Callable[["LiveChain"], None]]):
        super().__init__(network)
        self.happenings = list(happenings)
        self.requests = 0
        """Times that its head was asked for."""

    def head(self) -> Block:
        self.requests += 1
        return super().head()

    def wait_for_head(self, above: Height, timeout: float) -> Block | None:
        if self.happenings:
            self.happenings.pop(0)(self)
        return self.blocks[-1] if self.blocks[-1].height > above else None

    def is_over(self) -> bool:
        return not self.happenings


def grow(chain: LiveChain) -> None:
    chain.grow(1, sends=0)


def rest(chain: LiveChain) -> None:
    """Nothing happens."""


def replace_head(chain: LiveChain) -> None:
    chain.drop(1)
    chain.grow(1, fork="other")


def live(
    engine: Engine, happenings: Sequence[Callable[[LiveChain], None]], confirmations: int = 8
) -> LiveChain:
    """Follow a chain until all of this has happened."""
    network = fake_network(confirmations=confirmations)
    chain = LiveChain(network, happenings)
    chain.grow(5)
    follow(engine, chain, network, should_stop=chain.is_over, on_progress=lambda progress: None)
    return chain


def test_empty_block_costs_two_round_trips(
    indexer_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside BEGIN and COMMIT: the cursor, and one statement of everything else."""
    seen: list[str] = []
    execute, pipeline = psycopg.Cursor.execute, psycopg.Connection.pipeline

    def renews_leases() -> bool:
        # The follower's lease is renewed by threads of its own.
        return threading.current_thread().name.startswith("leases-")

    def executed(self: Any, query: Any, *values: Any, **options: Any) -> Any:
        if not renews_leases() and not self.connection.pgconn.pipeline_status:
            seen.append(str(query))
        return execute(self, query, *values, **options)

    def counted(self: "psycopg.Connection[Any]") -> AbstractContextManager[psycopg.Pipeline]:
        if not renews_leases():
            seen.append("pipeline")
        return pipeline(self)

    monkeypatch.setattr(psycopg.Cursor, "execute", executed)
    monkeypatch.setattr(psycopg.Connection, "pipeline", counted)
    # Without statements that come every few seconds: on a slow machine one may fall into a block.
    monkeypatch.setattr(following, "_FINALITY_SECONDS", float("inf"))
    monkeypatch.setattr(following, "REPORT_SECONDS", float("inf"))
    marks: list[int] = []

    def grow_and_mark(chain: LiveChain) -> None:
        marks.append(len(seen))
        grow(chain)

    live(indexer_engine, [grow_and_mark] * 5)
    blocks_of = [seen[before:after] for before, after in pairwise(marks)]
    assert [len(each) for each in blocks_of] == [2] * 4
    assert all("WITH" in first and "INSERT" in second for first, second in blocks_of)


def test_head_is_requested_once(indexer_engine: Engine) -> None:
    assert live(indexer_engine, [grow] * 10).requests == 1


def test_replaceable_head_is_polled(
    indexer_engine: Engine,
) -> None:
    chain = live(indexer_engine, [rest, rest, replace_head, rest, rest])
    with indexer_engine.connect() as conn:
        assert conn.scalar(select(cursors.c.block_hash)) == chain.blocks[-1].hash


def test_final_head_is_not_polled(indexer_engine: Engine) -> None:
    assert live(indexer_engine, [rest] * 10, confirmations=0).requests == 1


def test_throttle_runs_after_last_request() -> None:
    now = 0.0
    seldom = following._Throttle(2.0, clock=lambda: now)
    done = []
    for now in (0.0, 0.5, 1.0, 1.5, 2.0, 2.5):
        seldom.request()
        done += [now] if seldom.is_due() else []
    assert done == [0.0, 2.0]
    now = 3.9
    assert not seldom.is_due()
    now = 4.0
    assert seldom.is_due()
    assert not seldom.is_due()
