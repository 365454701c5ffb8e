"""Webhooks as JSON."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Row

from api.responses import iso_microseconds
from api.webhooks import schema
from api.webhooks.requests import EventPageRequest


def shape_webhook(row: Row[Any]) -> schema.Webhook:
    """One, and how it goes there."""
    return {
        "id": row.id,
        "url": row.url,
        "created_at": iso_microseconds(row.created_at),
        "after": row.after,
        "state": _state(row),
        "stopped_reason": row.stopped,
        "position": row.position,
        "failures": row.failures,
        "last_attempt_at": _moment(row.written_at),
        "next_attempt_at": None if row.stopped else _moment(row.next_at),
    }


def _state(row: Row[Any]) -> Literal["active", "failing", "stopped"]:
    if row.stopped is not None:
        return "stopped"
    return "failing" if row.failures else "active"


def shape_events(
    webhook: Row[Any], rows: Sequence[Row[Any]], page: EventPageRequest
) -> schema.WebhookEventList:
    """A page; `rows` has one more where there is more."""
    shown = rows[: page.limit]
    return {
        "events": [_event(webhook, row) for row in shown],
        "next_after": shown[-1].number if len(rows) > len(shown) else None,
    }


def _event(webhook: Row[Any], row: Row[Any]) -> schema.WebhookEvent:
    return {
        "number": row.number,
        "at": iso_microseconds(row.told_at),
        "transfer_id": row.transfer,
        "stage": row.stage,
        "status": row.status,
        "stage_reason": row.reason,
        "delivery": {
            "state": _delivery(webhook, row),
            "attempts": row.attempts or 0,
            "first_at": _moment(row.first_at),
            "last_at": _moment(row.last_at),
            "status": row.answer,
            "error": row.error,
        },
    }


def _delivery(
    webhook: Row[Any], row: Row[Any]
) -> Literal["waiting", "retrying", "delivered", "given_up"]:
    if row.outcome is not None:
        outcome: Literal["delivered", "given_up"] = row.outcome
        return outcome
    if webhook.stopped is not None:
        return "given_up"
    return "retrying" if row.attempts else "waiting"


def _moment(at: datetime | None) -> str | None:
    return None if at is None else iso_microseconds(at)
