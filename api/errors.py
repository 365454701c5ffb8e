"""The API's errors: status, code and a sentence, sent as `{"message": …, "code": …}`.

Views raise `ApiError`s. Errors of the router (404, 405, 413, …), a lost or slow database (503) and
anything unexpected (500) are answered in the same shape; what the server refuses before there is an
app has `error_body` (`api.server_errors`). A `code` is stable, and `CODES` has all of them; a
`message` is for people and may change.
"""

import logging
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import orjson
from flask import Flask, Response, g, jsonify
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as NoFreeConnection
from werkzeug.exceptions import HTTPException

logger = logging.getLogger(__name__)

RETRY_AFTER_SECONDS = 5
"""About the time of a ledger."""


class Code(NamedTuple):
    """HTTP status of a code, and its meaning in the OpenAPI document."""

    status: int
    meaning: str


CODES: Mapping[str, Code] = MappingProxyType(
    {
        "BAD_REQUEST": Code(400, "The request is malformed; the message says where."),
        "BAD_QUERY": Code(400, "The query string is no UTF-8, or holds a NUL."),
        "UNKNOWN_PARAMETER": Code(400, "The query or form has a parameter that means nothing."),
        "REPEATED_PARAMETER": Code(400, "A parameter that has one value was given several times."),
        "BAD_BODY": Code(400, "The body is no JSON object of the shape that is asked for."),
        "BAD_FILTER": Code(400, "A filter, such as one of the order book, cannot be read."),
        "BAD_ADDRESS": Code(400, "That is no Stellar address."),
        "BAD_INTENT_ID": Code(400, "That is no order id."),
        "BAD_LIMIT": Code(400, "`limit` is no number, or out of range."),
        "BAD_ROUTE": Code(400, "`route` is none that this network has; the message lists them."),
        "BAD_CHAIN": Code(400, "The route is not enabled on that chain; the message lists those."),
        "BAD_AMOUNT": Code(400, "`amount_in` is no whole number, or of a part that cannot cross."),
        "AMOUNT_OUT_OF_LIMITS": Code(400, "`amount_in` is outside the route's limits."),
        "BAD_SOURCE_ADDRESS": Code(400, "`source_address` is none on the source chain."),
        "BAD_DEST_ADDRESS": Code(400, "`dest_address` is none that money may go to."),
        "BAD_FUNDING_MODE": Code(400, "The chain cannot be paid in that way."),
        "BAD_IDEMPOTENCY_KEY": Code(400, "`Idempotency-Key` is missing, or no short plain text."),
        "BAD_SUBMISSION": Code(400, "The submission lacks what its kind needs, or has more."),
        "BAD_CURSOR": Code(400, "`before` is no ISO 8601 time."),
        "BAD_AFTER": Code(400, "`after` is not the number of a ledger, or of an event of yours."),
        "BAD_WEBHOOK_URL": Code(400, "`url` is no place on the internet that https leads to."),
        "BAD_MEMO": Code(400, "Accounts are not divided by memo here: leave it out."),
        "BAD_HOME_DOMAIN": Code(400, "`home_domain` is another service's."),
        "BAD_CHALLENGE": Code(400, "No challenge of ours, expired, or not signed as it must be."),
        "CHALLENGE_USED": Code(400, "This challenge gave a token already; ask for a new one."),
        "BAD_HANDSHAKE": Code(400, "The WebSocket handshake is malformed."),
        "NOT_OUR_TOKEN": Code(400, "Only who issued the token can end it."),
        "UNAUTHORIZED": Code(401, "There is no token, or it is not valid."),
        "FORBIDDEN": Code(403, "Who asks is known, and may not."),
        "NOT_THE_OWNER": Code(403, "It is another account's; you may do it for your own."),
        "NO_STELLAR_WALLET": Code(403, "The identity provider keeps no Stellar wallet for you."),
        "WALLET_CHANGED": Code(403, "The wallet that you have used here is not yours any more."),
        "ORIGIN_NOT_ALLOWED": Code(403, "Pages of this origin may not open the stream."),
        "NOT_FOUND": Code(404, "There is nothing of that name."),
        "PROVIDER_NOT_FOUND": Code(404, "No such provider has been seen."),
        "INTENT_NOT_FOUND": Code(404, "No such order has been seen."),
        "QUOTE_NOT_FOUND": Code(404, "You were given no such quote."),
        "TRANSFER_NOT_FOUND": Code(404, "You have no such transfer."),
        "WEBHOOK_NOT_FOUND": Code(404, "You have no such webhook."),
        "WEBHOOKS_OFF": Code(404, "This service sends to no webhooks."),
        "SIGN_IN_OFF": Code(404, "This service signs nobody in with a Stellar account."),
        "METHOD_NOT_ALLOWED": Code(405, "This path does not know that method; `Allow` has those."),
        "CONFLICT": Code(409, "It is in another state by now."),
        "QUOTE_USED": Code(409, "The quote is used: `transfer` was made of it."),
        "QUOTE_EXPIRED": Code(409, "The quote has expired; ask for a new one."),
        "NOT_AWAITED": Code(409, "The transfer awaits no transaction: `stage` says where it is."),
        "DUPLICATE_SUBMISSION": Code(409, "The transaction was submitted before."),
        "NOT_CANCELLABLE": Code(409, "It is too late to cancel: `stage` says where it is."),
        "NOT_THE_SAME": Code(412, "It is not what `If-Match` says it is."),
        "BODY_TOO_LARGE": Code(413, "The body is larger than 64 KiB, or 16 at `/auth`."),
        "URI_TOO_LONG": Code(414, "The request line is too long."),
        "UNSUPPORTED_MEDIA_TYPE": Code(415, "The body is of another kind than this path takes."),
        "EXPECTATION_FAILED": Code(417, "`Expect` asks for what this server does not do."),
        "UNACCEPTABLE": Code(422, "The request can be read, and is refused."),
        "IDEMPOTENCY_KEY_REUSED": Code(422, "`transfer` was made with this key and another body."),
        "SUBMISSION_MISMATCH": Code(422, "It is not what was asked for: `fields` differ."),
        "NOT_MINED": Code(422, "Too few nodes know that the transaction was mined: try again."),
        "DAILY_LIMIT": Code(422, "More than may be started in a UTC day."),
        "OUTSTANDING_LIMIT": Code(422, "More than may be under way at a time."),
        "RECIPIENT_REFUSED": Code(422, "The asset's issuer does not let the recipient be paid."),
        "TOO_MANY_FAILURES": Code(
            422, "Too many of the owner's transactions failed today at the service's expense."
        ),
        "WEBHOOK_LIMIT": Code(422, "More webhooks than an owner may have, or register in a day."),
        "UPGRADE_REQUIRED": Code(426, "This path speaks WebSocket, version 13."),
        "TOO_MANY": Code(429, "More requests than one address or owner may make."),
        "TOO_MANY_STREAMS": Code(429, "As many streams are open from this address as may be."),
        "HEADERS_TOO_LARGE": Code(431, "The headers are too many or too long."),
        "INTERNAL": Code(500, "Something went wrong on our side; the id names it in our log."),
        "NOT_IMPLEMENTED": Code(501, "The request is coded in a way that this server cannot read."),
        "UNAVAILABLE": Code(503, "Not now; trying again can help."),
        "OVERLOADED": Code(503, "More requests wait than can be answered; try again later."),
        "DATABASE_UNAVAILABLE": Code(503, "The database does not answer right now."),
        "IDENTITY_UNAVAILABLE": Code(503, "The identity provider does not answer right now."),
        "CHAIN_UNAVAILABLE": Code(503, "Nothing can be promised about that chain right now."),
        "FEES_UNAVAILABLE": Code(
            503, "What others charge for a transfer cannot be read right now."
        ),
        "LEDGER_UNAVAILABLE": Code(503, "The ledger cannot be read: nobody knows who may sign."),
        "WEBHOOKS_UNAVAILABLE": Code(503, "Nobody sends to webhooks right now."),
        "ORDER_BOOK_NOT_READY": Code(503, "No ledger has been folded yet: there is no book."),
        "NOT_READY": Code(503, "The process should get no traffic; `reasons` says why."),
        "STREAM_FULL": Code(503, "All places of the stream are taken."),
        "STREAM_NOT_SERVED": Code(503, "This process serves no stream."),
    }
)
"""Every code. A released one keeps its status and meaning."""

