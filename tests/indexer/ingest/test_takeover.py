"""Two followers of a chain: one writes, and the other goes on after any fault of the first."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.engine import URL

from tests.factories.leases import wait_for_blocked
from tests.factories.takeover import FAULTS, Contender, Stage, follower_contest, staged


@pytest.fixture
def stage(engine: Engine, database: URL) -> Iterator[Stage]:
    with staged(follower_contest(), engine, database) as stage:
        yield stage


def becomes_standby(stage: Stage, contender: Contender) -> None:
    stage.observer.wait_for_standby(contender)
    assert contender.process.poll() is None


@pytest.mark.parametrize("fault", ["stop", "blackhole"])
def test_standby_goes_on_and_the_stale_follower_waits(stage: Stage, fault: str) -> None:
    first, second = stage.start_both()
    FAULTS[fault](first)
    stage.observer.wait_for_write(second)
    first.recover()
    becomes_standby(stage, first)
    assert stage.observer.last_holder() == second.pid
    FAULTS["kill"](second)
    stage.observer.wait_for_write(first)


def test_stopped_transaction_does_not_keep_the_standby_out(stage: Stage, engine: Engine) -> None:
    """The follower is stopped within a range, whose transaction has the fence's row lock.

    Postgres has its rows and waits for its COMMIT then. Of a longer range it would wait for rows in
    a COPY, where no timeout for idle transactions ends a session.
    """
    first, second = stage.start_both()
    with engine.connect() as gate:
        gate.execute(text("LOCK TABLE facts.blocks IN EXCLUSIVE MODE"))
        wait_for_blocked(gate)
        first.stop()
    stage.observer.wait_for_write(second)
    first.recover()
    becomes_standby(stage, first)
    assert stage.observer.last_holder() == second.pid


def test_ended_follower_hands_over_at_once(stage: Stage) -> None:
    first, second = stage.start_both()
    first.process.terminate()
    first.process.wait(30)
    # Released, not expired.
    assert stage.observer.active() in (None, second.pid)
    stage.observer.wait_for_write(second)


def test_both_followers_ingest_each_block_once(stage: Stage, engine: Engine) -> None:
    first, second = stage.start_both()
    for _ in range(3):
        first.stop()
        stage.observer.wait_for_write(second)
        first.recover()
        becomes_standby(stage, first)
        first, second = second, first
    with engine.connect() as conn:
        counted = conn.execute(
            text("SELECT count(*), max(height) - min(height) + 1 FROM facts.blocks")
        ).one()
    assert counted[0] == counted[1]
