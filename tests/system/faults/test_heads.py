"""New heads over a WebSocket that drops, falls silent, skips and reorders."""

import threading
from collections.abc import Callable

import pytest

from indexer.chains.evm import heads
from indexer.chains.evm.reader import EvmReader
from indexer.chains.ports import Block
from indexer.decode.evm import event_topics
from indexer.ingest.ranges import RangeProgress
from tests.system.faults.lies import StaleBackend
from tests.system.faults.world import Followed
from warehouse_schema.identifiers import Height


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket that would not open is tried again soon; one that is slow to open is waited for."""
    monkeypatch.setattr(heads, "_RECONNECT_SECONDS", 0.05)
    monkeypatch.setattr(heads, "_SOCKET_SECONDS", 20.0)


class Scripted(EvmReader):
    """Does the next step whenever it waits for a head and has its socket open."""

    def __init__(self, world: Followed, *steps: Callable[[], object]) -> None:
        super().__init__(
            world.chain, [world.faulty.url, world.faulty.ws_url], event_topics, timeout=5.0
        )
        self.world = world
        self.steps = list(steps)

    def wait_for_head(self, above: Height, timeout: float) -> Block | None:
        head = super().wait_for_head(above, 0.0)
        if head is not None:
            return head
        if self.steps:
            self.steps.pop(0)()
        return super().wait_for_head(above, timeout)

    def is_over(self) -> bool:
        return not self.steps and self.world.is_at_head()

    def run(self) -> list[RangeProgress]:
        return self.world.follow(reader=self, until=self.is_over)


def assert_each_once(world: Followed, done: list[RangeProgress]) -> None:
    """Ranges follow each other without a gap and without an overlap, whatever was pushed."""
    reached = world.chain.first_height - 1
    for progress in done:
        assert progress.height == reached + progress.blocks
        reached = progress.height
    world.assert_as_straight()


def test_heads_are_pushed(world: Followed) -> None:
    world.node.plain()
    heads = world.faulty.heads
    before = heads.subscriptions

    def grow() -> None:
        world.node.plain()
        heads.wait_for(world.node.height)

    done = Scripted(world, *[grow] * 8).run()
    assert heads.subscriptions == before + 1
    assert [progress.blocks for progress in done] == [1] * 9
    assert_each_once(world, done)


def test_gap_after_dropped_socket_is_filled(world: Followed) -> None:
    world.node.plain()
    heads = world.faulty.heads
    before = heads.subscriptions

    def drop_and_miss_five() -> None:
        heads.drop()
        for _ in range(5):
            world.node.plain()

    steps = [world.node.plain, drop_and_miss_five, world.node.plain, drop_and_miss_five]
    done = Scripted(world, *steps, world.node.plain).run()
    assert heads.subscriptions >= before + 2
    assert_each_once(world, done)


def test_unpushed_heads_are_filled_in(world: Followed) -> None:
    world.node.plain()
    heads = world.faulty.heads

    def skip_four() -> None:
        heads.is_silent = True
        for _ in range(4):
            world.node.plain()
        heads.wait_for(world.node.height)
        heads.is_silent = False
        world.node.plain()

    done = Scripted(world, world.node.plain, skip_four, world.node.plain).run()
    assert_each_once(world, done)


def test_silent_subscription_is_renewed(world: Followed) -> None:
    world.node.plain()
    heads = world.faulty.heads
    before = heads.subscriptions

    def fall_silent() -> None:
        heads.is_silent = True
        world.node.plain()

    steps = [world.node.plain, fall_silent, world.node.plain, world.node.plain, world.node.plain]
    try:
        done = Scripted(world, *steps).run()
    finally:
        heads.is_silent = False
    assert heads.subscriptions >= before + 2
    assert_each_once(world, done)


@pytest.mark.parametrize(
    "order",
    [
        lambda held: held[::-1],
        lambda held: held[1:] + held[:1],
        lambda held: held + held,
        lambda held: held[-1:] + held,
    ],
    ids=["newest first", "oldest last", "twice", "old ones again"],
)
def test_unordered_heads_change_nothing(world: Followed, order) -> None:
    world.node.plain()
    heads = world.faulty.heads

    def shuffle() -> None:
        heads.wait_for(world.node.height)
        heads.held = []
        for _ in range(5):
            world.node.plain()
        heads.wait_for(world.node.height)
        assert heads.let_go(order) == 5

    done = Scripted(world, world.node.plain, shuffle, world.node.plain, shuffle).run()
    assert_each_once(world, done)


def test_pushed_head_is_awaited_from_the_node(world: Followed) -> None:
    world.node.plain()
    lagging = StaleBackend(3)

    def lag() -> None:
        world.faulty.inject(lagging, times=12)
        for _ in range(3):
            world.node.plain()

    done = Scripted(world, world.node.plain, lag, world.node.plain).run()
    assert lagging.fired
    assert_each_once(world, done)


def test_reorged_heads_rewind(world: Followed) -> None:
    for _ in range(6):
        world.node.plain()

    def turn() -> None:
        world.node.reorg(4)
        world.node.plain()

    Scripted(world, world.node.plain, turn, world.node.plain, turn, turn, world.node.plain).run()
    world.assert_as_straight()


def test_heads_during_a_read_are_not_lost(world: Followed) -> None:
    world.node.plain()

    def mine() -> None:
        for _ in range(30):
            world.node.plain()

    mining = threading.Thread(target=mine)
    started: list[RangeProgress] = []

    def start(progress: RangeProgress) -> None:
        if not started:
            mining.start()
        started.append(progress)

    urls = (world.faulty.url, world.faulty.ws_url)
    last = world.node.height + 30
    world.follow(*urls, after=start, until=lambda: bool(started) and started[-1].height == last)
    mining.join()
    assert_each_once(world, started)
