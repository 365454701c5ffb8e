"""What the API says when it cannot do what was asked: one shape, `{"message": …, "code": …}`.

ApiError                     status, code and a sentence
├── BadRequest          400  a parameter or body is malformed; the message names it
├── Unauthorized        401  no token, or one that is not valid
├── Forbidden           403  the token's owner may not do this
├── NotFound            404  nothing of that name is known
├── UpgradeRequired     426  this path speaks WebSocket; the headers say which
├── TooMany             429  more of it than one address may have
└── Unavailable         503  not now; trying again can help
    ├── OrderBookNotReady    no ledger has been folded yet
    └── NotReady             the process should get no traffic, with the reasons

Views raise; `answer_errors` registers who answers. The router's own refusals (404, 405, 413, …), a
lost or slow database (503) and anything unforeseen (500) leave in the same shape.
A `code` is stable; a `message` is for people and may change.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

from flask import Flask, Response, jsonify
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as NoFreeConnection
from werkzeug.exceptions import HTTPException

logger = logging.getLogger(__name__)

RETRY_AFTER_SECONDS = 5
"""About a ledger: what is missing now may be there with the next one."""

_ROUTER_CODES = {
    404: "NOT_FOUND",
    405: "METHOD_NOT_ALLOWED",
    413: "BODY_TOO_LARGE",
    500: "INTERNAL",
}
_ROUTER_MESSAGES = {
    404: "there is nothing at this path",
    413: "the body is larger than this service accepts",
    500: "something went wrong on our side",
}


class ApiError(Exception):
    """Base of the tree above."""

    status: ClassVar[int]
    code: ClassVar[str]
    headers: ClassVar[Mapping[str, str]] = {}
    """Sent with it."""

    def __init__(self, message: str, *, code: str | None = None, **members: Any) -> None:
        super().__init__(message)
        self.message = message
        self.said_code = code or self.code
        self.members: Mapping[str, Any] = members
        """Further members of the body."""


class BadRequest(ApiError):
    """A parameter or body is malformed; the message names it."""

    status = 400
    code = "BAD_REQUEST"


class Unauthorized(ApiError):
    """No token, or one that is not valid. Which, and why, is not said: it would help a forger."""

    status = 401
    code = "UNAUTHORIZED"
    headers = MappingProxyType({"WWW-Authenticate": "Bearer"})

    def __init__(self) -> None:
        super().__init__("a valid bearer token is needed")


class Forbidden(ApiError):
    """The token is valid, and its owner may not do this."""

    status = 403
    code = "FORBIDDEN"


class NotFound(ApiError):
    """Nothing of that name is known."""

    status = 404
    code = "NOT_FOUND"


class UpgradeRequired(ApiError):
    """This path speaks WebSocket."""

    status = 426
    code = "UPGRADE_REQUIRED"
    headers = MappingProxyType({"Upgrade": "websocket", "Sec-WebSocket-Version": "13"})


class TooMany(ApiError):
    """More of it than one address may have."""

    status = 429
    code = "TOO_MANY"
    headers = MappingProxyType({"Retry-After": str(RETRY_AFTER_SECONDS)})


class Unavailable(ApiError):
    """Not now; trying again can help."""

    status = 503
    code = "UNAVAILABLE"
    headers = MappingProxyType({"Retry-After": str(RETRY_AFTER_SECONDS)})


class OrderBookNotReady(Unavailable):
    """No ledger has been folded yet, so there is no book to read, not even an empty one."""

    code = "ORDER_BOOK_NOT_READY"


class NotReady(Unavailable):
    """The process should get no traffic."""

    code = "NOT_READY"

    def __init__(self, reasons: Sequence[str], **members: Any) -> None:
        super().__init__("; ".join(reasons), reasons=list(reasons), **members)


def answer_errors(app: Flask) -> None:
    """Register the handler for everything a view or the router can raise."""
    app.register_error_handler(ApiError, _answer_ours)
    app.register_error_handler(HTTPException, _answer_routers)
    app.register_error_handler(OperationalError, _answer_lost_database)
    app.register_error_handler(NoFreeConnection, _answer_lost_database)


def _answer_ours(error: ApiError) -> Response:
    response = _response(error.status, error.said_code, error.message, error.members)
    response.headers.update(error.headers)
    return response


def _answer_routers(error: HTTPException) -> Response:
    """Flask wraps what nobody foresaw into werkzeug's 500 after logging it, so that is here too."""
    status = error.code or 500
    message = _ROUTER_MESSAGES.get(status) or error.description or error.name
    code = _ROUTER_CODES.get(status) or re.sub(r"\W+", "_", error.name).upper()
    response = _response(status, code, message, {})
    # Such as `Allow` beside a 405.
    for name, value in error.get_headers():
        if name.lower() != "content-type":
            response.headers[name] = value
    return response


def _answer_lost_database(error: OperationalError | NoFreeConnection) -> Response:
    # Not the error as a whole: it would quote the statement's parameters.
    logger.error("database unavailable: %s", getattr(error, "orig", None) or error.args[0])
    return _answer_ours(
        Unavailable("the database does not answer right now", code="DATABASE_UNAVAILABLE")
    )


def _response(status: int, code: str, message: str, members: Mapping[str, Any]) -> Response:
    response = jsonify({"message": message, "code": code, **members})
    response.status_code = status
    return response
