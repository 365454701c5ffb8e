"""Faults of EVM nodes: no row is lost, no wrong row is kept.

After a fault that a retry or another node can mend, the rows equal those of a run without faults.
Any other fault puts the chain on hold, with an alarm and unchanged rows.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select

from indexer.chains.evm import responses
from indexer.errors import (
    DeepReorg,
    InconsistentAnswer,
    PermanentChainError,
    RetentionGap,
    RetryableChainError,
    WrongChain,
)
from indexer.facts.checks import alarm_lines
from indexer.ingest import follow as following
from indexer.ingest.backfill import backfill
from indexer.ingest.follow import follow
from indexer.ingest.rescan import rescan
from tests.system.faults.fault import Fault
from tests.system.faults.lies import (
    DroppedLog,
    DuplicateLogIndex,
    EmptyLogs,
    FlippingHash,
    ForeignTransaction,
    ForeignTransactionIndex,
    ForgedLog,
    FullBlooms,
    LogBeyondRange,
    LogOfAnotherBlock,
    LogsMissingInNewest,
    MissingReceipt,
    NullHeaders,
    NullReceipt,
    NullReceipts,
    OtherFork,
    ReceiptsOfAnotherBlock,
    RemovedLog,
    SilentCap,
    StaleBackend,
    StaleLogs,
    TagsAt,
    WrongChainId,
    ZeroBlooms,
)
from tests.system.faults.refusals import (
    BrokenOff,
    Drips,
    Hangs,
    MissingReply,
    NoTags,
    OneErrorForAll,
    RangeLimit,
    Refuses,
    ServerError,
    StopsMidRange,
    TooManyRequests,
    TruncatedJson,
)
from tests.system.faults.world import Followed, contents, oft_send, packet_of_others, transfer
from warehouse_schema.facts import evm_logs
from warehouse_schema.identifiers import Height

MENDABLE: dict[str, Callable[[], Fault]] = {
    # go-ethereum 24078 and 26098: a node behind the balancer has no logs there yet
    "the whole answer is of a node behind": lambda: StaleBackend(5),
    "the logs are of a node behind": lambda: StaleLogs(5),
    "the newest block's logs are missing": LogsMissingInNewest,
    # lotus 13749, ponder 1852
    "no logs under full blooms": EmptyLogs,
    # nethermind 1532 and 1980, reth 17678
    "one log of several is missing": DroppedLog,
    # graph-node 2779 and 5661, ponder 2182 and 2309, sonic 554
    "a log of another block": LogOfAnotherBlock,
    "a log beyond the range": LogBeyondRange,
    "a log that no bloom has": ForgedLog,
    "a removed log beside the live one": RemovedLog,
    "a log index twice": DuplicateLogIndex,
    "a transaction index that is another's": ForeignTransactionIndex,
    "a transaction that is not in the block": ForeignTransaction,
    # Cronos and others
    "null for receipts": NullReceipts,
    "a null among the receipts": NullReceipt,
    "a receipt is missing": MissingReceipt,
    "receipts of another block": ReceiptsOfAnotherBlock,
    # Avalanche, Hyperliquid and others
    "unfinalized data": lambda: Refuses("eth_getLogs", "cannot query unfinalized data"),
    "invalid height": lambda: Refuses("eth_getLogs", "invalid block height: 99"),
    "unknown block": lambda: Refuses("eth_getLogs", "Unknown block"),
    "header not found": lambda: Refuses("eth_getBlockByNumber", "header not found"),
    "words nobody knows": lambda: Refuses("eth_getLogs", "the flux is undone"),
    "headers that are null": NullHeaders,
    "a hash that flips": FlippingHash,
    "429": TooManyRequests,
    "429 with Retry-After": lambda: TooManyRequests("0"),
    "503": ServerError,
    "HTTP 200 with an error": OneErrorForAll,
    "a body that is cut": TruncatedJson,
    "a connection that breaks off": BrokenOff,
    "a call without a reply": MissingReply,
}


@pytest.fixture(params=list(MENDABLE.values()), ids=list(MENDABLE))
def fault(request: pytest.FixtureRequest) -> Fault:
    made: Fault = request.param()
    return made


def mine_story(world: Followed) -> None:
    """A story in which every fault can show: also doubtful blocks, and movements at the end."""
    world.node.story(6)
    world.node.doubtful()
    world.node.story(3)
    world.node.plain()


def test_run_without_faults_equals_a_straight_run(world: Followed) -> None:
    mine_story(world)
    world.follow()
    world.assert_as_straight()


def test_transient_fault_leaves_no_trace(world: Followed, fault: Fault) -> None:
    mine_story(world)
    with world.faulty.faulty(fault, times=3):
        world.follow()
    world.assert_as_straight()


def test_fault_that_alternates_by_block_leaves_no_trace(world: Followed, fault: Fault) -> None:
    mine_story(world)
    world.follow()

    def grow(progress: Any) -> None:
        if progress.height < world.chain.first_height + 14:
            world.faulty.inject(fault, times=1)
            world.node.plain() if progress.height % 2 else world.node.doubtful()

    world.node.doubtful()
    with world.faulty.faulty(fault, times=1):
        world.follow(after=grow)
    world.assert_as_straight()


def test_persistently_wrong_node_fails_over(world: Followed, fault: Fault) -> None:
    mine_story(world)
    with world.faulty.faulty(fault):
        world.follow(world.faulty.url, world.node.http, stuck_after=0.2)
    world.assert_as_straight()


# Limits


@pytest.mark.parametrize("most", [1, 2, 5])
def test_range_size_adapts_to_the_node(world: Followed, most: int) -> None:
    world.node.story(14)
    with world.faulty.faulty(RangeLimit(most)):
        done = world.follow()
    assert max(progress.blocks for progress in done) <= most
    world.assert_as_straight()


def test_logs_cut_at_a_round_number_are_split(
    world: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(responses, "ROUND_CAPS", frozenset({4}))
    for number in range(6):
        world.node.mine(oft_send(70_000 + number), transfer(number + 1), transfer(number + 1))
    with world.faulty.faulty(SilentCap(4)):
        world.follow()
    world.assert_as_straight()


def test_block_too_large_for_any_range_stops_the_chain(world: Followed) -> None:
    world.node.story(3)
    world.faulty.inject(RangeLimit(0))
    with pytest.raises(PermanentChainError, match="one block is too much"):
        world.follow()
    assert_stopped(world, "PermanentChainError")


def test_node_without_history_stops_the_chain(world: Followed) -> None:
    world.node.story(3)
    world.faulty.inject(Refuses("eth_getLogs", "history has been pruned for this block"))
    with pytest.raises(RetentionGap):
        world.follow()
    assert_stopped(world, "RetentionGap")


def test_node_retry_after_is_respected(world: Followed) -> None:
    world.node.story(3)
    started = time.monotonic()
    with world.faulty.faulty(TooManyRequests("1"), times=1):
        world.follow()
    assert time.monotonic() - started >= 1
    world.assert_as_straight()


def test_retry_after_of_a_day_is_capped(world: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_MAX_RETRY_AFTER", 0.05)
    world.node.story(3)
    with world.faulty.faulty(TooManyRequests("86400"), times=2):
        world.follow()
    world.assert_as_straight()


def test_follower_that_waits_for_a_node_stops_on_signal(world: Followed) -> None:
    world.node.story(1)
    fault = TooManyRequests("3600")
    world.faulty.inject(fault)
    started = time.monotonic()
    world.follow(until=lambda: fault.fired > 0)
    assert time.monotonic() - started < following._MAX_RETRY_AFTER / 2
    assert world.cursor() is None


# Time


def test_hanging_node_times_out(world: Followed) -> None:
    world.node.story(5)
    hanging = Hangs()
    world.faulty.inject(hanging, times=2)
    world.follow(timeout=0.3)
    hanging.release()
    assert hanging.fired == 2
    world.assert_as_straight()


def test_dripping_response_times_out(world: Followed) -> None:
    world.node.story(5)
    started = time.monotonic()
    with world.faulty.faulty(Drips(), times=1):
        world.follow(timeout=0.3)
    assert time.monotonic() - started < 10
    world.assert_as_straight()


def test_node_failure_within_a_range_commits_no_part(world: Followed) -> None:
    world.node.story(3)
    # More blocks than one request asks for, so that the range takes several.
    world.node.ask("anvil_mine", hex(120))
    world.node.story(3)
    stopping = StopsMidRange(answers=2)
    world.faulty.inject(stopping, times=4)
    written: list[Any] = []
    world.follow(until=lambda: stopping.fired == 4, after=written.append)
    assert written == []
    assert world.cursor() is None
    world.follow()
    world.assert_as_straight()


def test_unavailable_node_at_start_is_retried(world: Followed) -> None:
    world.node.story(3)
    with world.faulty.faulty(ServerError(), times=5):
        world.follow()
    world.assert_as_straight()


def test_node_behind_the_cursor_is_waited_for(world: Followed) -> None:
    mine_story(world)
    world.follow()
    before = contents(world.engine)
    lagging = StaleBackend(20)
    with world.faulty.faulty(lagging):
        world.follow(until=lambda: lagging.fired > 10)
    assert contents(world.engine) == before
    world.node.story(3)
    world.follow()
    world.assert_as_straight()


# Which chain


def test_node_of_another_chain_is_refused_without_rows(world: Followed) -> None:
    world.node.story(3)
    world.faulty.inject(WrongChainId())
    with pytest.raises(WrongChain):
        world.follow()
    assert_stopped(world, "WrongChain")
    assert contents(world.engine)["blocks"] == []


def test_failover_skips_a_node_of_another_chain(world: Followed) -> None:
    mine_story(world)
    world.follow()
    world.node.story(2)
    world.faulty.inject(WrongChainId())
    world.follow(world.faulty.url, world.node.http)
    world.assert_as_straight()


def test_node_on_another_fork_is_rewound_to(world: Followed) -> None:
    mine_story(world)
    fork = OtherFork(world.node.ask, world.node.height - 4)
    world.node.reorg(5)
    world.node.story(3)
    world.faulty.inject(fork)
    world.follow(until=lambda: world.cursor() is not None and world.cursor().height == fork.head)
    assert fork.fired
    world.faulty.heal()
    world.follow()
    world.assert_as_straight()


def test_nodes_on_two_forks_end_on_the_lasting_one(world: Followed) -> None:
    mine_story(world)
    fork = OtherFork(world.node.ask, world.node.height - 2)
    world.node.reorg(3)
    world.node.story(2)
    world.faulty.inject(fork, times=60)
    world.follow(world.faulty.url, world.node.http, stuck_after=0.1)
    world.assert_as_straight()


def test_fork_below_finality_stops_the_chain(world: Followed) -> None:
    mine_story(world)
    fork = OtherFork(world.node.ask, world.node.height - 9)
    world.node.reorg(10)
    world.node.story(2)
    world.follow()
    before = contents(world.engine)
    world.faulty.inject(_longer(fork, world.node.height))
    with pytest.raises(DeepReorg):
        world.follow(until=lambda: False)
    assert contents(world.engine) == before
    assert_stopped(world, "DeepReorg")


def test_fork_denied_once_is_still_found(world: Followed) -> None:
    for _ in range(world.confirmations + 2):
        world.node.plain()
    world.follow()
    fork = world.node.height - world.confirmations
    world.node.reorg(world.confirmations)
    world.node.plain()
    # The deepest fork that is followed, and the node names another block there, once.
    with world.faulty.faulty(FlippingHash(only=hex(fork)), times=1):
        world.follow()
    assert world.cursor().held is None
    world.assert_as_straight()


def _longer(fork: OtherFork, height: int) -> OtherFork:
    """The fork with empty blocks up to a height."""
    for number in range(fork.head + 1, height + 1):
        below = fork.blocks[hex(number - 1)]
        fork.blocks[hex(number)] = {
            **below,
            "number": hex(number),
            "parentHash": below["hash"],
            "hash": f"0x{number:064x}",
            "logsBloom": "0x" + "00" * 256,
            "transactions": [],
        }
        fork.receipts[hex(number)] = []
    fork.head = height
    return fork


# Finality tags


def test_final_block_of_the_node_is_recorded(world: Followed) -> None:
    mine_story(world)
    with world.faulty.faulty(TagsAt(safe=2, final=5)):
        world.follow()
    cursor = world.cursor()
    assert (cursor.safe_height, cursor.final_height) == (cursor.height - 2, cursor.height - 5)


def test_final_height_is_kept_when_other_node_is_behind(world: Followed) -> None:
    mine_story(world)
    with world.faulty.faulty(TagsAt(safe=1, final=2)):
        world.follow()
    before = world.cursor()
    world.node.story(1)
    with world.faulty.faulty(TagsAt(safe=6, final=7)):
        world.follow()
    cursor = world.cursor()
    assert cursor.height == before.height + 1
    assert (cursor.safe_height, cursor.final_height) == (before.safe_height, before.final_height)


def test_depth_defines_finality_without_tags(world: Followed) -> None:
    mine_story(world)
    with world.faulty.faulty(NoTags()):
        world.follow()
    cursor = world.cursor()
    assert cursor.final_height == cursor.safe_height == cursor.height - world.confirmations


def test_failing_node_is_not_taken_for_one_without_tags(world: Followed) -> None:
    world.node.story(2)
    trouble = Refuses("eth_getBlockByNumber", "Too many requests", -32005)
    with world.faulty.faulty(trouble, times=3):
        world.follow()
    world.assert_as_straight()
    reader = world.reader()
    with world.faulty.faulty(trouble), pytest.raises(RetryableChainError, match="Too many"):
        reader.check_identity()
    reader.check_identity()
    assert reader.finality() is not None
    reader.close()


def test_missing_tags_are_not_replaced_by_depth(world: Followed) -> None:
    mine_story(world)
    world.faulty.inject(TagsAt(safe=9, final=9))
    reader = world.reader()
    reader.check_identity()
    world.faulty.heal()
    with world.faulty.faulty(NoTags()), pytest.raises(Exception, match="others did"):
        reader.finality()
    reader.close()


def test_final_above_safe_is_inconsistent(world: Followed) -> None:
    mine_story(world)
    world.faulty.inject(TagsAt(safe=5, final=2))
    reader = world.reader()
    with pytest.raises(InconsistentAnswer, match="only"):
        reader.check_identity()
    reader.close()


# Blooms


@pytest.mark.parametrize("by_design", [ZeroBlooms, FullBlooms])
def test_unreliable_blooms_are_ignored(world: Followed, by_design: Callable[[], Fault]) -> None:
    world.bloom_is_reliable = False
    world.starting_at(world.chain.first_height)
    mine_story(world)
    with world.faulty.faulty(by_design()):
        world.follow()
    world.assert_as_straight()


def test_node_without_blooms_is_read(world: Followed) -> None:
    mine_story(world)
    with world.faulty.faulty(ZeroBlooms()):
        world.follow()
    world.assert_as_straight()


@pytest.mark.parametrize("missing", [EmptyLogs, DroppedLog])
def test_rescan_by_other_node_finds_and_mends_missing_logs(
    world: Followed, missing: Callable[[], Fault]
) -> None:
    world.bloom_is_reliable = False
    world.starting_at(world.chain.first_height)
    for _ in range(5):
        world.node.plain()
    with world.faulty.faulty(missing()):
        world.follow()
    first, last = world.chain.first_height, Height(world.node.height)
    honest = world.reader(world.node.http)
    found = rescan(world.engine, honest.read, world.chain, first, last)
    assert any("is not stored" in each for each in found)
    assert any("rescan" in each for each in alarm_lines(world.engine, world.chain.id))
    final = replace(world.network, evm=(replace(world.chain, confirmations=0),))
    backfill(world.engine, honest, final, first, last, on_progress=lambda progress: None)
    assert rescan(world.engine, honest.read, world.chain, first, last) == []
    assert alarm_lines(world.engine, world.chain.id) == []
    honest.close()
    world.assert_as_straight()


def test_rescan_reports_wrong_rows(world: Followed) -> None:
    for _ in range(3):
        world.node.plain()
    first, last = world.chain.first_height, Height(world.node.height)
    world.follow()
    with world.owner.begin() as conn:
        conn.execute(evm_logs.update().values(data=b"\0").where(evm_logs.c.height == last))
    reader = world.reader()
    found = rescan(world.engine, reader.read, world.chain, first, last)
    with world.faulty.faulty(EmptyLogs()):
        world.bloom_is_reliable = False
        world.starting_at(first)
        blind = world.reader()
        missed = rescan(world.engine, blind.read, world.chain, first, first)
        blind.close()
    reader.close()
    assert len(found) == 2
    assert all("otherwise" in each for each in found)
    assert all("the other nodes do not have it" in each for each in missed)


# What is kept


def test_packets_of_other_applications_are_not_stored(world: Followed) -> None:
    world.node.mine(packet_of_others(1), oft_send(80_001), packet_of_others(2))
    (progress,) = world.follow()
    assert (progress.events, progress.undecodable) == (1, 0)
    with world.engine.connect() as conn:
        assert conn.scalars(select(evm_logs.c.event)).all() == ["OftSent"]


def assert_stopped(world: Followed, alarm: str) -> None:
    """On hold (once there is a cursor to say so on), and alarmed."""
    cursor = world.cursor()
    assert cursor is None or cursor.held is not None
    assert [each.split()[0] for each in alarm_lines(world.engine, world.chain.id)] == [alarm]


def test_held_chain_resumes_when_its_node_is_mended(world: Followed) -> None:
    mine_story(world)
    world.follow()
    world.node.story(2)
    world.faulty.inject(WrongChainId())
    with pytest.raises(WrongChain):
        follow(
            world.engine,
            reader := world.reader(),
            world.network,
            should_stop=lambda: False,
            on_progress=lambda progress: None,
        )
    reader.close()
    assert world.cursor().held is not None
    world.faulty.heal()
    world.follow()
    assert world.cursor().held is None
    world.assert_as_straight()
