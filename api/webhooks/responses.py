"""Response bodies of webhooks."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Row

from api.responses import iso_microseconds
from api.webhooks import schema
from api.webhooks.requests import EventPageRequest


def webhook_response(row: Row[Any]) -> schema.Webhook:
    """A webhook and the state of its deliveries."""
    state: Literal["active", "failing", "stopped"] = "failing" if row.failures else "active"
    return {
        "id": row.id,
        "url": row.url,
        "created_at": iso_microseconds(row.created_at),
        "after": row.after,
        "state": state if row.stopped is None else "stopped",
        "stopped_reason": row.stopped,
        "position": row.position,
        "failures": row.failures,
        "last_attempt_at": _optional_time(row.written_at),
        "next_attempt_at": None if row.stopped else _optional_time(row.next_at),
    }


def event_list_response(
    webhook: Row[Any], rows: Sequence[Row[Any]], page: EventPageRequest
) -> schema.WebhookEventList:
    """A page of events; `rows` has one more than `page.limit` if there is a next page."""
    shown = rows[: page.limit]
    return {
        "events": [
            {
                "number": row.number,
                "at": iso_microseconds(row.told_at),
                "transfer_id": row.transfer,
                "stage": row.stage,
                "status": row.status,
                "stage_reason": row.reason,
                "delivery": {
                    "state": _delivery_state(webhook, row),
                    "attempts": row.attempts or 0,
                    "first_at": _optional_time(row.first_at),
                    "last_at": _optional_time(row.last_at),
                    "status": row.answer,
                    "error": row.error,
                },
            }
            for row in shown
        ],
        "next_after": shown[-1].number if len(rows) > len(shown) else None,
    }


def _delivery_state(
    webhook: Row[Any], row: Row[Any]
) -> Literal["waiting", "retrying", "delivered", "given_up"]:
    if row.outcome is not None:
        outcome: Literal["delivered", "given_up"] = row.outcome
        return outcome
    if webhook.stopped is not None:
        return "given_up"
    return "retrying" if row.attempts else "waiting"


def _optional_time(at: datetime | None) -> str | None:
    return None if at is None else iso_microseconds(at)
