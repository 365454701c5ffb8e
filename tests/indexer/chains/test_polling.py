"""Polling for blocks that follow a regular interval."""

import random
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from statistics import median

import pytest

from indexer.chains.polling import PollSchedule


def looks(
    closes: Sequence[float], block_seconds: float, until: float
) -> Iterator[tuple[float, int]]:
    """Times of looks at a chain whose blocks close then, and how many have closed by each."""
    beat, now, known = PollSchedule(block_seconds), 0.0, 0
    while (now := now + beat.pause(now)) < until:
        closed = sum(close <= now for close in closes)
        beat.record_poll(now, new=closed - known)
        known = closed
        yield now, closed


def lateness(closes: Sequence[float], block_seconds: float) -> list[float]:
    """How long after each close, but for the first, it was seen."""
    seen = list(looks(closes, block_seconds, closes[-1] + 10 * block_seconds))
    return [
        next(at for at, closed in seen if closed > number) - close
        for number, close in enumerate(closes)
    ]


@pytest.mark.parametrize(
    ("apart", "block_seconds"),
    [(0.4, 1.0), (0.6, 1.0), (0.6, 5.0), (1.0, 1.0), (2.0, 5.0), (5.5, 1.0)],
)
def test_regular_blocks_need_few_polls(apart: float, block_seconds: float) -> None:
    closes = [0.03 + apart * number for number in range(100)]
    late = lateness(closes, block_seconds)[12:]
    assert max(late) <= 0.06
    made = [at for at, _ in looks(closes, block_seconds, closes[-1]) if at > closes[12]]
    assert len(made) <= 11 * 87


def test_varying_interval_is_polled_densely_while_a_block_is_due() -> None:
    """As on Stellar's public network: 5 to 6.5 seconds."""
    vary = random.Random(1)
    closes = list(accumulate(vary.uniform(5.0, 6.5) for _ in range(200)))
    late = lateness(closes, 5.5)[30:]
    assert median(late) <= 0.03
    assert sum(each > 0.06 for each in late) <= len(late) // 20
    made = [at for at, _ in looks(closes, 5.5, closes[-1]) if at > closes[30]]
    assert len(made) <= 30 * 170


@pytest.mark.parametrize("apart", [0.05, 0.15])
def test_blocks_between_sparse_polls_are_polled_evenly(apart: float) -> None:
    closes = [0.03 + apart * number for number in range(100)]
    assert max(lateness(closes, 1.0)) <= 0.2 + 1e-9


def test_early_block_is_late_once() -> None:
    closes = [*(0.03 + number for number in range(20)), *(19.2 + 0.3 * n for n in range(20))]
    late = lateness(closes, 1.0)
    assert late[20] <= 0.8
    assert max(late[24:]) <= 0.2 + 1e-9


def test_shifted_interval_is_found_again() -> None:
    closes = [*(0.03 + number for number in range(20)), *(25.5 + number for number in range(20))]
    late = lateness(closes, 1.0)
    assert late[20] <= 0.2 + 1e-9
    assert max(late[23:]) <= 0.06


def test_blocks_in_bursts_are_not_predicted() -> None:
    beat = PollSchedule(1.0)
    for now in (1.0, 2.0, 3.0, 4.0):
        beat.record_poll(now - 0.1, new=0)
        beat.record_poll(now, new=4)
    # A fifth of 0.25 s would be too dense.
    assert round(beat.pause(4.0), 6) == 0.1
    for now in (10.0, 20.0):
        beat.record_poll(now - 0.1, new=0)
        beat.record_poll(now, new=4)
    assert round(beat.pause(20.0), 6) == 0.5


def test_stalled_chain_is_polled_evenly() -> None:
    closes = [0.03 + 5.5 * number for number in range(10)]
    made = [at for at, _ in looks(closes, 5.5, 120.0) if at > closes[-1] + 2 * 5.5 + 1]
    assert {round(after - before, 6) for before, after in pairwise(made)} == {1.0}