_STATUS_CODES = {
    404: "NOT_FOUND",
    405: "METHOD_NOT_ALLOWED",
    412: "NOT_THE_SAME",
    413: "BODY_TOO_LARGE",
    414: "URI_TOO_LONG",
    415: "UNSUPPORTED_MEDIA_TYPE",
    417: "EXPECTATION_FAILED",
    431: "HEADERS_TOO_LARGE",
    501: "NOT_IMPLEMENTED",
    503: "OVERLOADED",
}
_MESSAGES = {
    "BAD_REQUEST": "the request cannot be read",
    "NOT_FOUND": "there is nothing at this path",
    "BODY_TOO_LARGE": "the body is larger than this service accepts",
    "URI_TOO_LONG": "the request line is longer than this service accepts",
    "HEADERS_TOO_LARGE": "the headers are more or longer than this service accepts",
    "NOT_IMPLEMENTED": "the request is coded in a way that this service does not read",
    "OVERLOADED": "more requests wait than can be answered; try again later",
    "INTERNAL": "something went wrong on our side",
}


class ApiError(Exception):
    """Base of the errors that views raise."""

    status: ClassVar[int]
    code: ClassVar[str]
    headers: Mapping[str, str] = MappingProxyType({})

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
        **members: Any,
    ) -> None:
        super().__init__(message)
        self.headers = self.headers if headers is None else headers
        self.message = message
        self.error_code = code or self.code
        self.members: Mapping[str, Any] = members
        """Further members of the body."""


