"""The API's errors: status, code and a sentence, sent as `{"message": …, "code": …}`.

Views raise `ApiError`s. Errors of the router (404, 405, 413, …), an unavailable database (503) and
unexpected errors (500) have the same shape, and so have refusals of the server before the app
(`error_body`, `api.server_errors`). A `code` is stable, and `CODES` lists all of them; a `message`
is for people and may change.
"""

import logging
from collections.abc import Mapping
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
        "BAD_QUERY": Code(400, "The query string is not UTF-8, or contains NUL."),
        "UNKNOWN_PARAMETER": Code(400, "The query or form has an unknown parameter."),
        "REPEATED_PARAMETER": Code(400, "A parameter is given more than once."),
        "BAD_BODY": Code(400, "The body is not a JSON object of the documented shape."),
        "BAD_FILTER": Code(400, "A filter is malformed."),
        "BAD_ADDRESS": Code(400, "The address is not a Stellar address."),
        "BAD_INTENT_ID": Code(400, "The order id is malformed."),
        "BAD_LIMIT": Code(400, "`limit` is not a number, or out of range."),
        "BAD_ROUTE": Code(400, "The network has no such route; the message lists its routes."),
        "BAD_CHAIN": Code(400, "The route is not enabled on that chain; the message lists those."),
        "BAD_AMOUNT": Code(400, "`amount_in` is not a whole number, or no multiple of the step."),
        "AMOUNT_OUT_OF_LIMITS": Code(400, "`amount_in` is outside the route's limits."),
        "BAD_SOURCE_ADDRESS": Code(400, "`source_address` is not an address on the source chain."),
        "BAD_DEST_ADDRESS": Code(400, "`dest_address` cannot receive on the destination chain."),
        "BAD_FUNDING_MODE": Code(400, "The source chain does not have that funding mode."),
        "BAD_IDEMPOTENCY_KEY": Code(400, "`Idempotency-Key` is missing or malformed."),
        "BAD_SUBMISSION": Code(400, "The submission lacks a member of its kind, or has another."),
        "BAD_CURSOR": Code(400, "`before` is not an ISO 8601 time."),
        "BAD_POSITION": Code(400, "`X-Position` is not of an earlier answer of this service."),
        "BAD_AFTER": Code(400, "`after` is not the number of a ledger or of an event of yours."),
        "BAD_WEBHOOK_URL": Code(400, "`url` is not an https URL with a host name."),
        "BAD_MEMO": Code(400, "Accounts are not divided by memo: leave it out."),
        "BAD_HOME_DOMAIN": Code(400, "`home_domain` is not a domain of this service."),
        "BAD_CHALLENGE": Code(400, "The challenge is not ours, expired, or not fully signed."),
        "CHALLENGE_USED": Code(400, "The challenge gave a token before; ask for a new one."),
        "BAD_HANDSHAKE": Code(400, "The WebSocket handshake is malformed."),
        "NOT_OUR_TOKEN": Code(400, "Another issuer's token cannot be revoked here."),
        "UNAUTHORIZED": Code(401, "The token is missing or invalid."),
        "FORBIDDEN": Code(403, "The owner of the token may not do this."),
        "NOT_THE_OWNER": Code(403, "The account is not that of the token."),
        "NO_STELLAR_WALLET": Code(403, "The identity provider has no Stellar wallet of the user."),
        "WALLET_CHANGED": Code(403, "The user no longer has the wallet that was used before."),
        "ORIGIN_NOT_ALLOWED": Code(403, "Pages of this origin may not open the stream."),
        "NOT_FOUND": Code(404, "The path or resource does not exist."),
        "PROVIDER_NOT_FOUND": Code(404, "The provider is unknown."),
        "INTENT_NOT_FOUND": Code(404, "The order is unknown."),
        "QUOTE_NOT_FOUND": Code(404, "You have no such quote."),
        "TRANSFER_NOT_FOUND": Code(404, "You have no such transfer."),
        "WEBHOOK_NOT_FOUND": Code(404, "You have no such webhook."),
        "WEBHOOKS_OFF": Code(404, "This service has no webhooks."),
        "SIGN_IN_OFF": Code(404, "This service has no SEP-10 login."),
        "METHOD_NOT_ALLOWED": Code(405, "The path does not have that method; `Allow` lists them."),
        "CONFLICT": Code(409, "The resource has changed."),
        "QUOTE_USED": Code(409, "The quote is used: `transfer` was made of it."),
        "QUOTE_EXPIRED": Code(409, "The quote has expired; ask for a new one."),
        "NOT_AWAITED": Code(409, "The transfer awaits no transaction; `stage` is its stage."),
        "DUPLICATE_SUBMISSION": Code(409, "The transaction was submitted before."),
        "NOT_CANCELLABLE": Code(409, "It is too late to cancel; `stage` is the transfer's stage."),
        "NOT_THE_SAME": Code(412, "The resource does not match `If-Match`."),
        "BODY_TOO_LARGE": Code(413, "The body is larger than 64 KiB, or 16 at `/auth`."),
        "URI_TOO_LONG": Code(414, "The request line is too long."),
        "UNSUPPORTED_MEDIA_TYPE": Code(415, "The path does not accept this media type."),
        "EXPECTATION_FAILED": Code(417, "The server does not support this `Expect`."),
        "UNACCEPTABLE": Code(422, "The request is well-formed, and refused."),
        "IDEMPOTENCY_KEY_REUSED": Code(422, "`transfer` was made with this key and another body."),
        "SUBMISSION_MISMATCH": Code(422, "`fields` of the transaction differ from the action."),
        "NOT_MINED": Code(422, "Too few nodes have the transaction's receipt: try again."),
        "DAILY_LIMIT": Code(422, "The owner's limit for a UTC day is reached."),
        "OUTSTANDING_LIMIT": Code(422, "The owner's limit of pending transfers is reached."),
        "RECIPIENT_REFUSED": Code(422, "The asset's issuer does not allow paying the recipient."),
        "TOO_MANY_FAILURES": Code(
            422, "Too many of the owner's transactions failed today at the service's expense."
        ),
        "WEBHOOK_LIMIT": Code(422, "The owner's limit of webhooks, or of new ones a day."),
        "UPGRADE_REQUIRED": Code(426, "The path accepts WebSocket connections, version 13, only."),
        "TOO_MANY": Code(429, "The rate limit of the address or owner is reached."),
        "TOO_MANY_STREAMS": Code(429, "The limit of streams from the address is reached."),
        "HEADERS_TOO_LARGE": Code(431, "The headers are too many or too long."),
        "INTERNAL": Code(500, "Internal error; the log has it under the request's id."),
        "NOT_IMPLEMENTED": Code(501, "The server does not support this transfer coding."),
        "UNAVAILABLE": Code(503, "Temporarily unavailable: try again."),
        "OVERLOADED": Code(503, "Too many requests wait: try again."),
        "DATABASE_UNAVAILABLE": Code(503, "The database does not answer."),
        "IDENTITY_UNAVAILABLE": Code(503, "The identity provider does not answer."),
        "CHAIN_UNAVAILABLE": Code(503, "A chain's ingestion, nodes or relay are unhealthy."),
        "FEES_UNAVAILABLE": Code(503, "Bridge fees or gas prices cannot be read."),
        "LEDGER_UNAVAILABLE": Code(503, "Signers and trustlines cannot be read from the ledger."),
        "WEBHOOKS_UNAVAILABLE": Code(503, "The webhook sender is not running."),
        "ORDER_BOOK_NOT_READY": Code(503, "No ledger is ingested yet, so there is no order book."),
        "NOT_READY": Code(503, "The process should get no traffic; `reasons` says why."),
        "STREAM_FULL": Code(503, "The process has no room for another stream."),
        "STREAM_NOT_SERVED": Code(503, "The process serves no stream."),
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
    "BODY_TOO_LARGE": "the body is too large",
    "URI_TOO_LONG": "the request line is too long",
    "HEADERS_TOO_LARGE": "the headers are too many or too long",
    "NOT_IMPLEMENTED": "the transfer coding is not supported",
    "OVERLOADED": "the service is restarting or overloaded; try again later",
    "INTERNAL": "something went wrong on our side",
}


