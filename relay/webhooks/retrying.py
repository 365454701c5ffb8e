"""What follows from an attempt: taken, again later, given up, or the end of a webhook. Pure.

A webhook is sent its owner's events one after the other, and an event that is not taken holds up
those behind it: so they come in order, and a place that is down is asked seldom, however much there
is to tell. What is refused for a day is given up, so that nothing is held up for ever.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from relay.webhooks.post import WebhookResponse

DeliveryOutcome: TypeAlias = Literal["delivered", "given_up"]
Stopped: TypeAlias = Literal["gone", "unreachable"]

PAUSES = (5.0, 15.0, 60.0, 300.0, 900.0, 1800.0, 3600.0)
"""Seconds after so many failures in a row; after more, the last."""
MOST_JITTER = 0.2
"""Of a pause, at most, on top: who came back together does not ask together."""
GIVE_UP_SECONDS = 24 * 3600.0
"""After an event's first attempt."""
MOST_GIVEN_UP = 3
"""Events in a row: nobody is there any more."""
GONE = 410


@dataclass(frozen=True, slots=True)
class WebhookState:
    """How a webhook, and the event that is its next, stood before an attempt."""

    failures: int = 0
    """Attempts in a row that were not taken."""
    given_up: int = 0
    """Events in a row."""
    tried_for: float = 0.0
    """Seconds since the event's first attempt."""


@dataclass(frozen=True, slots=True)
class RetryDecision:
    """What came of an attempt."""

    outcome: DeliveryOutcome | None
    """Of the event; None: it is tried again."""
    failures: int = 0
    given_up: int = 0
    pause: float | None = None
    """Seconds until the next attempt at anything; None: none."""
    stopped: Stopped | None = None
    """Why nothing is sent there any more."""


def decide_retry(before: WebhookState, answer: WebhookResponse, chance: float) -> RetryDecision:
    """What follows. `chance` is from 0 to 1."""
    if answer.is_taken:
        return RetryDecision("delivered")
    failures = before.failures + 1
    pause = PAUSES[min(failures, len(PAUSES)) - 1] * (1 + MOST_JITTER * chance)
    if answer.status == GONE:
        return RetryDecision("given_up", failures, before.given_up + 1, pause, "gone")
    if before.tried_for < GIVE_UP_SECONDS:
        return RetryDecision(None, failures, before.given_up, pause)
    given_up = before.given_up + 1
    stopped: Stopped | None = "unreachable" if given_up >= MOST_GIVEN_UP else None
    return RetryDecision("given_up", failures, given_up, pause, stopped)
