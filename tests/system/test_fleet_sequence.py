"""The fleet's check of sequences finds each planted fault, and accepts what is right."""

from typing import Any

import pytest

from tests.system.fleet.sequence import SequenceResult, check_sequences
from tests.system.fleet.timeline import longest_pause

COMMITTED = {"provider": [10, 20, 30, 40]}


def _report(ledgers: list[int], snapshots: list[tuple[int, int]]) -> dict[str, Any]:
    return {
        "received": {"provider": [[[ledger, 0.0] for ledger in ledgers]]},
        "snapshots": {"provider": [[[ledger, place, 0.0] for ledger, place in snapshots]]},
    }


@pytest.mark.parametrize(
    ("ledgers", "snapshots"),
    [
        pytest.param([20, 30, 40], [(10, 0)], id="all since the snapshot"),
        pytest.param([10, 20, 30, 40], [(9, 0)], id="snapshot between two changes"),
        pytest.param([20, 40], [(10, 0), (30, 1)], id="second snapshot instead of a change"),
        pytest.param([20], [(10, 0), (40, 1)], id="nothing after a second snapshot"),
    ],
)
def test_exact_sequence_is_accepted(ledgers: list[int], snapshots: list[tuple[int, int]]) -> None:
    result = check_sequences(COMMITTED, _report(ledgers, snapshots))
    assert result == SequenceResult(deliveries=len(ledgers))


@pytest.mark.parametrize(
    ("ledgers", "snapshots", "lost", "twice", "out_of_order"),
    [
        pytest.param([20, 40], [(10, 0)], 1, 0, 0, id="lost in the middle"),
        pytest.param([20, 30], [(10, 0)], 1, 0, 0, id="last one lost"),
        pytest.param([], [(9, 0)], 4, 0, 0, id="all lost"),
        pytest.param([30, 40], [(10, 0), (30, 2)], 1, 0, 0, id="lost before a second snapshot"),
        pytest.param([20, 20, 30, 40], [(10, 0)], 0, 1, 0, id="twice"),
        pytest.param([30, 20, 40], [(10, 0)], 0, 0, 1, id="out of order"),
    ],
)
def test_planted_fault_is_found(
    ledgers: list[int], snapshots: list[tuple[int, int]], lost: int, twice: int, out_of_order: int
) -> None:
    result = check_sequences(COMMITTED, _report(ledgers, snapshots))
    assert (result.lost, result.twice, result.out_of_order) == (lost, twice, out_of_order)
    assert not result.is_exact


@pytest.mark.parametrize(
    ("times", "pause"),
    [
        pytest.param([9.0, 11.0, 19.0, 21.0], 8.0, id="inside"),
        pytest.param([9.0, 18.0, 30.0], 8.0, id="event after the window"),
        pytest.param([], 10.0, id="nothing"),
        pytest.param([10.5, 11.0], 9.0, id="until the end"),
    ],
)
def test_longest_pause_of_a_window(times: list[float], pause: float) -> None:
    assert longest_pause(times, 10.0, 20.0) == pause
