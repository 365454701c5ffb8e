"""Serve the API: `python -m api [--bind 127.0.0.1:8080] [--workers N]`.

Runs gunicorn with threads, in this very process, so that a signal to it stops the workers too.
"""

import argparse
import os
import resource
import sys
from collections.abc import Sequence

from gunicorn.app.wsgiapp import WSGIApplication

THREADS = "8"
"""As many as `api.wsgi` has connections for."""
GRACE_SECONDS = "4"
"""How long requests under way may take when the server is told to stop."""
KEEP_ALIVE_SECONDS = "75"
"""Longer than a proxy keeps its own end (60 s for most), so that it is the proxy that closes: it
would send a request into a connection that we are just closing. A waiting one takes no thread."""
MOST_WORKERS = 8
"""By default; each may hold 9 connections of Postgres, which has 100 unless told otherwise."""
OPEN_FILES = 65_536
"""That a worker may have open, if the system allows; each client and each stream is one."""
MOST_CONNECTIONS = 4_000
"""Clients of one worker at a time, beside its streams."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and serve until told to stop."""
    parser = argparse.ArgumentParser(prog="python -m api")
    parser.add_argument("--bind", default="127.0.0.1:8080", help="HOST:PORT, or unix:PATH")
    parser.add_argument(
        "--workers", type=int, default=_workers(), help="processes of 8 threads each; one a core"
    )
    options = parser.parse_args(arguments)
    serve("api.wsgi:app", bind=options.bind, workers=options.workers)


def serve(app: str, *, bind: str, workers: int) -> None:
    """Serve a WSGI app, `module:name`, in this process until told to stop."""
    # gunicorn takes its settings from the command line alone.
    sys.argv = [
        "gunicorn",
        *("--bind", bind),
        *("--workers", str(workers)),
        *("--worker-class", "api.stream.worker.Worker", "--threads", THREADS),
        *("--graceful-timeout", GRACE_SECONDS),
        *("--keep-alive", KEEP_ALIVE_SECONDS),
        *("--worker-connections", str(_connections())),
        # It would be a file in the user's home, shared with every other gunicorn there.
        "--no-control-socket",
        app,
    ]
    WSGIApplication("%(prog)s [OPTIONS] [APP_MODULE]", prog="python -m api").run()


def _workers() -> int:
    """One a core; never one alone, which nobody would stand in for while it restarts."""
    return min(MOST_WORKERS, max(2, os.cpu_count() or 1))


def _connections() -> int:
    """At most half as many as files may be open: a worker that cannot open one more is ended.

    The other half is for streams, which are not counted here, and for all else.
    """
    return max(int(THREADS) + 1, min(MOST_CONNECTIONS, _open_files() // 2))


def _open_files() -> int:
    """How many may be open, after asking for more: the usual 1024 are soon used up."""
    usual, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if most == resource.RLIM_INFINITY else min(OPEN_FILES, most)
    if usual == resource.RLIM_INFINITY or usual >= wanted:
        return wanted
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
    return wanted


if __name__ == "__main__":
    main()