class BadRequest(ApiError):
    """A parameter or body is malformed; the message names it."""

    status = 400
    code = "BAD_REQUEST"


class Unauthorized(ApiError):
    """No valid token. The answer does not say why: that would help a forger."""

    status = 401
    code = "UNAUTHORIZED"
    headers = MappingProxyType({"WWW-Authenticate": "Bearer"})

    def __init__(self) -> None:
        super().__init__("a valid bearer token is needed")


class Forbidden(ApiError):
    """The token is valid, and its owner may not do this."""

    status = 403
    code = "FORBIDDEN"


class NotTheOwner(Forbidden):
    """The resource belongs to another account."""

    code = "NOT_THE_OWNER"


class NoStellarWallet(Forbidden):
    """The identity provider keeps no Stellar wallet for the user, so the user owns nothing here."""

    code = "NO_STELLAR_WALLET"

    def __init__(self) -> None:
        super().__init__("the identity provider keeps no Stellar wallet for you; create one there")


class WalletChanged(Forbidden):
    """The wallet that the user is bound to is gone; users are not moved to another unasked."""

    code = "WALLET_CHANGED"

    def __init__(self) -> None:
        super().__init__(
            "the Stellar wallet that you have used here is not yours any more at the identity "
            "provider; write to the operator"
        )


class NotFound(ApiError):
    """No such resource."""

    status = 404
    code = "NOT_FOUND"


class Conflict(ApiError):
    """The resource is in another state by now."""

    status = 409
    code = "CONFLICT"


class PreconditionFailed(ApiError):
    """`If-Match` names another version."""

    status = 412
    code = "NOT_THE_SAME"


