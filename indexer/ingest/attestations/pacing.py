"""Intervals between polls of a message: short around the expected time, long far from it."""

import math

from indexer.config.networks import Network
from indexer.movements.polls import MAX_POLL_SECONDS, WaitingMessage

MIN_SECONDS = 5
"""Minimum between two polls of a message; the maximum is `MAX_POLL_SECONDS`."""

_DIVISOR = 8
"""The interval is this part of the time to, or since, the expected moment."""
_NORMAL_ATTEMPTS = 100
_FAST_SECONDS = 20
_REATTEST_SECONDS = 60
_DELIVERY_SECONDS = 300


def next_poll(age_seconds: int, attempts: int, expected_seconds: int) -> int:
    """Seconds until the next poll of a message that has waited `age_seconds`.

    `expected_seconds` is the usual wait. After many attempts the interval doubles each time, even
    if a clock makes the age wrong.
    """
    distance = abs(max(0, age_seconds) - expected_seconds) // _DIVISOR
    doublings = min(max(0, attempts - _NORMAL_ATTEMPTS), 10)
    return min(MAX_POLL_SECONDS, max(distance, MIN_SECONDS << doublings))


def seconds_to_wait(network: Network, wait: WaitingMessage, now: int, *, is_fast: bool) -> int:
    """Seconds until the next poll of a message that was polled just now."""
    if wait.purpose == "reattestation":
        expected = _REATTEST_SECONDS
    elif wait.purpose == "status":
        expected = _DELIVERY_SECONDS
    else:
        chain = network.chain(wait.chain)
        until_final = math.ceil((chain.confirmations + 1) * chain.block_seconds)
        expected = min(_FAST_SECONDS, until_final) if is_fast else until_final
    return next_poll(now - wait.since, wait.attempts + 1, expected)
