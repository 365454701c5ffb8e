"""Decisions after an attempt: delivered, retry, give up, stop."""

import pytest

from relay.webhooks.post import WebhookResponse
from relay.webhooks.retrying import (
    GIVE_UP_SECONDS,
    PAUSES,
    RetryDecision,
    WebhookState,
    decide_retry,
)

TAKEN, DOWN = WebhookResponse(204, None), WebhookResponse(None, "TimeoutError")


@pytest.mark.parametrize("status", [200, 201, 204, 299])
def test_success_resets_failures(status: int) -> None:
    before = WebhookState(failures=9, given_up=2, tried_for=2 * GIVE_UP_SECONDS)
    assert decide_retry(before, WebhookResponse(status, None), 0.5) == RetryDecision("delivered")


@pytest.mark.parametrize(
    "answer", [DOWN, *(WebhookResponse(s, None) for s in (199, 301, 404, 429, 500))]
)
def test_other_status_is_retried(answer: WebhookResponse) -> None:
    assert decide_retry(WebhookState(), answer, 0) == RetryDecision(None, 1, 0, 5.0)


def test_pauses_grow_to_one_hour() -> None:
    pauses = [decide_retry(WebhookState(failures=n), DOWN, 0).pause for n in range(len(PAUSES) + 3)]
    assert pauses == [*PAUSES, *[3600.0] * 3]


def test_jitter_spreads_retries() -> None:
    first = decide_retry(WebhookState(failures=8), DOWN, 0.0).pause
    last = decide_retry(WebhookState(failures=8), DOWN, 1.0).pause
    assert (first, last) == (3600.0, 4320.0)


def test_event_is_given_up_after_a_day() -> None:
    before = WebhookState(failures=20, tried_for=GIVE_UP_SECONDS)
    assert decide_retry(before, DOWN, 0) == RetryDecision("given_up", 21, 1, 3600.0)


def test_third_given_up_event_stops_webhook() -> None:
    before = WebhookState(failures=70, given_up=2, tried_for=GIVE_UP_SECONDS + 5)
    assert decide_retry(before, DOWN, 0) == RetryDecision("given_up", 71, 3, 3600.0, "unreachable")


def test_status_410_stops_webhook() -> None:
    assert decide_retry(WebhookState(), WebhookResponse(410, None), 0) == RetryDecision(
        "given_up", 1, 1, 5.0, "gone"
    )
