"""The server's worker, which tells streams goodbye when it is told to stop, and refuses in the
API's own words what it cannot read.

Streams are no requests of the server's any more: it would neither wait for them nor end them.
"""

import socket
from types import FrameType
from typing import Any

from api.metrics import find_metrics
from api.patience import PatientWorker
from api.refusals import refuse
from api.stream.socket import Stream, find_stream

_GOODBYE_SECONDS = 3.0


class Worker(PatientWorker):
    """`--worker-class api.stream.worker.Worker`."""

    wsgi: Any = None
    """The app, once it is loaded."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """SIGTERM: streams end while requests under way are still answered."""
        super().handle_exit(sig, frame)
        self._say_goodbye()

    def run(self) -> None:
        """Serve until told to stop, and until the last client has heard of it."""
        super().run()
        # If it was not told, its parent is gone.
        stream = self._say_goodbye()
        if stream is not None:
            stream.wait(_GOODBYE_SECONDS)

    def handle_error(
        self, req: Any, client: socket.socket, addr: tuple[str, int] | None, exc: Exception
    ) -> None:
        """A request that could not be read, or failed outside of the app."""
        # A Unix socket has no address.
        refuse(client, addr[0] if addr else "", exc)

    def on_shed(self, reason: str) -> None:
        """Count it."""
        metrics = find_metrics(self.wsgi)
        if metrics is not None:
            metrics.shed(reason)

    def _say_goodbye(self) -> Stream | None:
        stream = find_stream(self.wsgi)
        if stream is not None:
            stream.stop()
        return stream
