"""Webhooks get their owner's events in order, signed, with retries, from one process."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, func, select, text, update
from standardwebhooks import Webhook

from devnet.webhook_receiver import Posted, Receiver
from indexer.errors import NodeUnavailable
from indexer.facts.sessions import lease_session
from relay.webhooks import run, store
from relay.webhooks.post import PROMPT_SECONDS, WebhookResponse
from relay.webhooks.retrying import decide_retry
from relay.webhooks.run import WebhookSender
from relay.webhooks.status import failing_webhooks
from tests.factories.leases import wait_for_standby
from tests.factories.projections import address
from tests.factories.tokens import ACCOUNT
from tests.factories.webhooks import (
    PUBLIC_KEY,
    begun,
    deliveries_of,
    insert_delivery,
    insert_events,
    insert_stages,
    insert_state,
    insert_webhook,
    remove_webhook,
    state_of,
)
from tests.relay.webhooks.conftest import KEY, TIMEOUT, heard, sending
from warehouse_schema import locks
from warehouse_schema.identifiers import StellarAddress
from warehouse_schema.leases import RELAY_LEASES
from warehouse_schema.relay import webhook_deliveries, webhook_senders, webhook_states

OTHER = address(9)
SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="


def until(engine: Engine, is_so: Callable[[Connection], bool]) -> None:
    """Wait for rows."""
    gate, deadline = threading.Event(), 200
    for _ in range(deadline):
        with engine.begin() as conn:
            if is_so(conn):
                return
        gate.wait(0.05)
    raise AssertionError("it never came to that")


def test_new_event_is_posted_with_signatures(
    engine: Engine, relay_engine: Engine, sender: WebhookSender, receiver: Receiver
) -> None:
    with engine.begin() as conn:
        webhook, transfer = insert_webhook(conn, receiver.url, secret=SECRET), begun(conn)
    with sending(relay_engine, sender):
        with engine.begin() as conn:
            insert_stages(conn, transfer, "SUBMITTED")
        assert heard(receiver, 1) == [1]
        until(engine, lambda conn: state_of(conn, webhook) is not None)
    [posted] = receiver.received
    body = json.loads(posted.body)
    assert body.pop("timestamp").endswith("Z")
    assert body == {
        "type": "transfer.changed",
        "data": {
            "number": 1,
            "transfer_id": transfer,
            "stage": "SUBMITTED",
            "status": "pending_anchor",
            "stage_reason": None,
        },
    }
    assert posted.path == "/hooks"
    assert posted.headers["webhook-id"] == f"evt_{transfer}_1"
    by_secret, by_key = posted.headers["webhook-signature"].split()
    assert (by_secret[:3], by_key[:4]) == ("v1,", "v1a,")
    Webhook(SECRET).verify(posted.body, dict(posted.headers))
    with engine.connect() as conn:
        [delivery] = deliveries_of(conn, webhook)
        assert (delivery.attempts, delivery.answer, delivery.outcome) == (1, 204, "delivered")
        state = state_of(conn, webhook)
        assert (state.position, state.failures, state.next_at) == (1, 0, None)
        assert conn.scalars(select(webhook_senders.c.public_key)).all() == [PUBLIC_KEY]


def test_events_of_owner_arrive_in_order(
    engine: Engine, relay_engine: Engine, sender: WebhookSender, receiver: Receiver
) -> None:
    with engine.begin() as conn:
        insert_events(conn, 3)
        insert_webhook(conn, receiver.url, after=3)
        insert_webhook(conn, receiver.url, after=0, owner=OTHER)
        insert_events(conn, 12)
        # An event with the wrong owner is sent to no owner.
        insert_stages(conn, begun(conn), owner=OTHER)
    with sending(relay_engine, sender):
        assert heard(receiver, 12) == list(range(4, 16))
        with engine.begin() as conn:
            insert_events(conn)
        assert heard(receiver, 13)[-1] == 16


def test_failed_event_is_retried_before_later_ones(
    engine: Engine, relay_engine: Engine, sender: WebhookSender, receiver: Receiver
) -> None:
    answers = iter([500, 500, *[204] * 20])
    receiver.answer = lambda _: next(answers)
    with engine.begin() as conn:
        webhook = insert_webhook(conn, receiver.url)
        insert_events(conn, 2)
    with sending(relay_engine, sender) as done:
        for failures in (1, 2):
            until(engine, is_failing(webhook, failures))
            hurry(engine)
        assert heard(receiver, 4) == [1, 1, 1, 2]
        until(engine, has_come_to(webhook, 2))
    ids = [each.headers["webhook-id"] for each in receiver.received]
    assert len(set(ids[:3])) == 1
    with engine.connect() as conn:
        first, second = deliveries_of(conn, webhook)
        assert (first.attempts, first.outcome, second.attempts) == (3, "delivered", 1)
        assert state_of(conn, webhook).failures == 0
    assert (sum(each.delivered for each in done), sum(each.failed for each in done)) == (2, 2)


def is_failing(webhook: str, failures: int) -> Callable[[Connection], bool]:
    def look(conn: Connection) -> bool:
        state = state_of(conn, webhook)
        return state is not None and state.failures == failures and state.next_at is not None

    return look


def hurry(engine: Engine) -> None:
    """End all pauses."""
    with engine.begin() as conn:
        conn.execute(update(webhook_states).values(next_at=func.now()))


def test_refused_events_are_given_up_and_webhook_stops(
    engine: Engine, relay_engine: Engine, sender: WebhookSender, receiver: Receiver
) -> None:
    receiver.answer = lambda _: 503
    with engine.begin() as conn:
        webhook = insert_webhook(conn, receiver.url)
        insert_events(conn, 5)
        for number in (1, 2, 3):
            yesterday = func.now() - text("interval '25 hours'")
            failed = {"answer": 503, "outcome": None, "first_at": yesterday}
            insert_delivery(conn, webhook, number, **failed)
    with sending(relay_engine, sender) as done:
        for position in (1, 2):
            until(engine, has_come_to(webhook, position))
            hurry(engine)
        until(engine, lambda conn: state_of(conn, webhook).stopped == "unreachable")
        hurry(engine)
        with engine.begin() as conn:
            insert_events(conn)
    assert heard(receiver, 3) == [1, 2, 3]
    with engine.connect() as conn:
        assert [each.outcome for each in deliveries_of(conn, webhook)] == ["given_up"] * 3
        assert failing_webhooks(conn) == (0, 1)
    assert sum(each.given_up for each in done) == 3


def has_come_to(webhook: str, position: int) -> Callable[[Connection], bool]:
    def look(conn: Connection) -> bool:
        state = state_of(conn, webhook)
        return state is not None and state.position == position

    return look


def test_removed_webhook_gets_nothing(
    engine: Engine, relay_engine: Engine, sender: WebhookSender, receiver: Receiver
) -> None:
    with engine.begin() as conn:
        remove_webhook(conn, insert_webhook(conn, f"{receiver.url}/old"))
        insert_webhook(conn, receiver.url)
        insert_events(conn)
    with sending(relay_engine, sender):
        heard(receiver, 1)
    assert [each.path for each in receiver.received] == ["/hooks"]


@pytest.fixture
def over() -> threading.Event:
    """Ends the silence of `silent`."""
    return threading.Event()


@pytest.fixture
def silent(receiver: Receiver, over: threading.Event) -> Iterator[Receiver]:
    """Answers only at `/hooks/good`."""

    def answer(posted: Posted) -> int:
        if posted.path != "/hooks/good":
            over.wait(TIMEOUT)
        return 204

    receiver.answer = answer
    yield receiver
    over.set()


def test_silent_webhooks_delay_no_new_webhook(
    engine: Engine,
    relay_engine: Engine,
    sender: WebhookSender,
    silent: Receiver,
    over: threading.Event,
) -> None:
    with engine.begin() as conn:
        for number in range(60):
            # Failing already, so that each of the lane's places is taken at once.
            owner = address(100 + number)
            failing = insert_webhook(conn, f"{silent.url}/never", owner=owner)
            insert_state(conn, failing, 0, failures=1, is_prompt=False)
            insert_events(conn, owner=owner)
    with sending(relay_engine, sender):
        slow = run.MAX_POSTS["slow"]
        assert silent.wait_for(lambda all_: to(all_, "/hooks/never") == slow, TIMEOUT)
        with engine.begin() as conn:
            insert_webhook(conn, f"{silent.url}/good")
            insert_events(conn)
        assert silent.wait_for(lambda all_: to(all_, "/hooks/good") == 1, TIMEOUT)
        # No silent webhook has timed out.
        assert to(silent.received, "/hooks/never") == slow
        over.set()


def test_silent_new_webhook_times_out_after_prompt_seconds(
    engine: Engine, relay_engine: Engine, sender: WebhookSender, silent: Receiver
) -> None:
    with engine.begin() as conn:
        webhook = insert_webhook(conn, f"{silent.url}/never")
        insert_events(conn)
    # The normal timeout would exceed that of the test.
    with sending(relay_engine, replace(sender, prompt_seconds=0.2, whole_seconds=900.0)):
        until(engine, is_failing(webhook, 1))
    with engine.begin() as conn:
        assert not state_of(conn, webhook).is_prompt


def test_webhooks_of_one_owner_wait_for_each_other(connection: Connection) -> None:
    for number in range(5):
        insert_webhook(connection, f"https://never.example/{number}", owner=OTHER)
    insert_webhook(connection)
    insert_events(connection, owner=OTHER)
    insert_events(connection)
    found = store.due_events(connection, "new", busy=(), limit=9)
    assert sorted(due.owner for due in found) == sorted([ACCOUNT, OTHER])
    [other] = store.due_events(connection, "new", busy=[StellarAddress(ACCOUNT)], limit=9)
    assert other.owner == OTHER


def test_webhook_changes_lane_with_response_time(
    connection: Connection,
) -> None:
    webhook = insert_webhook(connection)
    insert_state(connection, webhook, 0)
    insert_events(connection, 2)
    [due] = store.due_events(connection, "prompt", busy=(), limit=9)
    taken = WebhookResponse(204, None, seconds=PROMPT_SECONDS)
    store.record_attempt(connection, due, taken, decide_retry(due.state, taken, 0.0))
    assert store.due_events(connection, "prompt", busy=(), limit=9) == []
    [due] = store.due_events(connection, "slow", busy=(), limit=9)
    again = replace(taken, seconds=0.1)
    store.record_attempt(connection, due, again, decide_retry(due.state, again, 0.0))
    assert state_of(connection, webhook).is_prompt


def to(posted: list[Posted], path: str) -> int:
    return sum(each.path == path for each in posted)


def test_unrecorded_attempt_is_repeated_with_same_id(
    engine: Engine, relay_engine: Engine, sender: WebhookSender, receiver: Receiver
) -> None:
    answered = threading.Event()

    def answer(_: Posted) -> int:
        # The session is lost while the first attempt is running.
        if len(receiver.received) == 1:
            with engine.connect() as conn:
                conn.execute(
                    text(
                        "SELECT pg_terminate_backend(session_pid) FROM relay.leases"
                        " WHERE kind = 7049"
                    )
                )
            answered.set()
        return 204

    receiver.answer = answer
    with engine.begin() as conn:
        webhook = insert_webhook(conn, receiver.url)
        insert_events(conn, 2)
    with sending(relay_engine, sender):
        assert heard(receiver, 3) == [1, 1, 2]
        until(engine, has_come_to(webhook, 2))
    first, again, _ = receiver.received
    assert answered.is_set()
    assert (first.headers["webhook-id"], first.body) == (again.headers["webhook-id"], again.body)


class KeyOfAService:
    """A key whose service fails at first."""

    public_key = KEY.public_key

    def __init__(self, fails: int) -> None:
        self.left = fails

    def sign(self, message: bytes) -> bytes:
        self.left -= 1
        if self.left >= 0:
            raise NodeUnavailable("the service does not answer")
        return KEY.sign(message)


def test_key_service_outage_counts_no_failed_attempt(
    engine: Engine,
    relay_engine: Engine,
    sender: WebhookSender,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run, "_KEY_PAUSE_SECONDS", 0.05)
    key = KeyOfAService(fails=2)
    with engine.begin() as conn:
        webhook = insert_webhook(conn, receiver.url)
        insert_events(conn, 2)
    with sending(relay_engine, replace(sender, key=key)) as done:
        assert heard(receiver, 2) == [1, 2]
        until(engine, has_come_to(webhook, 2))
    assert key.left < 0
    assert sum(each.failed for each in done) == 0
    with engine.connect() as conn:
        assert {row.attempts for row in deliveries_of(conn, webhook)} == {1}


@pytest.mark.usefixtures("long_leases")
def test_second_sender_waits_as_standby(
    engine: Engine, relay_engine: Engine, sender: WebhookSender, receiver: Receiver
) -> None:
    with engine.begin() as conn:
        insert_webhook(conn, receiver.url)
        insert_events(conn, 1)
    with ExitStack() as stack:
        with lease_session(relay_engine, locks.WEBHOOKS, "", "held", tables=RELAY_LEASES):
            stack.enter_context(sending(relay_engine, sender))
            wait_for_standby(engine, RELAY_LEASES, locks.WEBHOOKS, "")
            assert receiver.received == []
        assert heard(receiver, 1) == [1]


def test_running_attempt_is_recorded_at_stop(
    engine: Engine, relay_engine: Engine, sender: WebhookSender, receiver: Receiver
) -> None:
    began, over = threading.Event(), threading.Event()

    def answer(_: Posted) -> int:
        began.set()
        over.wait(TIMEOUT)
        return 204

    receiver.answer = answer
    with engine.begin() as conn:
        webhook = insert_webhook(conn, receiver.url)
        insert_events(conn, 3)
    with sending(relay_engine, sender):
        assert began.wait(TIMEOUT)
        threading.Timer(0.3, over.set).start()
    with engine.connect() as conn:
        assert state_of(conn, webhook).position == len(receiver.received) == 1


def test_deliveries_are_forgotten_with_event_or_webhook(engine: Engine) -> None:
    with engine.begin() as conn:
        old = {"last_at": func.now() - text("interval '31 days'")}
        kept, removed = insert_webhook(conn), insert_webhook(conn)
        removed_lately = insert_webhook(conn)
        insert_events(conn, 2)
        remove_webhook(conn, removed, days_ago=31)
        remove_webhook(conn, removed_lately, days_ago=29)
        for webhook in (kept, removed, removed_lately):
            insert_delivery(conn, webhook, 1, **old)
            insert_delivery(conn, webhook, 2)
            # Its event is deleted.
            insert_delivery(conn, webhook, 9, **old)
            insert_delivery(conn, webhook, 8)
        assert store.forget_deliveries(conn) == 4
        left: dict[Any, list[int]] = {}
        for row in conn.execute(select(webhook_deliveries).order_by(webhook_deliveries.c.number)):
            left.setdefault(row.webhook, []).append(row.number)
        assert left == {kept: [1, 2, 8], removed: [2, 8], removed_lately: [1, 2, 8]}
