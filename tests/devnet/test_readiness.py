"""Waiting of the demo for chains that are healthy."""

from collections.abc import Iterator
from typing import Any

import pytest

from devnet import verify
from devnet.verify import NotCaughtUp, wait_until_ready
from isthmus_client import ChainReadiness, Readiness

READY = Readiness(status="ready")


def standing_still(height: int) -> Readiness:
    chain = ChainReadiness(
        chain="stellar:devnet", height=height, lag_seconds=0, age_seconds=45, reason="STOPPED"
    )
    return Readiness(chains=(chain,), code="NOT_READY", message="stellar:devnet stands still")


class Answers:
    """An API whose `/readyz` gives these answers, one after the other."""

    def __init__(self, answers: Iterator[Readiness]) -> None:
        self.readiness = answers.__next__


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "_LEDGER_SECONDS", 0.0)


def wait(answers: list[Readiness], deadline_seconds: float) -> tuple[Readiness, int]:
    """The answer that is returned, and how many ledgers were closed."""
    api: Any = Answers(iter(answers))
    closed: list[bool] = []
    ready = wait_until_ready(
        api,
        check=lambda: None,
        close_ledger=lambda: closed.append(True),
        deadline_seconds=deadline_seconds,
    )
    return ready, len(closed)


def test_healthy_chains_are_not_waited_for() -> None:
    assert wait([READY], 60) == (READY, 0)


def test_ledgers_are_closed_until_the_chain_is_healthy() -> None:
    assert wait([standing_still(7), standing_still(8), READY], 60) == (READY, 2)


def test_chain_that_does_not_move_is_reported() -> None:
    with pytest.raises(NotCaughtUp, match="NOT_READY: stellar:devnet stands still"):
        wait([standing_still(7)] * 1_000, -1)
