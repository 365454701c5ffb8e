"""Queries about webhooks: registration, removal, deliveries."""

import base64
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Row, Select, func, insert, not_, select
from sqlalchemy.dialects.postgresql import insert as upsert

from api.errors import BadRequest, NotFound, Unavailable, Unprocessable
from api.parsing import canonical_hex
from api.transfers.access import lock_owner
from api.webhooks.requests import EventPageRequest
from warehouse_schema.identifiers import StellarAddress
from warehouse_schema.intake import transfers, webhook_removals, webhook_secrets, webhooks
from warehouse_schema.projections import transfer_events
from warehouse_schema.relay import webhook_deliveries, webhook_senders, webhook_states

MAX_WEBHOOKS = 5
"""Per owner."""
MAX_PER_DAY = 50
"""Registrations per owner in 24 hours, removed webhooks included: rows are never deleted."""
_DELIVERY_COLUMNS = ("attempts", "first_at", "last_at", "answer", "error", "outcome")


@dataclass(frozen=True, slots=True)
class Registered:
    """A webhook, and its secret if this request created it."""

    id: str
    secret: str | None = field(default=None, repr=False)


def require_sender(conn: Connection, public_key: str) -> None:
    """Raises `Unavailable` unless the newest webhook sender signs with the published key.

    A sender with several keys writes the same time for each.
    """
    senders = webhook_senders.c
    newest = select(func.max(senders.seen_at)).scalar_subquery()
    if public_key not in conn.scalars(select(senders.public_key).where(senders.seen_at == newest)):
        raise Unavailable(
            "no webhook sender uses the published key right now",
            code="WEBHOOKS_UNAVAILABLE",
        )


def register(conn: Connection, owner: StellarAddress, url: str, after: int | None) -> Registered:
    """The owner's active webhook at the URL, or a new one, which replaces a stopped one.

    Runs under the owner's lock: limits hold, and concurrent requests for a URL create one webhook.
    Raises `Unprocessable` over a limit, `BadRequest` if `after` is greater than the last event.
    """
    lock_owner(conn, owner)
    owned = conn.execute(_owned_by(owner)).all()
    existing = next((each for each in owned if each.url == url), None)
    if existing is not None and existing.stopped is None:
        return Registered(str(existing.id))
    if existing is not None:
        remove(conn, existing.id)
    if len(owned) - (existing is not None) >= MAX_WEBHOOKS:
        raise Unprocessable(
            f"no more than {MAX_WEBHOOKS} webhooks: delete one first", code="WEBHOOK_LIMIT"
        )
    is_recent = webhooks.c.created_at > func.now() - timedelta(days=1)
    count = select(func.count()).where(webhooks.c.owner == owner, is_recent)
    if (conn.scalar(count) or 0) >= MAX_PER_DAY:
        raise Unprocessable(
            f"no more than {MAX_PER_DAY} webhooks can be registered within a day",
            code="WEBHOOK_LIMIT",
        )
    events = transfer_events.c
    last = conn.scalar(select(func.max(events.number)).where(events.owner == owner)) or 0
    if after is not None and after > last:
        raise BadRequest(f"after is beyond your last event, {last}", code="BAD_AFTER")
    webhook = secrets.token_hex(16)
    row = {"id": webhook, "owner": owner, "url": url, "after": last if after is None else after}
    conn.execute(insert(webhooks).values(row))
    # 32 bytes: Standard Webhooks asks for 24 to 64.
    secret = f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}"
    conn.execute(insert(webhook_secrets).values(webhook=webhook, secret=secret))
    return Registered(webhook, secret)


def list_webhooks(conn: Connection, owner: StellarAddress) -> Sequence[Row[Any]]:
    """The owner's webhooks, the oldest first."""
    return conn.execute(_owned_by(owner)).all()


def access_webhook(conn: Connection, owner: StellarAddress, webhook: str) -> Row[Any]:
    """The owner's webhook. Raises `NotFound`, also for a webhook of another owner."""
    query = _owned_by(owner).where(webhooks.c.id == canonical_hex(webhook, 32))
    found = conn.execute(query).one_or_none()
    if found is None:
        raise NotFound("you have no such webhook", code="WEBHOOK_NOT_FOUND")
    return found


def remove(conn: Connection, webhook: str) -> None:
    """Idempotent, also under concurrent requests."""
    row = upsert(webhook_removals).values(webhook=webhook)
    conn.execute(row.on_conflict_do_nothing())


def _owned_by(owner: StellarAddress) -> Select[Any]:
    """Webhooks that were not removed, with the state of their deliveries."""
    states = webhook_states.c
    removed = select(webhook_removals.c.webhook).where(webhook_removals.c.webhook == webhooks.c.id)
    return (
        select(
            *webhooks.c,
            func.coalesce(states.position, webhooks.c.after).label("position"),
            func.coalesce(states.failures, 0).label("failures"),
            states.next_at,
            states.stopped,
            states.written_at,
        )
        .outerjoin(webhook_states, states.webhook == webhooks.c.id)
        .where(webhooks.c.owner == owner, not_(removed.exists()))
        .order_by(webhooks.c.created_at, webhooks.c.id)
    )


def list_events(conn: Connection, webhook: Row[Any], page: EventPageRequest) -> list[Row[Any]]:
    """A page of the webhook's events and deliveries, and one more row if there is a next page.

    `webhook` is a row of `access_webhook`.
    """
    events, sent = transfer_events.c, webhook_deliveries.c
    query = (
        select(*events, *(sent[name] for name in _DELIVERY_COLUMNS))
        .join_from(transfer_events, transfers, transfers.c.id == events.transfer)
        .outerjoin(
            webhook_deliveries, (sent.webhook == webhook.id) & (sent.number == events.number)
        )
        .where(
            events.owner == webhook.owner,
            # As the relay does: ownership comes from `intake.transfers`, never from derived rows.
            transfers.c.owner == webhook.owner,
            events.number > max(page.after, webhook.after),
        )
        .order_by(events.number)
        .limit(page.limit + 1)
    )
    if page.is_missed:
        query = query.where(func.coalesce(sent.outcome, "") != "delivered")
    return list(conn.execute(query))
