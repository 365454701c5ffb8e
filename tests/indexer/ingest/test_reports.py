"""Follower reports between blocks, and `status` without them."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, select, update

from indexer.chains.raw import Upgrade
from indexer.cli.main import main
from indexer.errors import NodeUnavailable
from indexer.facts.checks import alarm_lines
from indexer.ingest import follow as following
from indexer.ingest.follow import follow
from tests.factories.cursors import set_cursor_times
from tests.factories.fake_chain import ETHEREUM, FakeChain, fake_network
from warehouse_schema.facts import cursors
from warehouse_schema.identifiers import Height

NETWORK = fake_network()


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "REPORT_SECONDS", 0.0)


@pytest.fixture
def status(
    indexer_engine: Engine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[], tuple[int, str]]:
    """Runs `isthmus status`; its exit code and Ethereum's line."""
    monkeypatch.setenv("ISTHMUS_NETWORK", "mainnet")
    monkeypatch.setenv("DATABASE_URL", "postgresql:///unused")
    monkeypatch.setattr("indexer.config.warehouse.open_engine", lambda *_, **__: indexer_engine)

    def run() -> tuple[int, str]:
        code = main(["status"])
        lines = capsys.readouterr().out.splitlines()
        (line,) = [line for line in lines if line.startswith(f"{ETHEREUM}:")]
        return code, line

    return run


def make_chain() -> FakeChain:
    chain = FakeChain(NETWORK)
    chain.grow(3)
    return chain


def read(engine: Engine) -> Any:
    with engine.connect() as conn:
        return conn.execute(select(cursors)).one()


def age(engine: Engine, *columns: str, seconds: int) -> None:
    """Let it be so long ago, by the database's clock."""
    with engine.begin() as conn:
        set_cursor_times(conn, timedelta(seconds=-seconds), *columns)


def follow_until(engine: Engine, chain: FakeChain, is_over: Callable[[], bool]) -> None:
    follow(engine, chain, NETWORK, should_stop=is_over, on_progress=lambda progress: None)


def test_follower_at_the_head_reports(indexer_engine: Engine):
    chain = make_chain()
    follow_until(indexer_engine, chain, lambda: _height(indexer_engine) == 3)
    age(indexer_engine, "updated_at", "reported_at", seconds=500)
    before = read(indexer_engine)
    follow_until(
        indexer_engine, chain, lambda: read(indexer_engine).reported_at > before.reported_at
    )
    after = read(indexer_engine)
    assert (after.height, after.updated_at) == (before.height, before.updated_at)


def test_failure_is_reported_until_the_node_answers(
    indexer_engine: Engine, monkeypatch: pytest.MonkeyPatch
):
    chain = make_chain()
    follow_until(indexer_engine, chain, lambda: _height(indexer_engine) == 3)

    def fail(above: Height, timeout: float) -> None:
        raise NodeUnavailable("node:8545: ConnectError")

    with monkeypatch.context() as dead:
        dead.setattr(chain, "wait_for_head", fail)
        follow_until(indexer_engine, chain, lambda: read(indexer_engine).failure is not None)
    assert read(indexer_engine).failure == "node:8545: ConnectError"
    follow_until(indexer_engine, chain, lambda: read(indexer_engine).failure is None)


AGED = r"(9[5-9]|1\d\d) s"
"""95 s, or more on a busy machine."""


@pytest.mark.parametrize(
    ("aged", "reason"),
    [
        pytest.param(("updated_at", "reported_at"), "NOT_FOLLOWED", id="dead_follower"),
        pytest.param(("updated_at",), "STOPPED", id="frozen_node"),
    ],
)
def test_status_fails_for_a_chain_that_stands_still(
    indexer_engine: Engine, status, aged: tuple[str, ...], reason: str
):
    follow_until(indexer_engine, make_chain(), lambda: _height(indexer_engine) == 3)
    code, line = status()
    assert (code, line) == (0, f"{ETHEREUM}: at 3 of 3, 0 s behind")
    age(indexer_engine, *aged, seconds=95)
    code, line = status()
    assert code == 1
    said = f"as its follower said {AGED} ago, " if reason == "NOT_FOLLOWED" else ""
    assert re.match(f"{ETHEREUM}: at 3 of 3, 0 s behind, {said}{reason}: .* {AGED}", line)


def test_status_names_why_a_node_cannot_be_read(indexer_engine: Engine, status):
    follow_until(indexer_engine, make_chain(), lambda: _height(indexer_engine) == 3)
    age(indexer_engine, "updated_at", seconds=95)
    with indexer_engine.begin() as conn:
        conn.execute(update(cursors).values(failure="node:8545: ConnectError"))
    code, line = status()
    assert code == 1
    assert re.search(f"NODE_FAILING: no new block for {AGED}: node:8545: ConnectError$", line)


@dataclass
class ChainWithUpgrade(FakeChain):
    """A chain whose node says what it is ready for."""

    ahead: Upgrade | None = None

    def upgrade_ahead(self) -> Upgrade | None:
        return self.ahead


def test_upgrade_ahead_is_alarm_and_status(
    indexer_engine: Engine, status, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(following, "_UPGRADE_SECONDS", 0.0)
    chain = ChainWithUpgrade(NETWORK, ahead=Upgrade(31, "node:8000 is ready for protocol 31"))
    chain.grow(3)
    follow_until(indexer_engine, chain, lambda: _protocol_ahead(indexer_engine) == 31)
    code, line = status()
    assert code == 1
    assert line == (
        f"{ETHEREUM}: at 3 of 3, 0 s behind, 1 open alarms, protocol 31 is ahead, which this build "
        "cannot read"
    )
    assert alarm_lines(indexer_engine, ETHEREUM) == [
        "protocol_ahead protocol: node:8000 is ready for protocol 31"
    ]
    # Under a build that reads it, the reader no longer says so.
    chain.ahead = None
    follow_until(indexer_engine, chain, lambda: _protocol_ahead(indexer_engine) is None)
    assert status()[0] == 0
    assert alarm_lines(indexer_engine, ETHEREUM) == []


def _protocol_ahead(engine: Engine) -> int | None:
    with engine.connect() as conn:
        return conn.scalar(select(cursors.c.protocol_ahead))


def _height(engine: Engine) -> int | None:
    with engine.connect() as conn:
        return conn.scalar(select(cursors.c.height))
