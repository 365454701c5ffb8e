"""Reorgs of a real node: shallow ones are followed, final ones stop the chain."""

from dataclasses import replace

import pytest
from sqlalchemy import select, update

from indexer.errors import DeepReorg
from indexer.facts.checks import alarm_lines
from indexer.ingest import ranges as drain
from indexer.ingest.ranges import RangeProgress
from tests.system.faults.lies import FinalOnAnotherFork, FlippingTags, TagsAt
from tests.system.faults.refusals import After, NoTags
from tests.system.faults.world import Followed, contents, oft_send
from warehouse_schema.events import oft_sent
from warehouse_schema.facts import cursors, orphans

K = 8
"""Confirmations of the chain."""


def mine_story(world: Followed) -> None:
    """More blocks than are ever taken back, with something of ours in each."""
    for _ in range(K + 4):
        world.node.plain()


@pytest.mark.parametrize("depth", [1, K - 1, K])
@pytest.mark.parametrize("grown", [0, 1])
def test_reorg_up_to_finality_equals_a_straight_run(
    world: Followed, depth: int, grown: int
) -> None:
    mine_story(world)
    world.follow()
    world.node.reorg(depth)
    for _ in range(grown):
        world.node.plain()
    world.follow()
    world.assert_as_straight()
    with world.engine.connect() as conn:
        assert len(conn.execute(select(orphans)).all()) == 2 * depth


@pytest.mark.parametrize("depth", [1, K - 1, K])
def test_remined_transactions_stay_and_dropped_ones_are_deleted(
    world: Followed, depth: int
) -> None:
    mine_story(world)
    kept, dropped = world.node.mine(oft_send(91_000 + depth), oft_send(92_000 + depth))
    for _ in range(depth - 1):
        world.node.plain()
    world.follow()
    assert transactions(world) >= {kept, dropped}
    world.node.reorg(depth, remine=[kept])
    world.follow()
    assert kept in transactions(world)
    assert dropped not in transactions(world)
    world.assert_as_straight()


def transactions(world: Followed) -> set[str]:
    with world.engine.connect() as conn:
        return {*conn.scalars(select(oft_sent.c.tx_hash))}


@pytest.mark.parametrize("grown", [0, 1, 3])
def test_reorg_beyond_finality_stops_and_deletes_no_row(world: Followed, grown: int) -> None:
    mine_story(world)
    world.follow()
    before = contents(world.engine)
    world.node.reorg(K + 1)
    for _ in range(grown):
        world.node.plain()
    for _ in range(2):
        # However often it is started again.
        with pytest.raises(DeepReorg, match=f"{K} confirmations"):
            world.follow()
    assert contents(world.engine) == before
    assert world.cursor().held is not None
    (alarm,) = alarm_lines(world.engine, world.chain.id)
    assert alarm.startswith("DeepReorg")


def test_more_confirmations_and_no_final_height_mend_deep_reorg(world: Followed) -> None:
    mine_story(world)
    world.faulty.inject(NoTags())
    world.follow()
    world.node.reorg(K + 1)
    world.node.plain()
    world.chain = replace(world.chain, confirmations=K + 3)
    with pytest.raises(DeepReorg):
        world.follow()
    with world.owner.begin() as conn:
        conn.execute(update(cursors).values(safe_height=None, final_height=None))
    world.follow()
    assert world.cursor().held is None
    world.faulty.heal()
    world.assert_as_straight()


def test_successive_reorgs_do_not_pass_below_finality(world: Followed) -> None:
    """Six blocks are rewound; before a new one arrives, the chain forks at a lower height."""
    mine_story(world)
    turns = [lambda: world.node.reorg(12)]

    def turn(progress: RangeProgress) -> None:
        if progress.blocks < 0 and turns:
            turns.pop()()

    with world.faulty.faulty(NoTags()):
        world.follow()
        final = world.cursor().final_height
        assert final == world.node.height - K
        world.node.reorg(6)
        with pytest.raises(DeepReorg, match="final"):
            world.follow(after=turn)
    assert turns == []
    assert world.cursor().height == world.node.height - 6
    assert world.cursor().final_height == final


