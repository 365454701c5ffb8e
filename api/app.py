"""Builds the app from its dependencies: reads neither the environment nor a clock."""

from collections.abc import Callable
from typing import Any

from flask import Flask, request
from werkzeug.exceptions import RequestEntityTooLarge

from api.actions.views import actions
from api.asyncapi import asyncapi
from api.auth.owner import init_authenticator
from api.auth.session import session
from api.auth.views import auth
from api.browser_headers import register_browser_headers
from api.deps import Deps, register_deps
from api.document.views import document, register_documents
from api.errors import BadRequest, register_error_handlers
from api.health.readiness import register_readiness
from api.health.views import health
from api.metrics import register_request_metrics
from api.openapi import openapi
from api.orderbook.books import Books
from api.orderbook.history import PriceHistoryCache
from api.orderbook.ready import ReadyResponses
from api.orderbook.views import orderbook, register_books
from api.pages.views import pages
from api.parsing import MAX_BODY_BYTES, validate_query
from api.quotes.views import quotes
from api.rate_limits import register_rate_limits
from api.reads import register_positions
from api.request_log import log_failure, register_request_log
from api.responses import OrjsonProvider
from api.routes.views import routes
from api.server_errors import register_body_errors
from api.status.recent import register_status
from api.status.views import status
from api.stream.socket import register_stream, stream
from api.transfers.views import transfers
from api.webhooks.views import webhooks


class App(Flask):
    """Flask without coroutine support. Its error log contains no text of a client."""

    def ensure_sync(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """Views are no coroutines: Flask would check each at every request."""
        return func

    def log_exception(self, exc_info: Any) -> None:
        """Unexpected errors: type and traceback, never the message, which may quote a client."""
        log_failure(exc_info[1])


def create_app(deps: Deps) -> Flask:
    """An app on `deps`."""
    app = App("api", static_folder=None)
    app.json = OrjsonProvider(app)
    # A double slash is an unknown path, not a redirect with a page of HTML.
    app.url_map.merge_slashes = False
    # Flask silently truncates a body without a Content-Length: one byte past the limit shows that
    # it was too large.
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY_BYTES + 1
    register_deps(app, deps)
    init_authenticator(app, deps)
    books = Books(deps.engine, deps.network.stellar.id, deps.listener)
    register_books(app, books, PriceHistoryCache(deps.engine))
    register_status(app, deps.status_seconds)
    register_readiness(app, deps.readiness_seconds)
    register_stream(app, deps)
    register_documents(app, openapi=lambda: openapi(app), asyncapi=asyncapi)
    register_request_log(app)
    register_request_metrics(app, deps.metrics)
    register_browser_headers(app, deps.web)
    register_rate_limits(app, deps.limiter)
    register_positions(app)
    app.before_request(_validate_body)
    app.before_request(validate_query)
    register_error_handlers(app)
    register_body_errors(app)
    for blueprint in (
        *(health, auth, session, document, pages),
        *(routes, status, quotes, transfers, actions, webhooks),
        *(orderbook, stream),
    ):
        app.register_blueprint(blueprint)
    app.wsgi_app = ReadyResponses(app.wsgi_app, books, deps)  # type: ignore[method-assign]
    return app


def _validate_body() -> None:
    """Check size and completeness on every path, also where no view reads the body."""
    length = request.content_length
    if length is not None and length > MAX_BODY_BYTES:
        raise RequestEntityTooLarge
    found = len(request.get_data())
    if found > MAX_BODY_BYTES:
        raise RequestEntityTooLarge
    if length is not None and found < length:
        # A truncated body may mean something else.
        raise BadRequest("the body ends before its Content-Length", code="BAD_BODY")
