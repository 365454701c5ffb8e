"""Webhook receivers of the chaos harness: accepted events and detected problems."""

import random
import time
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from stellar_sdk import Keypair

from devnet.keys import public_webhook_key
from devnet.stellar.accounts import keypair
from devnet.webhook_receiver import Posted, Receiver
from isthmus_client import Delivery, TransferChanged, WebhookEvent
from relay.keys import LocalStellarKey
from relay.webhooks.run import event_body, event_id
from relay.webhooks.signing import signed_headers
from relay.webhooks.store import TransferEvent
from tests.system.chaos.transfers.hooks import Hooks, Place
from warehouse_schema.identifiers import UnixSeconds

AT = datetime(2026, 11, 22, tzinfo=UTC)
TRANSFER = "5e" * 16
STAGES = ("FUNDED", "DELIVERING", "COMPLETED")
ENDS = {TRANSFER: "COMPLETED"}


def event(number: int, stage: str) -> TransferEvent:
    return TransferEvent(
        number=number, transfer=TRANSFER, stage=stage, status="x", reason=None, told_at=AT
    )


def listed(number: int, stage: str, state: str = "delivered") -> WebhookEvent:
    sent = Delivery(state=state, attempts=1, first_at=AT, last_at=AT, status=204, error=None)
    return WebhookEvent(
        number=number,
        at=AT,
        transfer_id=TRANSFER,
        stage=stage,
        status="x",
        stage_reason=None,
        delivery=sent,
    )


def told(place: Place, *numbers: int) -> Place:
    """A place that took these of its owner's events, of which there are three."""
    for number in numbers:
        body = event_body(event(number, STAGES[number - 1]))
        place.take(TransferChanged.model_validate_json(_with_id(body, number)), body)
    place.listed = tuple(listed(number, stage) for number, stage in enumerate(STAGES, 1))
    return place


def _with_id(body: bytes, number: int) -> bytes:
    return body.replace(b"{", b'{"id":"%s",' % event_id(event(number, "x")).encode(), 1)


@pytest.mark.parametrize("numbers", [(1, 2, 3), (1, 1, 2, 1, 3, 2)])
def test_ordered_and_repeated_events_are_no_problem(numbers: tuple[int, ...]) -> None:
    assert told(Place("a"), *numbers).problems(ENDS) == []


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ((1, 3), "evt_5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e_2, DELIVERING, was not taken"),
        ((1, 2), "told last"),
        ((2, 1, 3), "told in the order [2, 1, 3]"),
    ],
)
def test_missing_or_unordered_event_is_a_problem(numbers: tuple[int, ...], said: str) -> None:
    assert any(said in each for each in told(Place("a"), *numbers).problems(ENDS))


def test_event_id_with_two_bodies_is_a_problem() -> None:
    place = told(Place("a"), 1, 2, 3)
    again = event_body(replace(event(2, STAGES[1]), reason="another"))
    place.take(TransferChanged.model_validate_json(_with_id(again, 2)), again)
    [problem] = place.problems(ENDS)
    assert problem.endswith("was told with another body")


def test_taken_event_listed_as_owed_is_a_problem() -> None:
    place = told(Place("a"), 1, 2, 3)
    place.listed = (*place.listed[:2], listed(3, "COMPLETED", "given_up"))
    [problem] = place.problems(ENDS)
    assert "was taken, and is called given_up" in problem


def test_event_unknown_to_its_owner_is_a_problem() -> None:
    place = told(Place("a"), 1, 2, 3)
    place.listed = place.listed[:2]
    [problem] = place.problems(ENDS)
    assert problem.endswith("_3 was told, and is no event")
    place.taken_before = 2
    assert place.problems(ENDS) == []


def test_place_is_settled_once_the_end_is_delivered() -> None:
    place = told(Place("a"), 1, 2, 3)
    assert place.is_settled(ENDS)
    place.listed = (*place.listed[:2], listed(3, "COMPLETED", "pending"))
    assert not place.is_settled(ENDS)
    place.listed = place.listed[:2]
    assert not place.is_settled(ENDS)


class _Wallet:
    def be_told(self, url: str) -> str:
        return url


def post(key: Keypair, number: int) -> Posted:
    body = event_body(event(number, "FUNDED"))
    signer = LocalStellarKey.from_text(key.secret, "test")
    at = UnixSeconds(int(time.time()))
    return Posted("/hooks/0", signed_headers([signer], f"evt_{number}", at, body), body)


def test_receiver_refuses_at_most_twice_until_healed() -> None:
    receiver = Receiver("https://localhost/hooks")
    places = Hooks(receiver, public_webhook_key(), random.Random(1), rate=1.0)
    places.register("a", _Wallet())  # type: ignore[arg-type]
    sender = keypair("webhooks")
    assert [receiver.take(post(sender, 1)) == 204 for _ in range(3)] == [False, False, True]
    places.heal()
    assert [receiver.take(post(sender, number)) for number in (2, 3)] == [204, 204]
    assert [each.id for each in places.places["a"].taken] == ["evt_1", "evt_2", "evt_3"]


def test_wrong_signature_is_refused_and_a_problem() -> None:
    receiver = Receiver("https://localhost/hooks")
    places = Hooks(receiver, public_webhook_key(), random.Random(1), rate=0.0)
    places.register("a", _Wallet())  # type: ignore[arg-type]
    assert receiver.take(post(keypair("sponsor"), 1)) == 400
    assert places.places["a"].taken == []
    assert any("not to be trusted" in each for each in places.problems({}))
