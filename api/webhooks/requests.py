"""Requests about webhooks, parsed and validated."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from api.errors import BadRequest
from api.operation import LIMIT, Parameter
from api.parsing import Strict, read_limit

MAX_URL_LENGTH = 2000
MAX_EVENT_NUMBER = 2**63 - 1

WEBHOOK_ID = Parameter("webhook", "The webhook's id.", place="path", required=True)
EVENTS = (
    Parameter(
        "after",
        "Events after this number: `next_after` of the previous page.",
        {"type": "integer", "minimum": 0, "maximum": 10**18 - 1},
    ),
    LIMIT,
    Parameter(
        "missed",
        "1: only events that were not delivered.",
        {"type": "string", "enum": ["0", "1"]},
    ),
)

_URL = re.compile(
    # The last label of the host is a word, so no notation of an IP address matches. The relay
    # checks at every delivery that the name resolves to a public address.
    r"https://(?:[A-Za-z0-9-]{1,63}\.)*[A-Za-z][A-Za-z0-9-]{0,62}"
    r"(?::(?P<port>[1-9][0-9]{0,4}))?"
    # Characters of an HTTP request line; a fragment is never sent.
    r"(?:[/?][!\"$-~]*)?"
)
_NUMBER = re.compile(r"[0-9]{1,18}")


class NewWebhook(Strict):
    """The body of `POST /v1/webhooks`."""

    url: Annotated[
        str, Field(description="An https URL with a host name, such as https://shop.example/hooks.")
    ]
    after: Annotated[
        int | None,
        Field(
            ge=0,
            le=MAX_EVENT_NUMBER,
            description="Send events after this number. Default: only new events.",
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class EventPageRequest:
    """A page of a webhook's events."""

    after: int
    limit: int
    is_missed: bool
    """Only events that were not delivered."""


def read_url(text: str) -> str:
    """Raises `BadRequest`."""
    found = _URL.fullmatch(text) if len(text) <= MAX_URL_LENGTH else None
    if found is None or int(found["port"] or 443) > 65_535:
        raise BadRequest(
            "url must be like https://shop.example/hooks: https, a host's name, visible ASCII, no "
            f"user or fragment, at most {MAX_URL_LENGTH} characters",
            code="BAD_WEBHOOK_URL",
        )
    return text


def read_page(query: Mapping[str, str]) -> EventPageRequest:
    """Raises `BadRequest` that names the parameter."""
    missed, after = query.get("missed", ""), query.get("after", "")
    if missed not in ("", "0", "1"):
        raise BadRequest("missed must be 0 or 1", code="BAD_FILTER")
    if after and not _NUMBER.fullmatch(after):
        raise BadRequest("after must be the number of an event", code="BAD_AFTER")
    return EventPageRequest(int(after or 0), read_limit(query), missed == "1")
