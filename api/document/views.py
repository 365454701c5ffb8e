"""The documents, and `/docs`: the page that shows them, by Swagger UI, which is shipped here."""

from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import orjson
from flask import Blueprint, Flask, Response, current_app

from api.auth.owner import public
from api.errors import NotFound
from api.operation import operation
from api.responses import StoredBody, send

document = Blueprint("document", __name__)
document.before_request(public)

_KEY = "isthmus.documents"

STATIC = Path(__file__).parent / "static"
PAGE = "index.html"
FILES: Mapping[str, str] = {
    PAGE: "text/html; charset=utf-8",
    "docs.css": "text/css; charset=utf-8",
    "docs.js": "text/javascript; charset=utf-8",
    "vendor/swagger-ui/swagger-ui.css": "text/css; charset=utf-8",
    "vendor/swagger-ui/swagger-ui-bundle.js": "text/javascript; charset=utf-8",
}
"""File below `static/` → media type. A licence is kept there and not served."""

_POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    # Swagger UI's icons are in its style sheet.
    "img-src": "'self' data:",
    "connect-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
}
HEADERS = {
    "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in _POLICY.items()),
    "Cross-Origin-Opener-Policy": "same-origin",
}


def register_documents(app: Flask, **makers: Callable[[], Any]) -> None:
    """Each document is made at its first request, when the app is complete, and then cached."""
    app.extensions[_KEY] = {name: cache(partial(_render, make)) for name, make in makers.items()}


def _render(make: Callable[[], Any]) -> StoredBody:
    return StoredBody(orjson.dumps(make()))


@document.get("/openapi.json")
@operation("showOpenapi", "Documents", {200: "The document."}, shape=dict[str, Any], cached=True)
def show_openapi() -> Response:
    """This document (OpenAPI 3.1)."""
    return _send_document("openapi")


@document.get("/asyncapi.json")
@operation("showAsyncapi", "Documents", {200: "The document."}, shape=dict[str, Any], cached=True)
def show_asyncapi() -> Response:
    """The document of the stream (AsyncAPI 3)."""
    return _send_document("asyncapi")


@document.get("/docs")
def show_page() -> Response:
    """The document for people."""
    return _send_file(PAGE)


@document.get("/docs/<path:name>")
def send_asset(name: str) -> Response:
    """A file of the page."""
    if name not in FILES or name == PAGE:
        raise NotFound("the page has no file of that name")
    return _send_file(name)


def _send_file(name: str) -> Response:
    response = send(_load(name), version="1", media_type=FILES[name])
    response.headers.update(HEADERS)
    return response


@cache
def _load(name: str) -> StoredBody:
    return StoredBody((STATIC / name).read_bytes())


def _send_document(name: str) -> Response:
    documents: Mapping[str, Callable[[], StoredBody]] = current_app.extensions[_KEY]
    return send(documents[name](), version="1")
