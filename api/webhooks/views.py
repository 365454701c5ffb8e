"""`/v1/webhooks`."""

from flask import Blueprint

from api.auth.owner import owner, owner_only
from api.deps import deps, snapshot
from api.errors import NotFound
from api.parsing import read_body, read_query
from api.webhooks import schema
from api.webhooks.requests import NewWebhook, read_page, read_url
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
def add() -> tuple[schema.RegisteredWebhook, int]:
    """Register a URL. Idempotent: a URL that is registered already answers 200."""
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
def show_all() -> schema.WebhookList:
    """The owner's webhooks, and the public key that verifies their signatures."""
    read_query(())
    with snapshot() as conn:
        shown = [webhook_response(row) for row in list_webhooks(conn, owner())]
    return {"webhooks": shown, "public_key": deps().webhook_key}


@webhooks.get("/v1/webhooks/<webhook>")
def show(webhook: str) -> schema.Webhook:
    """A webhook and the state of its deliveries."""
    with snapshot() as conn:
        return webhook_response(access_webhook(conn, owner(), webhook))


@webhooks.delete("/v1/webhooks/<webhook>")
def take_back(webhook: str) -> schema.Removed:
    """Remove a webhook."""
    with deps().engine.begin() as conn:
        remove(conn, access_webhook(conn, owner(), webhook).id)
    return {"removed": True}


@webhooks.get("/v1/webhooks/<webhook>/events")
def show_events(webhook: str) -> schema.WebhookEventList:
    """A webhook's events and their deliveries."""
    page = read_page(read_query({"after", "limit", "missed"}))
    with snapshot() as conn:
        owned = access_webhook(conn, owner(), webhook)
        return event_list_response(owned, list_events(conn, owned, page), page)
