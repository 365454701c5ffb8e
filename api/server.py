"""gunicorn with threads, in this very process, so that a signal to it stops the workers too."""

import os
import resource
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gunicorn.app.wsgiapp import WSGIApplication
from gunicorn.errors import AppImportError

from api.settings import OFF, load_all_settings, set_metrics_folder
from indexer.config.warehouse import database_url
from indexer.errors import ConfigurationError

THREADS = "8"
"""As many as `api.wsgi` has connections for."""
SILENCE_SECONDS = "300"
"""After which a worker that says nothing is killed. It is silent while it imports, which lasts
longer than gunicorn's 30 s on a busy machine; killed then, it would begin anew for ever."""
GRACE_SECONDS = "4"
"""How long requests under way may take when the server is told to stop."""
KEEP_ALIVE_SECONDS = "75"
"""Longer than a proxy keeps its own end (60 s for most), so that it is the proxy that closes: it
would send a request into a connection that we are just closing. A waiting one takes no thread."""
MAX_WORKERS = 8
"""By default; each may hold 9 connections of Postgres, which has 100 unless told otherwise."""
OPEN_FILES = 65_536
"""That a worker may have open, if the system allows; each client and each stream is one."""
MAX_CONNECTIONS = 4_000
"""Clients of one worker at a time, beside its streams."""

_NO_PROXY = (
    "serving without a proxy (ISTHMUS_PROXIES=0): slow clients hold threads, and nothing bounds how"
    " many requests wait. Serve the public through deploy/nginx.conf"
)


def serve(app: str, *, bind: str, workers: int) -> None:
    """Serve a WSGI app, `module:name`, in this process until told to stop."""
    settings, own = load_all_settings()
    metrics = own.metrics
    database_url(settings)
    if not own.proxies:
        sys.stderr.write(f"{_NO_PROXY}\n")
    _refuse_one_port(bind, metrics)
    # gunicorn takes its settings from the command line alone.
    sys.argv = [
        "gunicorn",
        *("--bind", bind),
        *(() if metrics == OFF else ("--bind", metrics)),
        *("--workers", str(workers)),
        *("--worker-class", "api.worker.Worker", "--threads", THREADS),
        *("--timeout", SILENCE_SECONDS),
        *("--graceful-timeout", GRACE_SECONDS),
        *("--keep-alive", KEEP_ALIVE_SECONDS),
        # Where a request goes and how it came is in no header: it would be anyone's to say who is
        # on this machine, or behind a proxy that hands headers on.
        *("--forwarded-allow-ips", "", "--forwarder-headers", ""),
        *("--worker-connections", str(_connections())),
        # It would be a file in the user's home, shared with every other gunicorn there.
        "--no-control-socket",
        app,
    ]
    with _metrics_folder() as folder:
        # Read when the library is imported, which is in the workers.
        set_metrics_folder(folder)
        ApiServer("%(prog)s [OPTIONS] [APP_MODULE]", prog="isthmus api").run()


@contextmanager
def _metrics_folder() -> Iterator[str]:
    """Where the workers count, for as long as the server runs."""
    folder, owner = tempfile.mkdtemp(prefix="isthmus-metrics-"), os.getpid()
    try:
        yield folder
    finally:
        # A worker that ends leaves through here as well, for it was forked inside. The others are
        # still counting, and without the folder the next one could not start.
        if os.getpid() == owner:
            shutil.rmtree(folder)


def _refuse_one_port(bind: str, metrics: str) -> None:
    """Requests are told apart by the port they came to. Raises `ConfigurationError`."""
    port = metrics.rpartition(":")[2]
    if metrics != OFF and bind.rpartition(":")[2] == port:
        raise ConfigurationError(f"ISTHMUS_METRICS is {metrics!r}, but port {port} is the API's")


class ApiServer(WSGIApplication):  # type: ignore[misc]
    """gunicorn, which forgets what its ended workers had open."""

    def load_config(self) -> None:
        """The command line, and what it has no word for."""
        super().load_config()
        self.cfg.set("child_exit", _forget)

    def load_wsgiapp(self) -> Any:
        """The app. A setting that is wrong is told in its sentence, and ends the server."""
        try:
            return super().load_wsgiapp()
        except ConfigurationError as error:
            raise AppImportError(f"isthmus api: {error}") from error


def _forget(_: Any, worker: Any) -> None:
    # Not at the top: it must find the folder when it is imported.
    from prometheus_client.multiprocess import mark_process_dead

    mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]


def default_workers() -> int:
    """One a core; never one alone, which nobody would stand in for while it restarts."""
    return min(MAX_WORKERS, max(2, os.cpu_count() or 1))


def _connections() -> int:
    """At most half as many as files may be open: a worker that cannot open one more is ended.

    The other half is for streams, which are not counted here, and for all else.
    """
    return max(int(THREADS) + 1, min(MAX_CONNECTIONS, _open_files() // 2))


def _open_files() -> int:
    """How many may be open, after asking for more: the usual 1024 are soon used up."""
    usual, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if most == resource.RLIM_INFINITY else min(OPEN_FILES, most)
    if usual == resource.RLIM_INFINITY or usual >= wanted:
        return wanted
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
    return wanted
