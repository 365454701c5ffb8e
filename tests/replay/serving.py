"""JSON-RPC over HTTP on this machine, for nodes that answer from memory."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

import orjson


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

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            request = orjson.loads(self.rfile.read(int(self.headers["content-length"])))
            body = orjson.dumps(_answered(node, request))
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Readers tell what they could not read; who asked is of no interest."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _answered(node: Node, request: Any) -> Any:
    if isinstance(request, list):
        return [_answered(node, each) for each in request]
    answer: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
    try:
        return answer | {"result": node.call(request["method"], request["params"])}
    except Refused as refused:
        return answer | {"error": {"code": refused.code, "message": refused.message}}
