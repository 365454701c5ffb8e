"""Rows of webhooks: events that are due, and results of attempts.

The caller commits. All times are of the database's clock.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    delete,
    exists,
    func,
    not_,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.dialects.postgresql import insert as upsert

from relay.webhooks.post import WebhookResponse
from relay.webhooks.retrying import RetryDecision, WebhookState
from warehouse_schema.identifiers import StellarAddress
from warehouse_schema.intake import transfers, webhook_removals, webhook_secrets, webhooks
from warehouse_schema.projections import transfer_events
from warehouse_schema.queries import any_of, seconds_since
from warehouse_schema.relay import webhook_deliveries, webhook_senders, webhook_states

FORGET_DAYS = 30
"""Retention of deliveries after their event or webhook is deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferEvent:
    """Change of a transfer."""

    number: int
    transfer: str
    stage: str
    status: str
    reason: str | None
    told_at: datetime


Lane: TypeAlias = Literal["new", "prompt", "slow"]
"""Queue of webhooks with similar response times: `new` has none yet, `prompt` took its last event
within `PROMPT_SECONDS`, `slow` is every other."""

_IN_LANE: Mapping[Lane, ColumnElement[bool]] = {
    "new": webhook_states.c.webhook.is_(None),
    "prompt": webhook_states.c.is_prompt,
    "slow": not_(webhook_states.c.is_prompt),
}
_EVENT_FIELDS = [each.name for each in fields(TransferEvent)]


@dataclass(frozen=True, slots=True)
class DueEvent:
    """Next event of a webhook, due now."""

    webhook: str
    owner: StellarAddress
    url: str
    position: int
    """Number of the last event that is delivered or given up."""
    event: TransferEvent
    state: WebhookState
    secret: str | None = field(default=None, repr=False)
    """Of its HMAC signatures; None for a webhook without one."""


def due_events(
    conn: Connection, lane: Lane, *, busy: Collection[StellarAddress], limit: int
) -> list[DueEvent]:
    """Next events of webhooks in the lane, the longest-waiting first.

    At most one webhook per owner, and none of the `busy` owners: an owner's webhooks delay each
    other only.
    """
    one_per_owner = (
        next_events()
        .where(_IN_LANE[lane], not_(webhooks.c.owner == any_of(busy)))
        .ext(distinct_on(webhooks.c.owner))
        .order_by(webhooks.c.owner, "next_at", "told_at", webhooks.c.id)
        .subquery()
    )
    found = one_per_owner.c
    query = select(one_per_owner).order_by(found.next_at, found.told_at, found.webhook).limit(limit)
    return [
        DueEvent(
            webhook=row.webhook,
            owner=row.owner,
            url=row.url,
            position=row.position,
            event=TransferEvent(**{name: getattr(row, name) for name in _EVENT_FIELDS}),
            state=WebhookState(row.failures, row.given_up, row.tried_for),
            secret=row.secret,
        )
        for row in conn.execute(query)
    ]


def next_events() -> Select[Any]:
    """Query of webhooks that may be sent something now, with their next events."""
    states, tried = webhook_states.c, webhook_deliveries.c
    position = func.coalesce(states.position, webhooks.c.after)
    event = (
        select(transfer_events)
        # Ownership comes from `intake.transfers`, never from derived rows alone.
        .join(transfers, transfers.c.id == transfer_events.c.transfer)
        .where(
            transfer_events.c.owner == webhooks.c.owner,
            transfers.c.owner == webhooks.c.owner,
            transfer_events.c.number > position,
        )
        .order_by(transfer_events.c.number)
        .limit(1)
        .lateral("event")
    )
    now = func.clock_timestamp()
    # Time in which an event waited for earlier ones does not count.
    since = func.greatest(event.c.told_at, states.written_at, webhooks.c.created_at)
    return (
        select(
            webhooks.c.id.label("webhook"),
            webhooks.c.owner,
            webhooks.c.url,
            webhook_secrets.c.secret,
            position.label("position"),
            *(event.c[name] for name in _EVENT_FIELDS),
            func.coalesce(states.failures, 0).label("failures"),
            func.coalesce(states.given_up, 0).label("given_up"),
            func.coalesce(seconds_since(tried.first_at), 0.0).label("tried_for"),
            func.coalesce(states.next_at, since).label("next_at"),
        )
        .select_from(webhooks)
        .outerjoin(webhook_states, states.webhook == webhooks.c.id)
        .outerjoin(webhook_secrets, webhook_secrets.c.webhook == webhooks.c.id)
        .join(event, true())
        .outerjoin(
            webhook_deliveries,
            (tried.webhook == webhooks.c.id) & (tried.number == event.c.number),
        )
        .where(
            states.stopped.is_(None),
            states.next_at.is_(None) | (states.next_at <= now),
            not_(exists().where(webhook_removals.c.webhook == webhooks.c.id)),
        )
    )


def record_attempt(
    conn: Connection, due: DueEvent, answer: WebhookResponse, decision: RetryDecision
) -> None:
    """Write the result of an attempt."""
    now = func.clock_timestamp()
    last = {
        "last_at": now,
        "answer": answer.status,
        "error": answer.error,
        "outcome": decision.outcome,
    }
    key = {"webhook": due.webhook, "number": due.event.number}
    delivery = upsert(webhook_deliveries).values(**key, attempts=1, first_at=now, **last)
    again = {"attempts": webhook_deliveries.c.attempts + 1, **last}
    conn.execute(delivery.on_conflict_do_update(index_elements=[*key], set_=again))
    values = {
        "position": due.position if decision.outcome is None else due.event.number,
        "failures": decision.failures,
        "given_up": decision.given_up,
        "next_at": None if decision.pause is None else now + timedelta(seconds=decision.pause),
        "stopped": decision.stopped,
        "is_prompt": answer.is_prompt,
        "written_at": now,
    }
    state = upsert(webhook_states).values(webhook=due.webhook, **values)
    conn.execute(state.on_conflict_do_update(index_elements=["webhook"], set_=values))


def record_sender(conn: Connection, public_keys: Collection[str]) -> None:
    """Write that the process with these keys is running, at one time for all of them."""
    now = func.now()
    row = upsert(webhook_senders).values(
        [{"public_key": each, "seen_at": now} for each in public_keys]
    )
    conn.execute(row.on_conflict_do_update(index_elements=["public_key"], set_={"seen_at": now}))


def forget_deliveries(conn: Connection) -> int:
    """Delete old deliveries of deleted events and removed webhooks; returns the number of rows."""
    deliveries = webhook_deliveries.c
    long_ago = func.now() - timedelta(days=FORGET_DAYS)
    event = (
        exists()
        .where(
            transfer_events.c.owner == webhooks.c.owner,
            transfer_events.c.number == deliveries.number,
            webhooks.c.id == deliveries.webhook,
        )
        .correlate(webhook_deliveries)
    )
    removed = exists().where(
        webhook_removals.c.webhook == deliveries.webhook, webhook_removals.c.removed_at < long_ago
    )
    old = delete(webhook_deliveries).where(deliveries.last_at < long_ago, removed | not_(event))
    return conn.execute(old).rowcount
