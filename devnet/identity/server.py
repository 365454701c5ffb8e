"""HTTP server of the stand-in: the provider's paths, and `/devnet/…` for users, tokens, faults.

    GET  /v1/apps/<app id>/jwks.json       the key set
    GET  /v1/users/<subject>               a user; Basic credentials and privy-app-id
    POST /devnet/users   {"address": …}    a new user; without an address its wallet is new too
    POST /devnet/tokens  {"subject": …}    an access token; more members replace claims
    POST /devnet/faults  {"users": "down"} faults from now on; null ends one

Any caller can sign in as any user, so it listens on the loopback address only.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any
from urllib.parse import unquote, urlsplit

from devnet.identity.provider import FAULTS, Answer, StandIn, wallet
from devnet.local_http import HOST
from devnet.local_server import Handler, Server, answering

_MOST_BYTES = 64 * 1024
_NOT_FOUND = Answer(404, {"error": "not found"})


class _Handler(Handler):
    """Every response is JSON."""

    server: "_Server"

    def do_GET(self) -> None:
        """Requests of the service."""
        self._send(self._provider_response())

    def do_POST(self) -> None:
        """Requests of a demo or a test."""
        length = min(int(self.headers.get("Content-Length") or 0), _MOST_BYTES)
        try:
            request = json.loads(self.rfile.read(length) or b"{}")
            answer = control(self.server.stand_in, urlsplit(self.path).path, request)
        except (ValueError, TypeError, KeyError) as error:
            answer = Answer(400, {"error": f"{type(error).__name__}: {error}"})
        self._send(answer)

    def _provider_response(self) -> Answer:
        stand_in = self.server.stand_in
        path = urlsplit(self.path).path
        if path == f"/v1/apps/{stand_in.app_id}/jwks.json":
            return stand_in.keys()
        if path.startswith("/v1/users/"):
            return stand_in.user(
                unquote(path.removeprefix("/v1/users/")),
                self.headers.get("Authorization", ""),
                self.headers.get("privy-app-id", ""),
            )
        return Answer(200, {"stand-in": stand_in.app_id}) if path == "/" else _NOT_FOUND

    def _send(self, answer: Answer) -> None:
        if answer.after and self.server.closing.wait(answer.after):
            self.close_connection = True
            return
        headers = {"Content-Type": "application/json", **answer.headers}
        self.answer(answer.status, json.dumps(answer.body).encode(), headers)


class _Server(Server):
    def __init__(self, port: int, stand_in: StandIn) -> None:
        super().__init__((HOST, port), _Handler)
        self.stand_in = stand_in
        self.closing = Event()


def control(stand_in: StandIn, path: str, request: Any) -> Answer:
    """Handles `/devnet/…`. Raises `KeyError`, `TypeError` or `ValueError` for a bad request."""
    if path == "/devnet/users":
        accounts = [wallet(request["address"])] if "address" in request else []
        return Answer(200, {"subject": stand_in.add_user(*accounts)})
    if path == "/devnet/tokens":
        return Answer(200, {"token": stand_in.token(request.pop("subject"), **request)})
    if path == "/devnet/faults":
        for name, fault in request.items():
            if name not in ("keys", "users") or fault not in (None, *FAULTS):
                raise ValueError(f"{name} can be {', '.join(FAULTS)}")
        stand_in.faults = {name: fault for name, fault in request.items() if fault is not None}
        return Answer(200, dict(stand_in.faults))
    return _NOT_FOUND


@contextmanager
def serving(stand_in: StandIn, port: int = 0) -> Iterator[str]:
    """Its base URL while it serves; port 0 picks a free one."""
    server = _Server(port, stand_in)
    with answering(server) as url:
        try:
            yield url
        finally:
            server.closing.set()