class UnsupportedMediaType(ApiError):
    """The path takes another Content-Type."""

    status = 415
    code = "UNSUPPORTED_MEDIA_TYPE"


class Unprocessable(ApiError):
    """Well-formed, and refused."""

    status = 422
    code = "UNACCEPTABLE"


class UpgradeRequired(ApiError):
    """The path takes WebSocket connections only."""

    status = 426
    code = "UPGRADE_REQUIRED"
    headers = MappingProxyType({"Upgrade": "websocket", "Sec-WebSocket-Version": "13"})


class TooManyRequests(ApiError):
    """A rate or connection limit is reached."""

    status = 429
    code = "TOO_MANY"
    headers = MappingProxyType({"Retry-After": str(RETRY_AFTER_SECONDS)})


class Unavailable(ApiError):
    """A retry can help."""

    status = 503
    code = "UNAVAILABLE"
    headers = MappingProxyType({"Retry-After": str(RETRY_AFTER_SECONDS)})


class OrderBookNotReady(Unavailable):
    """No ledger has been folded yet: there is no book, not even an empty one."""

    code = "ORDER_BOOK_NOT_READY"


class IdentityUnavailable(Unavailable):
    """The identity provider does not answer."""

    code = "IDENTITY_UNAVAILABLE"

    def __init__(self) -> None:
        super().__init__("the identity provider does not answer right now")


class ChainUnavailable(Unavailable):
    """A chain's ingestion, nodes or relay are not healthy."""

    code = "CHAIN_UNAVAILABLE"


class FeesUnavailable(Unavailable):
    """Bridge fees or gas prices cannot be read."""

    code = "FEES_UNAVAILABLE"


class ProcessNotReady(Unavailable):
    """The process should get no traffic, with the reasons."""

    code = "NOT_READY"

    def __init__(self, reasons: Sequence[str], **members: Any) -> None:
        super().__init__("; ".join(reasons), reasons=list(reasons), **members)


def register_error_handlers(app: Flask) -> None:
    """Register handlers for everything a view or the router can raise."""
    app.register_error_handler(ApiError, error_response)
    app.register_error_handler(HTTPException, _answer_http_error)
    app.register_error_handler(OperationalError, _answer_database_error)
    app.register_error_handler(NoFreeConnection, _answer_database_error)


def error_response(error: ApiError) -> Response:
    """The HTTP response."""
    response = _response(error.status, error.error_code, error.message, error.members)
    response.headers.update(error.headers)
    return response


def _answer_http_error(error: HTTPException) -> Response:
    """Also unexpected errors: Flask logs them and wraps them in werkzeug's 500."""
    code = code_for_status(error.code or 500)
    message = _MESSAGES.get(code) or error.description or error.name
    response = _response(error.code or 500, code, message, {})
    # Such as `Allow` of a 405.
    for name, value in error.get_headers():
        if name.lower() != "content-type":
            response.headers[name] = value
    return response


def code_for_status(status: int) -> str:
    """Code of an error outside of views; generic for a status without its own."""
    return _STATUS_CODES.get(status) or ("BAD_REQUEST" if status < 500 else "INTERNAL")


def error_body(status: int) -> bytes:
    """The body of an error that is sent outside of the app."""
    code = code_for_status(status)
    return orjson.dumps({"message": _MESSAGES.get(code, CODES[code].meaning), "code": code})


def _answer_database_error(error: OperationalError | NoFreeConnection) -> Response:
    # Not the error as a whole: it would quote the statement's parameters.
    logger.error("database unavailable: %s", getattr(error, "orig", None) or error.args[0])
    return error_response(
        Unavailable("the database does not answer right now", code="DATABASE_UNAVAILABLE")
    )


def _response(status: int, code: str, message: str, members: Mapping[str, Any]) -> Response:
    g.error_code = code
    response = jsonify({"message": message, "code": code, **members})
    response.status_code = status
    return response
