"""Errors that a call raises.

ClientError
├── NotReached            no response: the request may have arrived or not
├── BadAnswer             a response that is not of this API
├── ChallengeNotTrusted   the challenge is not one of the configured server
├── ActionNotTrusted      the action differs from the transfer that was requested
├── WebhookNotTrusted     a webhook's signature or timestamp is not valid
└── Refused               the API refused: `status`, `code`, `message`
    ├── Invalid           400, 413, 415, 422
    ├── SignInNeeded      401
    ├── Forbidden         403
    ├── NotFound          404
    ├── Conflict          409, 412
    ├── TooMany           429, with `retry_after`
    └── Unavailable       503, with `retry_after`

Match on `code`, which is stable; `message` is for people.
"""

import json
from collections.abc import Mapping
from typing import Any


class ClientError(Exception):
    """Base of the tree above."""


class NotReached(ClientError):
    """There was no response. A request that changes something may have done so or not."""


class BadAnswer(ClientError):
    """The response is not of this API: a proxy's page, or another version."""


class ChallengeNotTrusted(ClientError):
    """The challenge is not one of the configured server. It was not signed."""


class ActionNotTrusted(ClientError):
    """The action differs from the transfer that the user requested. It was not signed."""


class WebhookNotTrusted(ClientError):
    """A webhook's signature is not the service's, or its timestamp is too old."""


class Refused(ClientError):
    """The API refused the request."""

    def __init__(self, status: int, body: Mapping[str, Any], retry_after: float | None) -> None:
        super().__init__(f"{status} {body['code']}: {body['message']}")
        self.status = status
        self.code = str(body["code"])
        self.message = str(body["message"])
        self.body = body
        """The whole response: some codes have more members."""
        self.retry_after = retry_after
        """Seconds, from `Retry-After`."""


class Invalid(Refused):
    """The request is malformed, or breaks a rule."""


class SignInNeeded(Refused):
    """There is no token, or it is no longer valid."""


class Forbidden(Refused):
    """The token's owner may not do this."""


class NotFound(Refused):
    """The resource does not exist."""


class Conflict(Refused):
    """The resource's state does not allow it."""


class TooMany(Refused):
    """Rate limit exceeded."""


class Unavailable(Refused):
    """Temporarily unavailable; a retry can succeed."""


_KINDS: Mapping[int, type[Refused]] = {
    400: Invalid,
    401: SignInNeeded,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    412: Conflict,
    413: Invalid,
    415: Invalid,
    422: Invalid,
    429: TooMany,
    503: Unavailable,
}


def refusal(status: int, body: bytes, retry_after: str | None) -> ClientError:
    """The error for a response of status 400 and above."""
    try:
        error = json.loads(body)
    except ValueError:
        error = None
    if not isinstance(error, dict) or not {"code", "message"} <= error.keys():
        return BadAnswer(f"{status}: {body[:200]!r}")
    named = retry_after if retry_after is not None and retry_after.isdecimal() else None
    return _KINDS.get(status, Refused)(status, error, float(named) if named else None)
