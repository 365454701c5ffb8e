"""The client's webhook calls and its verification of signed events."""

import json
from typing import Any

import httpx
import pytest
from sqlalchemy import Connection, Engine
from stellar_sdk import Keypair

from api.openapi import openapi
from isthmus_client import Isthmus, NotFound, WebhookNotTrusted, verify_webhook
from isthmus_client import webhooks as models
from relay.keys import LocalStellarKey
from relay.webhooks.run import event_body, event_id
from relay.webhooks.signing import encode_public_key, signed_headers
from relay.webhooks.store import TransferEvent
from tests.api.webhooks.conftest import kept, make_webhook_app
from tests.documented import violations
from tests.factories.app import NOW
from tests.factories.quotes import asking
from tests.factories.webhooks import PUBLIC_KEY, insert_delivery, insert_events
from warehouse_schema.identifiers import UnixSeconds

__all__ = ["kept"]

URL = "https://shop.example/hooks"
SEED = Keypair.from_raw_ed25519_seed(bytes(range(32))).secret
KEY = LocalStellarKey.from_text(SEED, "test")


@pytest.fixture
def posted(kept: Connection) -> tuple[dict[str, str], bytes]:
    """As the service signs an event at `NOW`."""
    insert_events(kept)
    row = kept.exec_driver_sql("SELECT * FROM projections.transfer_events").one()
    event = TransferEvent(**{name: getattr(row, name) for name in TransferEvent.__slots__})
    body = event_body(event)
    return dict(signed_headers([KEY], event_id(event), UnixSeconds(NOW), body)), body


def test_every_call_parses_its_response(kept: Connection, reader: Engine) -> None:
    transport = httpx.WSGITransport(make_webhook_app(reader))
    token = asking()["Authorization"].removeprefix("Bearer ")
    with Isthmus("https://api.isthmus.test", transport=transport, token=lambda: token) as isthmus:
        insert_events(kept, 2)
        registered = isthmus.webhooks.register(URL, after=0)
        assert str(registered.secret).startswith("whsec_")
        assert isthmus.webhooks.register(URL) == registered.model_copy(update={"secret": None})
        webhook = isthmus.webhooks.get(registered.id)
        listed = isthmus.webhooks.all()
        assert (listed.webhooks, listed.public_key) == ((webhook,), PUBLIC_KEY)
        insert_delivery(kept, webhook.id, 1)
        page = isthmus.webhooks.events(webhook.id, limit=1)
        assert (page.events[0].delivery.state, page.next_after) == ("delivered", 1)
        [missed] = isthmus.webhooks.events(webhook.id, after=0, missed=True).events
        assert (missed.number, missed.delivery.state) == (2, "waiting")
        isthmus.webhooks.remove(webhook.id)
        with pytest.raises(NotFound):
            isthmus.webhooks.get(webhook.id)


def test_models_have_the_members_of_their_schemas(reader: Engine) -> None:
    schemas = openapi(make_webhook_app(reader))["components"]["schemas"]
    pairs = {"WebhookEventList": "WebhookEventPage"}
    for name in ("Webhook", "WebhookList", "Delivery", "WebhookEvent", "WebhookEventList"):
        model = getattr(models, pairs.get(name, name))
        assert model.model_fields.keys() == schemas[name]["properties"].keys()


def test_posted_event_matches_the_document(
    posted: tuple[dict[str, str], bytes], reader: Engine
) -> None:
    headers, body = posted
    document = openapi(make_webhook_app(reader))
    operation = document["webhooks"]["transferChanged"]["post"]
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    assert list(violations(json.loads(body), schema, document["components"]["schemas"])) == []
    assert {each["name"] for each in operation["parameters"]} <= headers.keys()


def test_signed_event_is_verified(posted: tuple[dict[str, str], bytes]) -> None:
    headers, body = posted
    for given in (headers, {name.upper(): value for name, value in headers.items()}):
        verified = verify_webhook(encode_public_key(KEY), given, body, now=NOW + 299)
        assert (verified.id, verified.type, verified.data.number) == (
            headers["webhook-id"],
            "transfer.changed",
            1,
        )
        assert verified.data.transfer_id == json.loads(body)["data"]["transfer_id"]


def test_one_valid_signature_of_several_is_enough(posted: tuple[dict[str, str], bytes]) -> None:
    headers, body = posted
    mixed = f"v1,AAAA v1a,{'A' * 86}== {headers['webhook-signature']}"
    verified = verify_webhook(PUBLIC_KEY, headers | {"webhook-signature": mixed}, body, now=NOW)
    assert verified.data.stage == "FUNDED"


@pytest.mark.parametrize(
    ("changes", "now"),
    [
        ({"webhook-id": "evt_other_1"}, NOW),
        ({"webhook-id": "evt_\udcff"}, NOW),
        ({"webhook-timestamp": str(NOW + 1)}, NOW),
        ({}, NOW + 301),
        ({}, NOW - 301),
        ({"webhook-timestamp": "soon"}, NOW),
        ({"webhook-timestamp": "²"}, NOW),
        ({"webhook-signature": ""}, NOW),
        ({"webhook-signature": "v1a,AAAA"}, NOW),
        ({"webhook-signature": "v1a,é"}, NOW),
        ({"webhook-signature": None}, NOW),
    ],
)
def test_changed_header_or_time_is_refused(
    posted: tuple[dict[str, str], bytes], changes: dict[str, Any], now: int
) -> None:
    headers, body = posted
    given = {name: value for name, value in (headers | changes).items() if value is not None}
    with pytest.raises(WebhookNotTrusted):
        verify_webhook(PUBLIC_KEY, given, body, now=now)


def test_changed_body_or_key_is_refused(posted: tuple[dict[str, str], bytes]) -> None:
    headers, body = posted
    other = LocalStellarKey.from_text(Keypair.random().secret, "other")
    with pytest.raises(WebhookNotTrusted):
        verify_webhook(PUBLIC_KEY, headers, body + b" ", now=NOW)
    with pytest.raises(WebhookNotTrusted):
        verify_webhook(encode_public_key(other), headers, body, now=NOW)
    unread = b'{"type": 7}'
    signed = signed_headers([KEY], "evt_1", UnixSeconds(NOW), unread)
    with pytest.raises(WebhookNotTrusted, match="this version"):
        verify_webhook(PUBLIC_KEY, signed, unread, now=NOW)


@pytest.mark.parametrize("key", ["", "whpk_", "whpk_AAAA", PUBLIC_KEY[5:], "whpk_" + "é" * 44])
def test_malformed_key_raises_value_error(posted: tuple[dict[str, str], bytes], key: str) -> None:
    headers, body = posted
    with pytest.raises(ValueError):
        verify_webhook(key, headers, body, now=NOW)