@pytest.mark.parametrize(("depth", "is_deep"), [(1, False), (2, False), (3, True), (K, True)])
def test_final_block_is_not_rewound(world: Followed, depth: int, is_deep: bool) -> None:
    mine_story(world)
    with world.faulty.faulty(TagsAt(safe=1, final=2)):
        world.follow()
    before = contents(world.engine)
    world.node.reorg(depth)
    if not is_deep:
        world.follow()
        world.assert_as_straight()
        return
    with pytest.raises(DeepReorg, match="a node said so"):
        world.follow()
    assert contents(world.engine) == before
    assert world.cursor().held is not None


def test_changed_final_hash_stops_the_chain_before_a_fork(
    world: Followed,
) -> None:
    mine_story(world)
    with world.faulty.faulty(TagsAt(safe=1, final=2)):
        world.follow()
    final = world.cursor().final_height
    # What the node serves still joins ours; only what it calls final does not.
    world.node.plain()
    world.faulty.inject(FinalOnAnotherFork(final))
    with pytest.raises(DeepReorg, match="calls 0x"):
        world.follow(until=lambda: False)
    assert world.cursor().final_height == final
    assert world.cursor().held is not None


def test_final_hash_that_differs_from_own_block_is_ignored(world: Followed) -> None:
    mine_story(world)
    with world.faulty.faulty(TagsAt(safe=1, final=2)):
        world.follow()
    world.node.plain()
    with world.faulty.faulty(FlippingTags(safe=3, final=4)):
        world.follow()
    assert world.cursor().held is None
    world.assert_as_straight()


def test_final_block_other_than_stored_makes_no_block_final(world: Followed) -> None:
    mine_story(world)
    with world.faulty.faulty(TagsAt(safe=5, final=6)):
        world.follow()
    final = world.cursor().final_height
    world.node.plain()
    with world.faulty.faulty(FinalOnAnotherFork(final + 3)):
        world.follow()
    assert world.cursor().height == final + 7
    assert world.cursor().final_height == final


def test_reorg_while_not_following_is_found_at_start(world: Followed) -> None:
    mine_story(world)
    world.follow()
    world.node.reorg(5)
    world.node.plain()
    world.node.plain()
    world.follow()
    world.assert_as_straight()


def test_reorg_found_after_a_crash_is_rewound_once(
    world: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine_story(world)
    world.follow()
    before = contents(world.engine)
    world.node.reorg(4)

    def crash(*arguments: object) -> None:
        raise RuntimeError("killed before the commit")

    with monkeypatch.context() as patched:
        patched.setattr(drain, "notify_ingested", crash)
        with pytest.raises(RuntimeError, match="killed"):
            world.follow()
    assert contents(world.engine) == before
    world.follow()
    world.assert_as_straight()
    with world.engine.connect() as conn:
        assert len(conn.execute(select(orphans)).all()) == 8


def test_reorg_between_requests_of_a_range_is_not_mixed(world: Followed) -> None:
    mine_story(world)
    world.follow()
    # More blocks than one request holds, and a reorg of their end after the first request.
    world.node.ask("anvil_mine", hex(110))
    world.node.plain()

    def turn() -> None:
        world.node.reorg(3)
        world.node.plain()

    with world.faulty.faulty(After("eth_getBlockByNumber", turn, least=50), times=1):
        world.follow()
    world.assert_as_straight()


def test_successive_reorgs_end_on_the_last_fork(world: Followed) -> None:
    mine_story(world)
    depths = [2, 5, 1, 7, 3]

    def turn(progress: RangeProgress) -> None:
        if depths:
            world.node.reorg(depths.pop())
            world.node.plain()

    world.follow(after=turn, until=lambda: not depths and world.is_at_head())
    world.assert_as_straight()
