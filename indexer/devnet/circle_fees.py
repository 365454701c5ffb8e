"""What stands in for Circle's service where a quote asks it: the fees of a burn, and nothing else.

    GET /v2/burn/USDC/fees/<source domain>/<destination domain>

Answers are what the service answers, in its own members and numbers: 1.3 basis points for a fast
burn from an EVM chain, as Base to Stellar cost in 2026; a standard one costs nothing. It listens on
the loopback address alone, and the API asks it on the local chains alone (`ISTHMUS_FEES_URL`).
"""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

logger = logging.getLogger(__name__)

HOST = "127.0.0.1"
STELLAR_DOMAIN = 27
_PATH = re.compile(r"/v2/burn/USDC/fees/([0-9]{1,9})/([0-9]{1,9})")
_NOT_FOUND = b'{"code":404,"message":"Not found"}'


def fees(source: int) -> bytes:
    """The answer for burns of a domain; Stellar's are final at once, and fast costs nothing."""
    fast = "0" if source == STELLAR_DOMAIN else "1.3"
    speeds = ((1000, fast), (2000, "0"))
    listed = (f'{{"finalityThreshold":{each},"minimumFee":{bps}}}' for each, bps in speeds)
    return f"[{','.join(listed)}]".encode()


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """The one path there is."""
        asked = _PATH.fullmatch(self.path)
        status, raw = (404, _NOT_FOUND) if asked is None else (200, fees(int(asked[1])))
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        logger.debug(format, *args)


@contextmanager
def serving(port: int = 0) -> Iterator[str]:
    """Its base URL while it serves; port 0 picks a free one."""
    server = ThreadingHTTPServer((HOST, port), _Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://{HOST}:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
