"""The documents, and the page that shows them."""

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import orjson
from flask import Blueprint, Flask, Response, current_app

from api.auth.owner import public
from api.document import page
from api.errors import NotFound
from api.operation import operation
from api.responses import StoredBody, send

document = Blueprint("document", __name__)
document.before_request(public)

_KEY = "isthmus.documents"


def register_documents(app: Flask, **makers: Callable[[], Any]) -> None:
    """Each document is made once, at its first request: the app is complete only then."""
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
    return _send_file(page.PAGE)


@document.get("/docs/<path:name>")
def send_asset(name: str) -> Response:
    """A file of the page."""
    if name not in page.FILES or name == page.PAGE:
        raise NotFound("the page has no file of that name")
    return _send_file(name)


def _send_file(name: str) -> Response:
    body = page.load(name)
    response = send(body, version="1", media_type=page.FILES[name])
    response.headers.update(page.HEADERS)
    return response


def _send_document(name: str) -> Response:
    documents: Mapping[str, Callable[[], StoredBody]] = current_app.extensions[_KEY]
    return send(documents[name](), version="1")
