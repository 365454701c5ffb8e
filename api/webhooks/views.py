"""`/v1/webhooks`."""

from flask import Blueprint
from sqlalchemy import Connection

from api.auth.owner import owner, owner_only
from api.deps import deps
from api.errors import NotFound
from api.operation import NO_STORE, operation
from api.parsing import read_body, read_query
from api.reads import POSITION, read_recent
from api.webhooks import schema
from api.webhooks.requests import EVENTS, WEBHOOK_ID, NewWebhook, read_page, read_url
from api.webhooks.responses import event_list_response, webhook_response
from api.webhooks.store import (
    access_webhook,
    list_events,
    list_webhooks,
    register,
    remove,
    require_sender,
)

webhooks = Blueprint("webhooks", __name__)
webhooks.before_request(owner_only)


class WebhooksOff(NotFound):
    """No key is configured that receivers could verify webhooks with."""

    code = "WEBHOOKS_OFF"


@webhooks.post("/v1/webhooks")
@operation(
    "registerWebhook",
    "Webhooks",
    {201: "The new webhook, with its secret.", 200: "The existing webhook."},
    headers=(NO_STORE,),
    body=NewWebhook,
    refusals=(
        *("BAD_BODY", "BAD_WEBHOOK_URL", "BAD_AFTER", "WEBHOOKS_OFF", "UNSUPPORTED_MEDIA_TYPE"),
        *("WEBHOOK_LIMIT", "WEBHOOKS_UNAVAILABLE"),
    ),
)
def add() -> tuple[schema.RegisteredWebhook, int]:
    """Register a URL for the events of your transfers.

    Each change of your transfers is posted to the URL in order, signed (Standard Webhooks, HMAC and
    Ed25519), and repeated until a 2xx response. The same URL again returns the same webhook.
    """
    key = deps().webhook_key
    if key is None:
        raise WebhooksOff("this service sends to no webhooks")
    body = read_body(NewWebhook)
    url = read_url(body.url)
    with deps().engine.begin() as conn:
        require_sender(conn, key)
        registered = register(conn, owner(), url, body.after)
        webhook = webhook_response(access_webhook(conn, owner(), registered.id))
    return {**webhook, "secret": registered.secret}, 200 if registered.secret is None else 201


@webhooks.get("/v1/webhooks")
@operation(
    "listWebhooks",
    "Webhooks",
    {200: "All your webhooks."},
    headers=(NO_STORE,),
    parameters=(POSITION,),
    refusals=("UNKNOWN_PARAMETER",),
)
def show_all() -> schema.WebhookList:
    """List your webhooks, and the key that verifies their events."""
    read_query(())
    shown = read_recent(
        lambda conn: [webhook_response(row) for row in list_webhooks(conn, owner())]
    )
    return {"webhooks": shown, "public_key": deps().webhook_key}


@webhooks.get("/v1/webhooks/<webhook>")
@operation(
    "showWebhook",
    "Webhooks",
    {200: "The webhook."},
    headers=(NO_STORE,),
    parameters=(WEBHOOK_ID, POSITION),
    refusals=("WEBHOOK_NOT_FOUND",),
)
def show(webhook: str) -> schema.Webhook:
    """Show a webhook and the state of its deliveries."""
    return read_recent(lambda conn: webhook_response(access_webhook(conn, owner(), webhook)))


@webhooks.delete("/v1/webhooks/<webhook>")
@operation(
    "removeWebhook",
    "Webhooks",
    {200: "The webhook is removed."},
    headers=(NO_STORE,),
    parameters=(WEBHOOK_ID,),
    refusals=("WEBHOOK_NOT_FOUND",),
)
def remove_webhook(webhook: str) -> schema.Removed:
    """Remove a webhook.

    A running attempt may still arrive.
    """
    with deps().engine.begin() as conn:
        remove(conn, access_webhook(conn, owner(), webhook).id)
    return {"removed": True}


@webhooks.get("/v1/webhooks/<webhook>/events")
@operation(
    "listWebhookEvents",
    "Webhooks",
    {200: "A page of events."},
    headers=(NO_STORE,),
    parameters=(WEBHOOK_ID, *EVENTS, POSITION),
    refusals=("BAD_AFTER", "BAD_FILTER", "BAD_LIMIT", "UNKNOWN_PARAMETER", "WEBHOOK_NOT_FOUND"),
)
def show_events(webhook: str) -> schema.WebhookEventList:
    """List a webhook's events and their deliveries.

    With `missed=1`, only events that were not delivered.
    """
    page = read_page(read_query({"after", "limit", "missed"}))

    def read(conn: Connection) -> schema.WebhookEventList:
        owned = access_webhook(conn, owner(), webhook)
        return event_list_response(owned, list_events(conn, owned, page), page)

    return read_recent(read)
