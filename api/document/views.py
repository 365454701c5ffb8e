"""The documents, and the page that shows them."""

import threading
from collections.abc import Callable
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


class Documents:
    """Made when they are first asked for: an app is complete only once it has been built."""

    def __init__(self, **makers: Callable[[], Any]) -> None:
        self._makers = makers
        self._made: dict[str, StoredBody] = {}
        self._lock = threading.Lock()

    def __getitem__(self, name: str) -> StoredBody:
        with self._lock:
            if name not in self._made:
                self._made[name] = StoredBody(orjson.dumps(self._makers[name]()))
            return self._made[name]


def register_documents(app: Flask, documents: Documents) -> None:
    """Give an app the documents that its views answer with."""
    app.extensions[_KEY] = documents


@document.get("/openapi.json")
@operation("showOpenapi", "Documents", {200: "The document."}, shape=dict[str, Any], cached=True)
def show_openapi() -> Response:
    """This document (OpenAPI 3.1)."""
    return _say("openapi")


@document.get("/asyncapi.json")
@operation("showAsyncapi", "Documents", {200: "The document."}, shape=dict[str, Any], cached=True)
def show_asyncapi() -> Response:
    """The document of the stream (AsyncAPI 3)."""
    return _say("asyncapi")


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


def _say(name: str) -> Response:
    held: Documents = current_app.extensions[_KEY]
    return send(held[name], version="1")
