"""A local HTTP server that answers as a key service's reference says, and keeps the requests.

It stands for services that no package simulates: GCP KMS, Vault, and Ed25519 keys of AWS KMS.
"""

import base64
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import orjson


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: Mapping[str, str]
    body: Any


@dataclass
class Wire:
    """`answer` returns status and JSON."""

    url: str
    answer: Callable[[Request], tuple[int, Any]]
    requests: list[Request] = field(default_factory=list)


@contextmanager
def serve(answer: Callable[[Request], tuple[int, Any]]) -> Iterator[Wire]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = orjson.loads(self.rfile.read(length)) if length else None
            request = Request(self.command, self.path, dict(self.headers), body)
            wire.requests.append(request)
            status, content = wire.answer(request)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(orjson.dumps(content))

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        wire = Wire(f"http://127.0.0.1:{server.server_port}", answer)
        thread = Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        try:
            yield wire
        finally:
            server.shutdown()
            thread.join()


def text(data: bytes) -> str:
    """base64, as all these services write bytes."""
    return base64.b64encode(data).decode()
