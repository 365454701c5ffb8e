"""ASGI middleware in front of Dagster's webserver.

Dagster's webserver runs a mutation that comes as GET, as a form or as a WebSocket message, from any
page and under any host name: a web page in an operator's browser could stop the relay. The guard
forwards a request if:

| request | condition |
|---|---|
| any | `Host` is a name of this page: another name is another site's (DNS rebinding) |
| any but `/server_info` | the operator's password, by HTTP Basic, where one is set |
| `GET`, `HEAD` | it is not for `/graphql` |
| `POST` | it is for `/graphql`, its type is `application/json`, and its origin is this page |
| WebSocket | it is for `/graphql`, and its origin is this page |
"""

import base64
import hmac
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

USER = "operator"
_GRAPHQL = "/graphql"
_OPEN = "/server_info"
"""Returns versions only; used as a health check."""
_CHALLENGE = {"WWW-Authenticate": 'Basic realm="Isthmus", charset="UTF-8"'}


@dataclass(frozen=True, slots=True)
class GuardRefusal:
    """Status and message of a refused request."""

    status: int
    message: str


class Guard:
    """Checks each request and WebSocket; `origins` are this page's own, `http://127.0.0.1:3000`."""

    def __init__(self, app: ASGIApp, *, origins: Iterable[str], password: str | None) -> None:
        self._app = app
        self._origins = frozenset(origin.lower() for origin in origins)
        self._hosts = frozenset(urlsplit(origin).netloc for origin in self._origins)
        self._login = None if password is None else _basic(password)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope, Headers(scope=scope))
        if refusal is None:
            await self._app(scope, receive, _deny_framing(send))
        elif scope["type"] == "websocket":
            # Closed before it is accepted: the client gets a 403.
            await send({"type": "websocket.close", "code": 1008, "reason": refusal.message})
        else:
            headers = _CHALLENGE if refusal.status == 401 else None
            response = PlainTextResponse(f"{refusal.message}\n", refusal.status, headers)
            await response(scope, receive, send)

    def _refusal(self, scope: Scope, headers: Headers) -> GuardRefusal | None:
        hosts = [host.lower() for host in headers.getlist("host")]
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            return GuardRefusal(421, "this page has another host name")
        if scope["path"] == _OPEN and scope.get("method") in ("GET", "HEAD"):
            return None
        if self._login is not None and not _is_only(headers.getlist("authorization"), self._login):
            return GuardRefusal(401, f"log in as {USER}")
        if scope["type"] == "websocket":
            if scope["path"] != _GRAPHQL:
                return GuardRefusal(403, f"WebSockets are for {_GRAPHQL}")
            return None if self._is_own(headers, required=True) else _OTHER_PAGE
        if scope["method"] in ("GET", "HEAD"):
            return (
                GuardRefusal(405, f"{_GRAPHQL} takes POST") if scope["path"] == _GRAPHQL else None
            )
        if scope["method"] != "POST" or scope["path"] != _GRAPHQL:
            return GuardRefusal(405, f"this page takes GET, and POST to {_GRAPHQL}")
        if not self._is_own(headers, required=False):
            return _OTHER_PAGE
        if not _is_json(headers.getlist("content-type")):
            return GuardRefusal(415, f"{_GRAPHQL} takes application/json")
        return None

    def _is_own(self, headers: Headers, *, required: bool) -> bool:
        """Whether the request comes from this page; only browsers send an origin."""
        sites = headers.getlist("sec-fetch-site")
        if any(site != "same-origin" for site in sites):
            return False
        origins = headers.getlist("origin")
        if not origins:
            return not required
        return len(origins) == 1 and origins[0].lower() in self._origins


_OTHER_PAGE = GuardRefusal(403, "the request comes from another page")


def _basic(password: str) -> str:
    return "Basic " + base64.b64encode(f"{USER}:{password}".encode()).decode()


def _is_only(values: Collection[str], wanted: str) -> bool:
    return len(values) == 1 and all(
        hmac.compare_digest(value.encode("latin-1"), wanted.encode()) for value in values
    )


def _is_json(types: Collection[str]) -> bool:
    # Compared as a whole: Dagster searches the header for the words, and a browser sends
    # `text/plain; x=application/json` from any page without a preflight.
    return [each.partition(";")[0].strip().lower() for each in types] == ["application/json"]


def _deny_framing(send: Send) -> Send:
    """Forbid other pages to show this one in a frame (clickjacking)."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message)["X-Frame-Options"] = "DENY"
        await send(message)

    return sending
