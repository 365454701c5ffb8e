"""What requests about webhooks say, read strictly."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from api.errors import BadRequest
from api.parsing import Strict

DEFAULT_LIMIT, LARGEST_LIMIT = 50, 200
LONGEST_URL = 2000
LARGEST_NUMBER = 2**63 - 1

_URL = re.compile(
    # A host of labels of which the last is a word, so no address in whatever notation: whether its
    # name means one of the internet is looked at each time that something is sent there.
    r"https://(?:[A-Za-z0-9-]{1,63}\.)*[A-Za-z][A-Za-z0-9-]{0,62}"
    r"(?::[1-9][0-9]{0,4})?"
    # What may stand in a request's first line; a fragment is never sent.
    r"(?:[/?][!\"$-~]*)?"
)
_NUMBER = re.compile(r"[0-9]{1,18}")


class NewWebhook(Strict):
    """The body of `POST /v1/webhooks`."""

    url: Annotated[
        str, Field(description="https, of a host with a name, such as https://shop.example/hooks.")
    ]
    after: Annotated[
        int | None,
        Field(
            ge=0,
            le=LARGEST_NUMBER,
            description="What you were told after this number is sent. Left out: what comes.",
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class EventPageRequest:
    """Which of a webhook's events are asked for."""

    after: int
    limit: int
    is_missed: bool
    """Those alone that were not delivered."""


def read_url(text: str) -> str:
    """Raises `BadRequest`."""
    if len(text) > LONGEST_URL or not _URL.fullmatch(text) or _port(text) > 65_535:
        raise BadRequest(
            "url must be like https://shop.example/hooks: https, a host's name, visible ASCII, no "
            f"user or fragment, at most {LONGEST_URL} characters",
            code="BAD_WEBHOOK_URL",
        )
    return text


def _port(url: str) -> int:
    host = re.split("[/?]", url.removeprefix("https://"), maxsplit=1)[0]
    return int(host.partition(":")[2] or 443)


def read_page(query: Mapping[str, str]) -> EventPageRequest:
    """Raises `BadRequest` that names the parameter."""
    missed = query.get("missed", "")
    if missed not in ("", "0", "1"):
        raise BadRequest("missed must be 0 or 1", code="BAD_FILTER")
    return EventPageRequest(
        _after(query.get("after", "")), _limit(query.get("limit", "")), missed == "1"
    )


def _after(text: str) -> int:
    if text and not _NUMBER.fullmatch(text):
        raise BadRequest("after must be the number of an event", code="BAD_AFTER")
    return int(text or 0)


def _limit(text: str) -> int:
    limit = int(text) if _NUMBER.fullmatch(text) else (0 if text else DEFAULT_LIMIT)
    if not 1 <= limit <= LARGEST_LIMIT:
        raise BadRequest(f"limit must be a number from 1 to {LARGEST_LIMIT}", code="BAD_LIMIT")
    return limit
