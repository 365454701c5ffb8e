"""Webhooks as owners register them and take them back, and what became of them.

Registering runs under the owner's lock: so limits hold, and a place that is registered twice at
once is one webhook.
"""

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
from api.webhooks.requests import EventPageRequest
from warehouse_schema import locks
from warehouse_schema.identifiers import StellarAddress
from warehouse_schema.intake import transfers, webhook_removals, webhook_secrets, webhooks
from warehouse_schema.projections import transfer_events
from warehouse_schema.relay import webhook_deliveries, webhook_senders, webhook_states

MAX_WEBHOOKS = 5
"""Webhooks of an owner."""
MAX_PER_DAY = 50
"""That an owner registers within 24 hours, whatever becomes of them: rows are kept."""


@dataclass(frozen=True, slots=True)
class Registered:
    """A webhook; `secret` is shown by the request that made it, and by no other."""

    id: str
    secret: str | None = field(default=None, repr=False)

    @property
    def is_new(self) -> bool:
        """Whether this request made it."""
        return self.secret is not None


def refuse_unsigned(conn: Connection, public_key: str) -> None:
    """Raises `Unavailable` unless who sends signs with the key that is published."""
    senders = webhook_senders.c
    newest = select(senders.public_key).order_by(senders.seen_at.desc()).limit(1)
    if conn.scalar(newest) != public_key:
        raise Unavailable(
            "nobody sends to webhooks right now with the key that is published",
            code="WEBHOOKS_UNAVAILABLE",
        )


def register(conn: Connection, owner: StellarAddress, url: str, after: int | None) -> Registered:
    """The owner's webhook at a place: the one that is there, or a new one, also in the place of one
    that was stopped.

    Raises `Unacceptable` over a limit, `BadRequest` for `after` of an event that is to come.
    """
    conn.execute(select(func.pg_advisory_xact_lock(locks.OWNER, func.hashtext(owner))))
    mine = conn.execute(_mine(owner)).all()
    there = next((each for each in mine if each.url == url), None)
    if there is not None and there.stopped is None:
        return Registered(str(there.id))
    if there is not None:
        remove(conn, there.id)
    _refuse_over_limits(conn, owner, len(mine) - (there is not None))
    row = {
        "id": secrets.token_hex(16),
        "owner": owner,
        "url": url,
        "after": _begin_after(conn, owner, after),
    }
    conn.execute(insert(webhooks).values(row))
    # 32 bytes: Standard Webhooks asks for 24 to 64.
    secret = f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}"
    conn.execute(insert(webhook_secrets).values(webhook=row["id"], secret=secret))
    return Registered(str(row["id"]), secret)


def _refuse_over_limits(conn: Connection, owner: StellarAddress, how_many: int) -> None:
    if how_many >= MAX_WEBHOOKS:
        raise Unprocessable(
            f"no more than {MAX_WEBHOOKS} webhooks: delete one first", code="WEBHOOK_LIMIT"
        )
    lately = webhooks.c.created_at > func.now() - timedelta(days=1)
    count = select(func.count()).where(webhooks.c.owner == owner, lately)
    if (conn.scalar(count) or 0) >= MAX_PER_DAY:
        raise Unprocessable(
            f"no more than {MAX_PER_DAY} webhooks can be registered within a day",
            code="WEBHOOK_LIMIT",
        )


def _begin_after(conn: Connection, owner: StellarAddress, after: int | None) -> int:
    events = transfer_events.c
    last = conn.scalar(select(func.max(events.number)).where(events.owner == owner)) or 0
    if after is not None and after > last:
        raise BadRequest(f"after is beyond your last event, {last}", code="BAD_AFTER")
    return last if after is None else after


def list_webhooks(conn: Connection, owner: StellarAddress) -> Sequence[Row[Any]]:
    """The owner's, the oldest first."""
    return conn.execute(_mine(owner)).all()


def access_webhook(conn: Connection, owner: StellarAddress, webhook: str) -> Row[Any]:
    """It, if it is one of this owner's. Raises `NotFound`, whoever else may have it."""
    query = _mine(owner).where(webhooks.c.id == canonical_hex(webhook, 32))
    found = conn.execute(query).one_or_none()
    if found is None:
        raise NotFound("you have no such webhook", code="WEBHOOK_NOT_FOUND")
    return found


def remove(conn: Connection, webhook: str) -> None:
    """Take it back; once, however many ask at once."""
    row = upsert(webhook_removals).values(webhook=webhook)
    conn.execute(row.on_conflict_do_nothing())


def _mine(owner: StellarAddress) -> Select[Any]:
    """Those that were not taken back, and how they stand."""
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


def events_of(conn: Connection, webhook: Row[Any], page: EventPageRequest) -> list[Row[Any]]:
    """A page of what is to be sent to it, and one more if there is more."""
    events, sent = transfer_events.c, webhook_deliveries.c
    query = (
        select(*events, *(sent[name] for name in _OF_DELIVERY))
        .join_from(transfer_events, transfers, transfers.c.id == events.transfer)
        .outerjoin(
            webhook_deliveries, (sent.webhook == webhook.id) & (sent.number == events.number)
        )
        .where(
            events.owner == webhook.owner,
            # As whoever sends has it: whose a transfer is, its owner's request says.
            transfers.c.owner == webhook.owner,
            events.number > max(page.after, webhook.after),
        )
        .order_by(events.number)
        .limit(page.limit + 1)
    )
    if page.is_missed:
        query = query.where(func.coalesce(sent.outcome, "") != "delivered")
    return list(conn.execute(query))


_OF_DELIVERY = ("attempts", "first_at", "last_at", "answer", "error", "outcome")
