"""Decisions after an attempt: delivered, retry, give up, stop the webhook. Pure.

A webhook gets its owner's events one after the other, and an event that is not delivered delays the
next ones. So they arrive in order, and a URL that is down is called rarely, however many events
wait. An event is given up after a day, so that none delays the others for ever.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from relay.webhooks.post import WebhookResponse

DeliveryOutcome: TypeAlias = Literal["delivered", "given_up"]
Stopped: TypeAlias = Literal["gone", "unreachable"]

PAUSES = (5.0, 15.0, 60.0, 300.0, 900.0, 1800.0, 3600.0)
"""Seconds, by the number of failures in a row; after more failures, the last."""
MAX_JITTER = 0.2
"""Fraction of a pause that is added at most, so that webhooks do not retry all at once."""
GIVE_UP_SECONDS = 24 * 3600.0
"""After an event's first attempt."""
MAX_GIVEN_UP = 3
"""Events in a row, after which the webhook is stopped."""
GONE = 410


@dataclass(frozen=True, slots=True)
class WebhookState:
    """State of a webhook and its next event before an attempt."""

    failures: int = 0
    """Failed attempts in a row."""
    given_up: int = 0
    """Given-up events in a row."""
    tried_for: float = 0.0
    """Seconds since the event's first attempt."""


@dataclass(frozen=True, slots=True)
class RetryDecision:
    """Result of an attempt."""

    outcome: DeliveryOutcome | None
    """Of the event; None when it is retried."""
    failures: int = 0
    given_up: int = 0
    pause: float | None = None
    """Seconds until the webhook's next attempt; None for no pause."""
    stopped: Stopped | None = None
    """Reason why nothing more is sent."""


def decide_retry(before: WebhookState, answer: WebhookResponse, chance: float) -> RetryDecision:
    """Decide after an attempt. `chance`, from 0 to 1, sets the jitter."""
    if answer.is_taken:
        return RetryDecision("delivered")
    failures = before.failures + 1
    pause = PAUSES[min(failures, len(PAUSES)) - 1] * (1 + MAX_JITTER * chance)
    if answer.status == GONE:
        return RetryDecision("given_up", failures, before.given_up + 1, pause, "gone")
    if before.tried_for < GIVE_UP_SECONDS:
        return RetryDecision(None, failures, before.given_up, pause)
    given_up = before.given_up + 1
    stopped: Stopped | None = "unreachable" if given_up >= MAX_GIVEN_UP else None
    return RetryDecision("given_up", failures, given_up, pause, stopped)
