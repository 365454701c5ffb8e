"""Rows of webhooks: what is to be sent next, and what came of it. The caller commits.

Every moment is the database's clock.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Float,
    Select,
    cast,
    delete,
    exists,
    extract,
    func,
    not_,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.dialects.postgresql import insert as upsert

from indexer.errors import FollowerConflict
from relay.webhooks.post import WebhookResponse
from relay.webhooks.retrying import RetryDecision, WebhookState
from warehouse_schema import locks
from warehouse_schema.identifiers import StellarAddress
from warehouse_schema.intake import transfers, webhook_removals, webhook_secrets, webhooks
from warehouse_schema.leases import take_lease
from warehouse_schema.projections import transfer_events
from warehouse_schema.queries import any_of
from warehouse_schema.relay import leases, webhook_deliveries, webhook_senders, webhook_states

FORGET_DAYS = 30
"""How long what was sent to a webhook is kept after its event, or the webhook, is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferEvent:
    """A change of a transfer that its owner is told of."""

    number: int
    transfer: str
    stage: str
    status: str
    reason: str | None
    told_at: datetime


Lane: TypeAlias = Literal["new", "prompt", "slow"]
"""Webhooks wait among their like: `new` was never tried, `prompt` took its last event within
`PROMPT_SECONDS`, `slow` is every other."""


@dataclass(frozen=True, slots=True)
class DueEvent:
    """An event that is a webhook's next, now."""

    webhook: str
    owner: StellarAddress
    url: str
    position: int
    """Up to which its events are over."""
    event: TransferEvent
    standing: WebhookState
    secret: str | None = field(default=None, repr=False)
    """Of its HMAC signatures; None for a webhook that has none."""


@contextmanager
def writer(engine: Engine) -> Iterator[Connection]:
    """The session that alone writes what came of webhooks.

    Raises `FollowerConflict` when another does.
    """
    with engine.connect() as conn:
        with conn.begin():
            key = take_lease(conn, leases, locks.WEBHOOKS, "")
        if key is None:
            raise FollowerConflict("another process posts to webhooks")
        try:
            yield conn
        finally:
            # The lease goes with the session, and so does what it listens to.
            conn.invalidate()


def due(
    conn: Connection, lane: Lane, *, busy: Collection[StellarAddress], limit: int
) -> list[DueEvent]:
    """The next event of webhooks in the lane, the longest-waiting first.

    At most one webhook of an owner, and none of the `busy` owners: an owner's places wait for each
    other and for no other owner's.
    """
    one_an_owner = (
        _next()
        .where(_IN_LANE[lane], not_(webhooks.c.owner == any_of(busy)))
        .ext(distinct_on(webhooks.c.owner))
        .order_by(webhooks.c.owner, "next_at", "told_at", webhooks.c.id)
        .subquery()
    )
    found = one_an_owner.c
    query = select(one_an_owner).order_by(found.next_at, found.told_at, found.webhook).limit(limit)
    return [_due(row) for row in conn.execute(query)]


_IN_LANE: Mapping[Lane, ColumnElement[bool]] = {
    "new": webhook_states.c.webhook.is_(None),
    "prompt": webhook_states.c.is_prompt,
    "slow": not_(webhook_states.c.is_prompt),
}


def _due(row: Any) -> DueEvent:
    event = TransferEvent(**{each.name: getattr(row, each.name) for each in fields(TransferEvent)})
    standing = WebhookState(row.failures, row.given_up, row.tried_for)
    return DueEvent(row.webhook, row.owner, row.url, row.position, event, standing, row.secret)


def _next() -> Select[Any]:
    """Webhooks that may be sent something now, and their next event."""
    states, tried = webhook_states.c, webhook_deliveries.c
    position = func.coalesce(states.position, webhooks.c.after)
    event = (
        select(transfer_events)
        # Whose a transfer is, is what its owner's request says, and nothing that came of it.
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
    # What waited for those before it has not waited for us.
    since = func.greatest(event.c.told_at, states.written_at, webhooks.c.created_at)
    tried_for = cast(extract("epoch", now - tried.first_at), Float)
    return (
        select(
            webhooks.c.id.label("webhook"),
            webhooks.c.owner,
            webhooks.c.url,
            webhook_secrets.c.secret,
            position.label("position"),
            *(event.c[each.name] for each in fields(TransferEvent)),
            func.coalesce(states.failures, 0).label("failures"),
            func.coalesce(states.given_up, 0).label("given_up"),
            func.coalesce(tried_for, 0.0).label("tried_for"),
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


def note(conn: Connection, tried: DueEvent, answer: WebhookResponse, came: RetryDecision) -> None:
    """Keep what came of an attempt."""
    _note_delivery(conn, tried, answer, came)
    now = func.clock_timestamp()
    values = {
        "position": tried.position if came.outcome is None else tried.event.number,
        "failures": came.failures,
        "given_up": came.given_up,
        "next_at": None if came.pause is None else now + timedelta(seconds=came.pause),
        "stopped": came.stopped,
        "is_prompt": answer.is_prompt,
        "written_at": now,
    }
    written = upsert(webhook_states).values(webhook=tried.webhook, **values)
    conn.execute(written.on_conflict_do_update(index_elements=["webhook"], set_=values))


def _note_delivery(
    conn: Connection, tried: DueEvent, answer: WebhookResponse, came: RetryDecision
) -> None:
    now = func.clock_timestamp()
    last = {
        "last_at": now,
        "answer": answer.status,
        "error": answer.error,
        "outcome": came.outcome,
    }
    place = {"webhook": tried.webhook, "number": tried.event.number}
    written = upsert(webhook_deliveries).values(**place, attempts=1, first_at=now, **last)
    again = {"attempts": webhook_deliveries.c.attempts + 1, **last}
    conn.execute(written.on_conflict_do_update(index_elements=[*place], set_=again))


def note_sender(conn: Connection, public_key: str) -> None:
    """That the process with this key is at work."""
    now = func.clock_timestamp()
    written = upsert(webhook_senders).values(public_key=public_key, seen_at=now)
    conn.execute(
        written.on_conflict_do_update(index_elements=["public_key"], set_={"seen_at": now})
    )


def forget(conn: Connection) -> int:
    """Delete what was sent of events that are gone, and to webhooks that were taken back, both
    long ago; how many rows."""
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


# For people.


def seconds_silent(conn: Connection) -> float | None:
    """Since a sender was at work; None when none ever was."""
    ago = extract("epoch", func.clock_timestamp() - func.max(webhook_senders.c.seen_at))
    return conn.scalar(select(cast(ago, Float)))


def waiting(conn: Connection, seconds: float) -> list[tuple[str, float]]:
    """Webhooks whose next event could have been sent so many seconds ago, and since when."""
    ready = _next().subquery()
    waits = cast(extract("epoch", func.clock_timestamp() - ready.c.next_at), Float)
    query = select(ready.c.webhook, waits.label("waits")).where(waits > seconds)
    return [(row.webhook, row.waits) for row in conn.execute(query.order_by(waits.desc()))]


def failing_webhooks(conn: Connection) -> tuple[int, int]:
    """Webhooks of which the last attempt was not taken, and those that were stopped; of those that
    nobody took back."""
    states = webhook_states.c
    live = not_(exists().where(webhook_removals.c.webhook == states.webhook))
    stopped = states.stopped.is_not(None)
    row = conn.execute(
        select(
            func.count().filter(states.failures > 0, not_(stopped)).label("failing"),
            func.count().filter(stopped).label("stopped"),
        ).where(live)
    ).one()
    return row.failing, row.stopped
