"""Webhooks: URLs that receive changes of the owner's transfers, and verification of the POSTs.

They are signed by the Standard Webhooks specification, with Ed25519:
https://github.com/standard-webhooks/standard-webhooks
"""

import base64
import time
from collections.abc import Callable, Mapping
from typing import Literal
from urllib.parse import quote

import httpx
from pydantic import AwareDatetime, TypeAdapter, ValidationError
from stellar_sdk import Keypair
from stellar_sdk.exceptions import BadSignatureError

from isthmus_client.errors import WebhookNotTrusted
from isthmus_client.http import read
from isthmus_client.models import Model

PATH = "/v1/webhooks"
TOLERANCE_SECONDS = 300
_PREFIX = "whpk_"


class Webhook(Model):
    """A URL and its delivery state; `state` is active, failing or stopped."""

    id: str
    url: str
    created_at: AwareDatetime
    after: int
    state: str
    stopped_reason: str | None
    position: int
    failures: int
    last_attempt_at: AwareDatetime | None
    next_attempt_at: AwareDatetime | None


class RegisteredWebhook(Webhook):
    """A webhook; `secret` (`whsec_…`) is set when it is new, and only then."""

    secret: str | None


class WebhookList(Model):
    """The owner's webhooks, and the key that verifies their events."""

    webhooks: tuple[Webhook, ...]
    public_key: str | None


class Delivery(Model):
    """Delivery of an event; `state` is waiting, retrying, delivered or given_up."""

    state: str
    attempts: int
    first_at: AwareDatetime | None
    last_at: AwareDatetime | None
    status: int | None
    error: str | None


class WebhookEvent(Model):
    """A change of a transfer, and its delivery."""

    number: int
    at: AwareDatetime
    transfer_id: str
    stage: str
    status: str
    stage_reason: str | None
    delivery: Delivery


class WebhookEventPage(Model):
    """A page of events; `next_after` is None after the last."""

    events: tuple[WebhookEvent, ...]
    next_after: int | None


class Removed(Model):
    """The webhook was removed."""

    removed: Literal[True]


class Change(Model):
    """A transfer reached that stage. Its amounts are in the API."""

    number: int
    transfer_id: str
    stage: str
    status: str
    stage_reason: str | None


class TransferChanged(Model):
    """A verified event. `id` is the same for every delivery of it."""

    id: str
    type: str
    timestamp: AwareDatetime
    data: Change


_WEBHOOK = TypeAdapter(Webhook)
_REGISTERED = TypeAdapter(RegisteredWebhook)
_ALL = TypeAdapter(WebhookList)
_PAGE = TypeAdapter(WebhookEventPage)
_REMOVED = TypeAdapter(Removed)


class Webhooks:
    """`/v1/webhooks` of a client."""

    def __init__(self, ask: Callable[..., httpx.Response]) -> None:
        """`ask` sends a request as the owner: method, path, options."""
        self._ask = ask

    def register(self, url: str, *, after: int | None = None) -> RegisteredWebhook:
        """Send new events to the URL, or all after a number. A URL has one webhook.

        Raises `Invalid`, `NotFound` if the service has no webhooks, `Unavailable`.
        """
        body: dict[str, str | int] = {"url": url}
        if after is not None:
            body["after"] = after
        return read(_REGISTERED, self._ask("POST", PATH, body=body))

    def all(self) -> WebhookList:
        """The owner's webhooks, and the key."""
        return read(_ALL, self._ask("GET", PATH))

    def get(self, webhook_id: str) -> Webhook:
        """A webhook. Raises `NotFound`."""
        return read(_WEBHOOK, self._ask("GET", _path(webhook_id)))

    def remove(self, webhook_id: str) -> None:
        """Remove a webhook. Raises `NotFound`."""
        read(_REMOVED, self._ask("DELETE", _path(webhook_id)))

    def events(
        self,
        webhook_id: str,
        *,
        after: int | None = None,
        limit: int | None = None,
        missed: bool = False,
    ) -> WebhookEventPage:
        """Events of a webhook; `missed`: those not delivered. Raises `NotFound`."""
        query = {"after": after, "limit": limit, "missed": "1" if missed else None}
        return read(_PAGE, self._ask("GET", f"{_path(webhook_id)}/events", query=query))


def _path(webhook_id: str) -> str:
    return f"{PATH}/{quote(webhook_id, safe='')}"


def verify_webhook(
    public_key: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    now: float | None = None,
) -> TransferChanged:
    """The event of a POST, if the service signed it recently; `body` as received, byte for byte.

    `public_key` is `whpk_…`, of stellar.toml or `webhooks.all()`, fetched beforehand and stored.
    `now` is unix seconds, by default the clock's. Drop an event with a known `id`.

    Raises `WebhookNotTrusted`: answer 400 and ignore the event. `ValueError` for a malformed key.
    """
    named = {name.lower(): value for name, value in headers.items()}
    try:
        event, at = named["webhook-id"], named["webhook-timestamp"]
        signatures = named["webhook-signature"].split()
    except KeyError as missing:
        raise WebhookNotTrusted(f"there is no header {missing.args[0]}") from missing
    _check_time(at, time.time() if now is None else now)
    key = _key(public_key)
    if not event.isascii():
        raise WebhookNotTrusted("webhook-id is none of ours")
    signed = f"{event}.{at}.".encode() + body
    # While a key is being replaced there are several.
    if not any(_is_signed(key, signed, each) for each in signatures):
        raise WebhookNotTrusted("no signature of it is of the key that was named")
    try:
        return TransferChanged.model_validate({**_JSON.validate_json(body), "id": event})
    except ValidationError as error:
        raise WebhookNotTrusted("it is no event that this version can read") from error


_JSON = TypeAdapter(dict[str, object])


def _check_time(at: str, now: float) -> None:
    if not (at.isascii() and at.isdecimal() and len(at) < 12):
        raise WebhookNotTrusted("webhook-timestamp is no time")
    if abs(int(at) - now) > TOLERANCE_SECONDS:
        raise WebhookNotTrusted("it was not signed just now: sent again by somebody, or a clock")


def _is_signed(key: Keypair, signed: bytes, signature: str) -> bool:
    version, _, text = signature.partition(",")
    if version != "v1a":
        return False
    try:
        raw = base64.b64decode(text, validate=True)
        key.verify(signed, raw)
    except (ValueError, BadSignatureError):
        return False
    return True


def _key(public_key: str) -> Keypair:
    raw = base64.b64decode(public_key.removeprefix(_PREFIX), validate=True)
    if not public_key.startswith(_PREFIX) or len(raw) != 32:
        raise ValueError("public_key must be whpk_ and 32 bytes as base64")
    return Keypair.from_raw_ed25519_public_key(raw)
