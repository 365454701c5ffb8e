"""One log line for each request, under an id that the client gets back as `X-Request-Id`.

Never logged, as they may hold secrets: query, headers, body, and the messages of errors.
"""

import logging
import re
import secrets
import time
import traceback
from http import HTTPStatus

from flask import Flask, Response, g, request

from indexer.logs import logged_transfer, replace_log_context
from indexer.tracing import now, record_root_span, record_span

logger = logging.getLogger(__name__)

ID_HEADER = "X-Request-Id"
_START = "/v1/transfers"
_CLIENT_ID = re.compile(r"[A-Za-z0-9._-]{8,64}")


def log_failure(error: BaseException | None) -> None:
    """An unexpected error and its causes, innermost first, without their messages."""
    parts: list[str] = []
    while error is not None:
        frames = "".join(traceback.format_tb(error.__traceback__))
        parts.append(f"{frames}{type(error).__module__}.{type(error).__qualname__}")
        error = error.__cause__ or error.__context__
    logger.error(
        "request failed id=%s method=%s path=%r\n%s",
        g.get("request_id"),
        request.method,
        request.path,
        "\n".join(reversed(parts)),
    )


def register_request_log(app: Flask) -> None:
    """Log every request that the app answers."""
    app.before_request(_begin)
    app.after_request(_end)


def begin_request(given: str) -> str:
    """The request's id: the client's, unless that is malformed. The thread's lines have it."""
    # A proxy's id connects its log with ours; any other text is not let into the log.
    request_id = given if _CLIENT_ID.fullmatch(given) else secrets.token_hex(16)
    # A thread serves one request after the other.
    replace_log_context(request_id=request_id)
    return request_id


def log_request(request_id: str, method: str, path: str, status: int, seconds: float) -> None:
    """The line of a request that is answered."""
    milliseconds = round(seconds * 1000, 1)
    logger.info(
        # repr: a path may hold line breaks.
        "request id=%s method=%s path=%r status=%d ms=%.1f",
        *(request_id, method, path, status, milliseconds),
        extra={"method": method, "path": path, "status": status, "ms": milliseconds},
    )


def _begin() -> None:
    g.request_id = begin_request(request.headers.get(ID_HEADER, ""))
    g.request_began = time.perf_counter()
    g.request_began_at = now()


def _end(response: Response) -> Response:
    response.headers[ID_HEADER] = g.request_id
    seconds = time.perf_counter() - g.request_began
    log_request(g.request_id, request.method, request.path, response.status_code, seconds)
    _trace(response.status_code)
    return response


def _trace(status: int) -> None:
    """Record a span of a request that wrote to a transfer, which the client owns."""
    transfer = logged_transfer()
    if transfer is None or request.method != "POST" or request.url_rule is None:
        return
    route = request.url_rule.rule
    name, began = f"POST {route}", g.request_began_at
    attributes = {
        "http.request.method": "POST",
        "http.route": route,
        "http.response.status_code": status,
        "request_id": g.request_id,
    }
    if status == HTTPStatus.CREATED and route == _START:
        # Under the transfer's own trace: a client must not choose where our spans go.
        traceparent = request.headers.get("traceparent")
        record_root_span(name, transfer, began, attributes, traceparent)
    else:
        record_span(name, transfer, began, attributes)
