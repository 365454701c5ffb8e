"""`/v1/webhooks`: register a place, list them, take one back, see what was sent there."""

from flask import Blueprint
from sqlalchemy import Connection

from api.auth.owner import owner, owner_only
from api.deps import deps, snapshot
from api.errors import NotFound
from api.parsing import read_body, read_query
from api.webhooks import schema
from api.webhooks.requests import NewWebhook, read_page, read_url
from api.webhooks.responses import shape_events, shape_webhook
from api.webhooks.store import (
    access_webhook,
    events_of,
    list_webhooks,
    refuse_unsigned,
    register,
    remove,
)

webhooks = Blueprint("webhooks", __name__)
webhooks.before_request(owner_only)


class WebhooksOff(NotFound):
    """This service publishes no key that webhooks could be verified with."""

    code = "WEBHOOKS_OFF"


@webhooks.post("/v1/webhooks")
def add() -> tuple[schema.RegisteredWebhook, int]:
    """Register a place; the same place again is the same webhook."""
    key = deps().webhook_key
    if key is None:
        raise WebhooksOff("this service sends to no webhooks")
    asked = read_body(NewWebhook)
    url = read_url(asked.url)
    with deps().engine.begin() as conn:
        refuse_unsigned(conn, key)
        registered = register(conn, owner(), url, asked.after)
        shown: schema.RegisteredWebhook = {
            **_shown(conn, registered.id),
            "secret": registered.secret,
        }
        return shown, 201 if registered.is_new else 200


@webhooks.get("/v1/webhooks")
def show_all() -> schema.WebhookList:
    """The owner's, and the key that they are verified with."""
    read_query(())
    with snapshot() as conn:
        shown = [shape_webhook(row) for row in list_webhooks(conn, owner())]
    return {"webhooks": shown, "public_key": deps().webhook_key}


@webhooks.get("/v1/webhooks/<webhook>")
def show(webhook: str) -> schema.Webhook:
    """One, and how it goes there."""
    with snapshot() as conn:
        return _shown(conn, webhook)


@webhooks.delete("/v1/webhooks/<webhook>")
def take_back(webhook: str) -> schema.Removed:
    """Send nothing there any more."""
    with deps().engine.begin() as conn:
        remove(conn, access_webhook(conn, owner(), webhook).id)
    return {"removed": True}


@webhooks.get("/v1/webhooks/<webhook>/events")
def show_events(webhook: str) -> schema.WebhookEventList:
    """What is sent there, and what came of it."""
    page = read_page(read_query({"after", "limit", "missed"}))
    with snapshot() as conn:
        mine = access_webhook(conn, owner(), webhook)
        return shape_events(mine, events_of(conn, mine, page), page)


def _shown(conn: Connection, webhook: str) -> schema.Webhook:
    return shape_webhook(access_webhook(conn, owner(), webhook))
