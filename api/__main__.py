"""Serve the API: `python -m api [--bind 127.0.0.1:8080] [--workers 2]`.

Runs gunicorn with threads, in this very process, so that a signal to it stops the workers too.
"""

import argparse
import resource
import sys
from collections.abc import Sequence

from gunicorn.app.wsgiapp import WSGIApplication

THREADS = "8"
"""As many as `api.wsgi` has connections for."""
GRACE_SECONDS = "4"
"""How long requests under way may take when the server is told to stop."""

OPEN_FILES = 65_536


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and serve until told to stop."""
    parser = argparse.ArgumentParser(prog="python -m api")
    parser.add_argument("--bind", default="127.0.0.1:8080", help="HOST:PORT, or unix:PATH")
    parser.add_argument("--workers", type=int, default=2, help="processes of 8 threads each")
    options = parser.parse_args(arguments)
    serve("api.wsgi:app", bind=options.bind, workers=options.workers)


def serve(app: str, *, bind: str, workers: int) -> None:
    """Serve a WSGI app, `module:name`, in this process until told to stop."""
    _allow_sockets()
    # gunicorn takes its settings from the command line alone.
    sys.argv = [
        "gunicorn",
        *("--bind", bind),
        *("--workers", str(workers)),
        *("--worker-class", "api.stream.worker.Worker", "--threads", THREADS),
        *("--graceful-timeout", GRACE_SECONDS),
        # It would be a file in the user's home, shared with every other gunicorn there.
        "--no-control-socket",
        app,
    ]
    WSGIApplication("%(prog)s [OPTIONS] [APP_MODULE]", prog="python -m api").run()


def _allow_sockets() -> None:
    """Each stream is an open file, and the usual 1024 are soon used up."""
    usual, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if most == resource.RLIM_INFINITY else min(OPEN_FILES, most)
    if usual != resource.RLIM_INFINITY and usual < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


if __name__ == "__main__":
    main()
