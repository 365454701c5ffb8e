"""JSON-RPC over HTTP on this machine, for nodes that answer from memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import orjson

from devnet.local_http import HOST
from devnet.local_server import Handler, Server, answering


class Refused(Exception):
    """A JSON-RPC error to answer with."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


class Node(Protocol):
    """Whatever answers calls."""

    def call(self, method: str, params: Any) -> Any:
        """The result. Raises `Refused`."""


@contextmanager
def serving(node: Node) -> Iterator[str]:
    """The URL under which the node answers."""

    class RequestHandler(Handler):
        def do_POST(self) -> None:
            self.answer(200, orjson.dumps(_answered(node, orjson.loads(self.body()))))

    with answering(Server((HOST, 0), RequestHandler)) as url:
        yield url


def _answered(node: Node, request: Any) -> Any:
    if isinstance(request, list):
        return [_answered(node, each) for each in request]
    answer: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
    try:
        return answer | {"result": node.call(request["method"], request.get("params", {}))}
    except Refused as refused:
        return answer | {"error": {"code": refused.code, "message": refused.message}}
