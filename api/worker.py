"""Gunicorn's threaded worker, with error responses of this API and a graceful shutdown at SIGTERM.

It reads each request in a thread and waits for slow clients: put `deploy/nginx.conf` in front.
"""

import signal
import socket
import time
from types import FrameType
from typing import Any

from gunicorn.workers.gthread import ThreadWorker

from api.deps import shutdown_of
from api.server_errors import reject_request
from api.stream.socket import Stream, stream_of

_CLOSING_SECONDS = 3.0
"""For clients of the stream to receive its end."""


class Worker(ThreadWorker):  # type: ignore[misc]
    """`--worker-class api.worker.Worker`."""

    wsgi: Any = None
    """The app, once it is loaded."""
    _stops_at: float | None = None
    """After SIGTERM, monotonic: when it stops to take connections."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """SIGTERM, which systemd and gunicorn both send: be unready, end streams, then stop."""
        shutdown = shutdown_of(self.wsgi)
        if self._stops_at is not None:
            return
        seconds = 0.0 if shutdown is None else shutdown.seconds
        self._stops_at = time.monotonic() + seconds
        if shutdown is not None and seconds:
            shutdown.has_begun = True
            stream = stream_of(self.wsgi)
            if stream is not None:
                stream.end_within(seconds)
        else:
            self._stop(sig, frame)

    def notify(self) -> None:
        """Gunicorn calls it in each turn of its loop, at least once a second."""
        super().notify()
        if self.alive and self._stops_at is not None and time.monotonic() >= self._stops_at:
            self._stop(signal.SIGTERM, None)

    def _stop(self, sig: int, frame: FrameType | None) -> None:
        """Take no more connections. Requests under way are answered."""
        super().handle_exit(sig, frame)
        self._stop_stream()

    def run(self) -> None:
        """Serve until stopped, then wait for the stream's clients."""
        super().run()
        # Without a signal, the parent process is gone.
        stream = self._stop_stream()
        if stream is not None:
            stream.wait(_CLOSING_SECONDS)

    def handle_error(
        self, req: Any, client: socket.socket, addr: tuple[str, int] | None, exc: Exception
    ) -> None:
        """Answer a request that could not be parsed, or failed outside of the app."""
        # A Unix socket has no address.
        reject_request(client, addr[0] if addr else "", exc)

    def _stop_stream(self) -> Stream | None:
        stream = stream_of(self.wsgi)
        if stream is not None:
            stream.stop()
        return stream
