"""Responses of the order book that lie ready, sent before the app's machinery.

The app answers a request once for each state of the book. Its response is kept with that state,
and equal requests get it from here: two thirds of the time went into dispatching. What differs by
request is done for each: the rate limit, the log line, the metrics and four headers.
"""

import time
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Any, cast
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from werkzeug.wsgi import ClosingIterator

from api.browser_headers import ANY_ORIGIN
from api.deps import Deps
from api.errors import TooManyRequests
from api.orderbook.books import Books, ReadyResponse, RequestKey
from api.orderbook.views import AGE_HEADER, SOURCE_KEY, ResponseSource
from api.rate_limits import (
    LIMIT_HEADER,
    POLICY_HEADER,
    READS,
    REFUSED_KEY,
    client_network,
    window_headers,
)
from api.request_log import ID_HEADER, begin_request, log_request
from api.responses import accepts_gzip

_PREFIX = "/api/v1/"
_BY_REQUEST = frozenset({ID_HEADER, AGE_HEADER, POLICY_HEADER, LIMIT_HEADER})
_KEPT_STATUSES = ("200 ", "304 ")
_MAX_KEY_LENGTH = 500
"""Of query and `If-None-Match`: the rest of a key is short."""


class ReadyResponses:
    """WSGI middleware around the app. Threads share it."""

    def __init__(self, app: WSGIApplication, books: Books, deps: Deps) -> None:
        self._app = app
        self._books = books
        self._limiter, self._metrics, self._clock = deps.limiter, deps.metrics, deps.clock
        self._any_origin = ANY_ORIGIN in deps.web.origins

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """WSGI."""
        key = self._key(environ)
        if key is None:
            return self._app(environ, start_response)
        began = time.perf_counter()
        state = self._books.state_without_reading()
        ready = None if state is None else state.responses.get(key)
        if state is None or ready is None:
            return self._answer_and_keep(key, environ, start_response)
        try:
            window = self._limiter.count(READS, client_network(environ.get("REMOTE_ADDR", "")))
        except TooManyRequests as error:
            environ[REFUSED_KEY] = error
            return self._app(environ, start_response)
        request_id = begin_request(environ.get("HTTP_X_REQUEST_ID", ""))
        start_response(
            ready.status,
            [
                *ready.headers,
                (AGE_HEADER, str(state.book.age(self._clock()))),
                (ID_HEADER, request_id),
                *(() if window is None else window_headers([window])),
            ],
        )
        seconds = time.perf_counter() - began
        status = int(ready.status[:3])
        log_request(request_id, "GET", key.path, status, seconds)
        self._metrics.request_answered(ready.route, "GET", status, seconds)
        return [ready.body]

    def _key(self, environ: WSGIEnvironment) -> RequestKey | None:
        """None for a request that only the app can answer."""
        if (
            environ["REQUEST_METHOD"] != "GET"
            or not environ["PATH_INFO"].startswith(_PREFIX)
            or environ.get("CONTENT_LENGTH")
            or "HTTP_TRANSFER_ENCODING" in environ
            or "HTTP_IF_MATCH" in environ
        ):
            return None
        query, if_none_match = environ["QUERY_STRING"], environ.get("HTTP_IF_NONE_MATCH", "")
        if len(query) + len(if_none_match) > _MAX_KEY_LENGTH:
            return None
        return RequestKey(
            environ["PATH_INFO"],
            query,
            accepts_gzip(environ.get("HTTP_ACCEPT_ENCODING", "")),
            if_none_match,
            "" if self._any_origin else environ.get("HTTP_ORIGIN", ""),
        )

    def _answer_and_keep(
        self, key: RequestKey, environ: WSGIEnvironment, start_response: StartResponse
    ) -> Iterable[bytes]:
        """The app's answer, kept for the next request if it is of the cached state."""
        started: list[tuple[str, list[tuple[str, str]]]] = []

        def start(status: str, headers: list[tuple[str, str]], *rest: Any) -> Callable[..., Any]:
            started.append((status, headers))
            return start_response(status, headers, *rest)

        answer = self._app(environ, start)
        source: ResponseSource | None = environ.get(SOURCE_KEY)
        [(status, headers)] = started
        if source is None or not status.startswith(_KEPT_STATUSES):
            return answer
        with closing(cast(ClosingIterator, answer)):
            body = b"".join(answer)
        kept = tuple((name, value) for name, value in headers if name not in _BY_REQUEST)
        source.state.responses.put(key, ReadyResponse(status, kept, body, source.route))
        return [body]
