"""The HTTP face of the devnet: JSON-RPC on POST, friendbot on GET.

It has no authentication and its keys are public, so it binds to the local
machine unless `--host` names another address.
"""

import json
from dataclasses import replace
from http import HTTPStatus
from threading import Event, Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

from devnet.local_server import Handler, Server
from devnet.stellar.node import FundingRefused
from devnet.stellar.rpc import Rpc
from devnet.stellar.rpc_errors import INVALID_REQUEST, PARSE_ERROR, RpcError

MAX_BODY = 512 * 1024


class _Handler(Handler):
    """Every response is JSON."""

    server: "_Server"

    def do_POST(self) -> None:
        """Answer a JSON-RPC call, or a list of them."""
        if self.announced() > MAX_BODY:
            self.close_connection = True
            self._send(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, {"error": "body too large"})
            return
        self._send(HTTPStatus.OK, answer(self.server.rpc, self.body()))

    def do_GET(self) -> None:
        """`/friendbot?addr=G…` creates an account; `/` describes the server."""
        target = urlsplit(self.path)
        if target.path == "/friendbot":
            self._send(*friendbot(self.server.rpc, parse_qs(target.query).get("addr", [""])[0]))
        elif target.path == "/":
            self._send(HTTPStatus.OK, self.server.rpc.call("getVersionInfo", None))
        else:
            self._send(HTTPStatus.NOT_FOUND, {"error": "not found"})

    def _send(self, status: HTTPStatus, body: Any) -> None:
        self.answer(status, json.dumps(body).encode(), {"Content-Type": "application/json"})


class _Server(Server):
    def __init__(self, address: tuple[str, int], rpc: Rpc) -> None:
        super().__init__(address, _Handler)
        self.rpc = rpc


def answer(rpc: Rpc, body: bytes) -> Any:
    """The JSON-RPC answer to a request body."""
    try:
        request = json.loads(body)
    except ValueError:
        return _error(None, RpcError(PARSE_ERROR, "invalid JSON"))
    if isinstance(request, list) and request:
        return [_one(rpc, each) for each in request]
    return _one(rpc, request)


def _one(rpc: Rpc, request: Any) -> dict[str, Any]:
    known = isinstance(request, dict) and isinstance(request.get("method"), str)
    if not known or request.get("jsonrpc") != "2.0":
        return _error(None, RpcError(INVALID_REQUEST, "not a JSON-RPC 2.0 request"))
    try:
        result = rpc.call(request["method"], request.get("params"))
    except RpcError as error:
        return _error(request.get("id"), error)
    return {"jsonrpc": "2.0", "id": request.get("id"), "result": result}


def _error(request_id: Any, error: RpcError) -> dict[str, Any]:
    body = {"code": error.code, "message": error.message}
    return {"jsonrpc": "2.0", "id": request_id, "error": body}


def friendbot(rpc: Rpc, address: str) -> tuple[HTTPStatus, dict[str, Any]]:
    """Create an account from the root; without a ticking clock, close the ledger for it too."""
    try:
        tx_hash = rpc.node.fund(address)
    except (FundingRefused, ValueError) as error:
        return HTTPStatus.BAD_REQUEST, {"error": str(error)}
    if rpc.close_on_friendbot:
        rpc.node.close_ledger()
    return HTTPStatus.OK, {"hash": tx_hash}


class DevnetServer:
    """The HTTP server and, with an interval, the clock that closes ledgers."""

    def __init__(self, rpc: Rpc, *, host: str, port: int, interval: float | None) -> None:
        self._http = _Server((host, port), rpc)
        self._http.rpc = replace(rpc, friendbot_url=f"http://{host}:{self.port}/friendbot")
        self._interval = interval
        self._stopped = Event()
        self._ticker = Thread(target=self._tick, daemon=True)

    @property
    def port(self) -> int:
        """The port it listens on, also when 0 was requested."""
        return int(self._http.server_address[1])

    def run(self) -> None:
        """Serve until `stop` is called from another thread, or no ledger can be closed."""
        if self._interval:
            self._ticker.start()
        self._http.serve_forever(poll_interval=0.1)

    def stop(self) -> None:
        """Stop serving and closing ledgers."""
        self._stopped.set()
        self._http.shutdown()
        self._http.server_close()

    def _tick(self) -> None:
        try:
            while not self._stopped.wait(self._interval):
                self._http.rpc.node.close_ledger()
        finally:
            # A node that cannot close ledgers must not go on answering as if it could.
            self._http.shutdown()
