"""Runs gunicorn with threads in this process: a signal to it stops the workers too."""

import logging
import os
import resource
import shutil
import sys
import tempfile
from typing import Any

from gunicorn.app.wsgiapp import WSGIApplication
from gunicorn.errors import AppImportError
from gunicorn.glogging import Logger

from api.sessions import require_sound_sessions
from api.settings import load_all_settings
from indexer.config.metrics import set_metrics_folder
from indexer.errors import ConfigurationError
from indexer.logs import adopt_loggers
from warehouse_schema.configuration import explain

logger = logging.getLogger(__name__)

THREADS = 8
"""Requests that one worker serves at a time; each may hold one database connection."""
SILENCE_SECONDS = 300
"""Gunicorn kills a worker after it. A worker's imports exceed gunicorn's default of 30 s on a busy
machine, and a killed worker would start over without end."""
GRACE_SECONDS = 4
"""Time for running requests after the signal to stop, or after `ISTHMUS_SHUTDOWN_SECONDS`."""
KEEP_ALIVE_SECONDS = 75
"""Longer than a proxy keeps its side open (60 s for most). Otherwise the proxy could send a request
into a connection that we are closing. An idle connection takes no thread."""
MAX_WORKERS = 8
"""By default; each may hold 10 connections of Postgres, whose default is 100."""
OPEN_FILES = 65_536
"""Limit of open files of a worker, if the system allows it; each client and stream is one."""
MAX_CONNECTIONS = 4_000
"""Clients of one worker at a time, without its streams."""

_NO_PROXY = (
    "serving without a proxy (ISTHMUS_PROXIES=0): slow clients hold threads, and nothing bounds how"
    " many requests wait. Serve the public through deploy/nginx.conf"
)


def serve(app: str, *, bind: str, workers: int) -> None:
    """Serve a WSGI app, `module:name`, until a signal. Raises `ConfigurationError`."""
    settings, own = load_all_settings()
    require_sound_sessions(settings, own)
    if not own.proxies:
        logger.warning(_NO_PROXY)
    if own.metrics and (port := own.metrics.rpartition(":")[2]) == bind.rpartition(":")[2]:
        # The port of a request decides whether it gets metrics.
        raise ConfigurationError(
            f"ISTHMUS_METRICS is {own.metrics!r}, but port {port} is the API's"
        )
    # Gunicorn reads its settings from the command line.
    sys.argv = [
        "gunicorn",
        *("--bind", bind),
        *(() if own.metrics is None else ("--bind", own.metrics)),
        *("--workers", str(workers)),
        *("--worker-class", "api.worker.Worker", "--threads", str(THREADS)),
        *("--timeout", str(SILENCE_SECONDS)),
        *("--graceful-timeout", str(own.shutdown_seconds + GRACE_SECONDS)),
        *("--keep-alive", str(KEEP_ALIVE_SECONDS)),
        # No header may set a request's scheme or path: any client could send it.
        *("--forwarded-allow-ips", "", "--forwarder-headers", ""),
        # A worker that cannot open a file ends. At most half of the open files: streams, which are
        # not counted here, and everything else use the rest.
        *("--worker-connections", str(max(THREADS + 1, min(MAX_CONNECTIONS, _open_files() // 2)))),
        # It would be a file in the user's home that all gunicorns there share.
        "--no-control-socket",
        app,
    ]
    folder, owner = tempfile.mkdtemp(prefix="isthmus-metrics-"), os.getpid()
    try:
        # The library reads it when a worker imports it.
        set_metrics_folder(folder)
        ApiServer("%(prog)s [OPTIONS] [APP_MODULE]", prog="isthmus api").run()
    finally:
        # A worker is forked inside of this block and also leaves through it, while others count.
        if os.getpid() == owner:
            shutil.rmtree(folder)


class ServerLog(Logger):
    """Gunicorn's own lines, in the format of all others where that is JSON."""

    def setup(self, cfg: Any) -> None:
        """Called at the start and after SIGHUP."""
        super().setup(cfg)
        adopt_loggers("gunicorn.error", "gunicorn.access")


class ApiServer(WSGIApplication):
    """Gunicorn that removes the open streams of ended workers from the metrics."""

    def load_config(self) -> None:
        """The command line, and what it cannot name."""
        super().load_config()
        self.cfg.set("child_exit", _forget)
        self.cfg.set("logger_class", ServerLog)

    def load_wsgiapp(self) -> Any:
        """The app. A wrong setting ends the server with its message."""
        try:
            return super().load_wsgiapp()
        except ConfigurationError as error:
            raise AppImportError(f"isthmus api: {explain(error)}") from error


def _forget(_: Any, worker: Any) -> None:
    # Imported late: it reads the folder at import.
    from prometheus_client.multiprocess import mark_process_dead

    mark_process_dead(worker.pid)


def default_workers() -> int:
    """One a core, and at least two: one serves while the other restarts."""
    return min(MAX_WORKERS, max(2, os.cpu_count() or 1))


def _open_files() -> int:
    """The limit of open files, raised if possible: the usual 1024 are soon used up."""
    usual, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if most == resource.RLIM_INFINITY else min(OPEN_FILES, most)
    if usual != resource.RLIM_INFINITY and usual < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
    return wanted
