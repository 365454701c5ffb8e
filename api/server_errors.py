"""Error responses to requests that gunicorn cannot parse, in the shape of the app's errors.

Gunicorn would answer HTML that quotes the request, and log the malformed line, which may hold a
secret. Here answer and log have only the kind of error.
"""

import logging
import socket
import traceback
from http import HTTPStatus

from flask import Flask, Response
from gunicorn.http import errors as bad

from api.errors import BadRequest, error_body, error_response

logger = logging.getLogger(__name__)

_STATUSES: tuple[tuple[type[Exception], HTTPStatus], ...] = (
    # Errors of the app's response, not of the client.
    (bad.InvalidResponseHeader, HTTPStatus.INTERNAL_SERVER_ERROR),
    (bad.InvalidResponseHeaderName, HTTPStatus.INTERNAL_SERVER_ERROR),
    (bad.LimitRequestLine, HTTPStatus.REQUEST_URI_TOO_LONG),
    (bad.LimitRequestHeaders, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE),
    (bad.ExpectationFailed, HTTPStatus.EXPECTATION_FAILED),
    (bad.UnsupportedTransferCoding, HTTPStatus.NOT_IMPLEMENTED),
    (bad.ParseException, HTTPStatus.BAD_REQUEST),
)


def reject_request(client: socket.socket, address: str, error: Exception) -> HTTPStatus:
    """Answer a request that did not reach the app; the caller closes the connection."""
    status = next(
        (status for kind, status in _STATUSES if isinstance(error, kind)),
        HTTPStatus.INTERNAL_SERVER_ERROR,
    )
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR and status != HTTPStatus.NOT_IMPLEMENTED:
        where = "".join(traceback.format_tb(error.__traceback__))
        logger.error("request failed outside of the app: %s\n%s", type(error).__name__, where)
    else:
        logger.info(
            "request refused address=%s status=%d reason=%s", address, status, type(error).__name__
        )
    try:
        client.settimeout(1.0)
        client.sendall(refusal_response(status))
    except OSError as error:
        logger.debug("the client of a refused request is gone: %s", error)
    return status


def refusal_response(status: HTTPStatus) -> bytes:
    """The bytes of an error response that closes the connection."""
    body = error_body(status)
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        "Connection: close\r\n"
        "Content-Type: application/json\r\n"
        "X-Content-Type-Options: nosniff\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def register_body_errors(app: Flask) -> None:
    """Malformed chunks, which gunicorn finds when the app reads the body."""
    app.register_error_handler(bad.ParseException, _answer_broken_body)


def _answer_broken_body(error: bad.ParseException) -> Response:
    logger.info("body refused reason=%s", type(error).__name__)
    return error_response(BadRequest("the body has malformed chunks", code="BAD_BODY"))
