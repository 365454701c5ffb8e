"""When a message is asked about again: often about the usual moment, seldom far from it."""

import math

from indexer.config.networks import Network
from indexer.movements.polls import MAX_POLL_SECONDS, WaitingMessage

MIN_SECONDS = 5
"""Least between two polls of a message; the most is `waits.LONGEST_SECONDS`."""

_CLOSER = 8
"""A poll comes after this part of the time between now and the usual moment."""
_USUAL_ATTEMPTS = 100
_FAST_SECONDS = 20
_REATTEST_SECONDS = 60
_DELIVERY_SECONDS = 300


def next_poll(age_seconds: int, attempts: int, expected_seconds: int) -> int:
    """Seconds until a message is asked about again.

    `age_seconds` is how long it has waited, `expected_seconds` how long such messages usually do,
    `attempts` how often it was asked about. Polls close in on the usual moment and move apart after
    it, from `SHORTEST_SECONDS` to `LONGEST_SECONDS`. Beyond many attempts the pause doubles each
    time, whatever a clock makes of the age.
    """
    distance = abs(max(0, age_seconds) - expected_seconds) // _CLOSER
    doublings = min(max(0, attempts - _USUAL_ATTEMPTS), 10)
    return min(MAX_POLL_SECONDS, max(distance, MIN_SECONDS << doublings))


def seconds_to_wait(network: Network, wait: WaitingMessage, now: int, *, is_fast: bool) -> int:
    """Until the next poll of what was asked about just now."""
    expected = _expected_seconds(network, wait, is_fast=is_fast)
    return next_poll(now - wait.since, wait.attempts + 1, expected)


def _expected_seconds(network: Network, wait: WaitingMessage, *, is_fast: bool) -> int:
    """When an answer is usually there, seconds from the start of the wait: for pacing alone."""
    if wait.purpose == "reattestation":
        return _REATTEST_SECONDS
    if wait.purpose == "status":
        return _DELIVERY_SECONDS
    chain = network.chain(wait.chain)
    until_final = math.ceil((chain.confirmations + 1) * chain.block_seconds)
    return min(_FAST_SECONDS, until_final) if is_fast else until_final
