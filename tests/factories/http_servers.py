"""HTTP servers for tests of a client: answers byte for byte, and what was asked."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

import orjson

from devnet.local_http import HOST
from devnet.local_server import Handler, Server, answering

Write: TypeAlias = Callable[[Handler], None]


@contextmanager
def answered_by(write: Write) -> Iterator[str]:
    """A server that answers every request with what `write` sends."""

    class RequestHandler(Handler):
        # An answer ends with its connection, and is sent as it is written.
        protocol_version = "HTTP/1.0"
        wbufsize = 0

        def do_POST(self) -> None:
            self.body()
            write(self)

        do_GET = do_POST

    server = Server((HOST, 0), RequestHandler)
    with answering(server):
        yield f"http://user:secret@{HOST}:{server.server_port}/key"


class Recorder(Handler):
    """Answers each request with what it was, on a connection that is kept."""

    def do_POST(self) -> None:
        seen = {
            "method": self.command,
            "path": self.path,
            "headers": {name.lower(): text for name, text in self.headers.items()},
            "body": self.body().decode(),
            "port": self.client_address[1],
        }
        self.answer(200, orjson.dumps(seen))

    do_GET = do_POST
