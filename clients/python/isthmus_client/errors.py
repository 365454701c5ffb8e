"""What a call can raise.

ClientError
├── NotReached            no answer: whether the request arrived is not known
├── BadAnswer             an answer that is none of this API's
├── ChallengeNotTrusted   what was to be signed is no challenge of the server that was named
├── ActionNotTrusted      what was to be signed is not what was asked for
├── WebhookNotTrusted     what a webhook was sent is not from the service, or not from just now
└── Refused               the API said no: `status`, `code`, `message`
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
    """There was no answer; of a request that changes something it is not known whether it did."""


class BadAnswer(ClientError):
    """The answer is none of this API's: a proxy's page, or of another version."""


class ChallengeNotTrusted(ClientError):
    """What the server gave to sign is no challenge of the server that was named. Nothing was."""


class ActionNotTrusted(ClientError):
    """What the server gave to sign is not what its user asked for. Nothing was."""


class WebhookNotTrusted(ClientError):
    """What a webhook was sent is not the service's, or was not signed just now."""


class Refused(ClientError):
    """The API said no."""

    def __init__(self, status: int, body: Mapping[str, Any], retry_after: float | None) -> None:
        super().__init__(f"{status} {body['code']}: {body['message']}")
        self.status = status
        self.code = str(body["code"])
        self.message = str(body["message"])
        self.body = body
        """The whole answer: some codes come with more members."""
        self.retry_after = retry_after
        """Seconds, where the API named them."""


class Invalid(Refused):
    """The request is malformed, or is not accepted as it is."""


class SignInNeeded(Refused):
    """No token, or one that is not valid any more."""


class Forbidden(Refused):
    """Who asks may not."""


class NotFound(Refused):
    """There is nothing of that name."""


class Conflict(Refused):
    """Not in the state that it is in."""


class TooMany(Refused):
    """More than one may ask for."""


class Unavailable(Refused):
    """Not now; trying again can help."""


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
    """The error that an answer of 400 and above stands for."""
    try:
        said = json.loads(body)
    except ValueError:
        said = None
    if not isinstance(said, dict) or not {"code", "message"} <= said.keys():
        return BadAnswer(f"{status}: {body[:200]!r}")
    named = retry_after if retry_after is not None and retry_after.isdecimal() else None
    return _KINDS.get(status, Refused)(status, said, float(named) if named else None)