class ApiError(Exception):
    """Base of the errors that views raise. The status is that of the code."""

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

    code = "BAD_REQUEST"


class Unauthorized(ApiError):
    """No valid token. The answer does not say why: that would help a forger."""

    code = "UNAUTHORIZED"
    headers = MappingProxyType({"WWW-Authenticate": "Bearer"})

    def __init__(self) -> None:
        super().__init__("a valid bearer token is needed")


class Forbidden(ApiError):
    """The token is valid, and its owner may not do this."""

    code = "FORBIDDEN"


class NoStellarWallet(Forbidden):
    """The identity provider has no Stellar wallet of the user, so the user owns nothing here."""

    code = "NO_STELLAR_WALLET"

    def __init__(self) -> None:
        super().__init__("the identity provider has no Stellar wallet of yours; create one there")


class WalletChanged(Forbidden):
    """The wallet that the user is bound to is gone; users are not moved to another unasked."""

    code = "WALLET_CHANGED"

    def __init__(self) -> None:
        super().__init__(
            "the identity provider no longer has the Stellar wallet that you have used here; "
            "write to the operator"
        )


class NotFound(ApiError):
    """No such resource."""

    code = "NOT_FOUND"


class Conflict(ApiError):
    """The resource is in another state by now."""

    code = "CONFLICT"


class Unprocessable(ApiError):
    """Well-formed, and refused."""

    code = "UNACCEPTABLE"


class UpgradeRequired(ApiError):
    """The path takes WebSocket connections only."""

    code = "UPGRADE_REQUIRED"
    headers = MappingProxyType({"Upgrade": "websocket", "Sec-WebSocket-Version": "13"})


class TooManyRequests(ApiError):
    """A rate or connection limit is reached."""

    code = "TOO_MANY"
    headers = MappingProxyType({"Retry-After": str(RETRY_AFTER_SECONDS)})


class Unavailable(ApiError):
    """A retry can help."""

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


def register_error_handlers(app: Flask) -> None:
    """Register handlers for everything a view or the router can raise."""
    app.register_error_handler(ApiError, error_response)
    app.register_error_handler(HTTPException, _answer_http_error)
    app.register_error_handler(OperationalError, _answer_database_error)
    app.register_error_handler(NoFreeConnection, _answer_database_error)


def error_response(error: ApiError) -> Response:
    """The HTTP response."""
    response = _response(
        CODES[error.error_code].status, error.error_code, error.message, error.members
    )
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
