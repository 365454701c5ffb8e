"""The API with faults planted: in the app, outside of it, and when half of an answer is sent.

python -m tests.system.fuzz.planted --bind HOST:PORT --workers N
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from flask import Flask

from api.server import serve

INSIDE, OUTSIDE, HALFWAY = "/planted/inside", "/planted/outside", "/planted/halfway"


def app() -> Flask:
    """The real one, as a worker makes it."""
    # Reads its settings when it is imported, which is for a worker to do.
    from api.wsgi import app

    app.add_url_rule(INSIDE, view_func=lambda: str(1 // 0))
    inner = app.wsgi_app

    def outer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"] == OUTSIDE:
            raise RuntimeError("planted")
        if environ["PATH_INFO"] == HALFWAY:
            start("200 OK", [("Content-Length", "4")])
            return _half()
        return inner(environ, start)

    app.wsgi_app = outer  # type: ignore[method-assign,assignment]
    return app


def _half() -> Iterator[bytes]:
    yield b"ab"
    raise RuntimeError("planted")


if __name__ == "__main__":
    bind, workers = sys.argv[2::2]
    serve("tests.system.fuzz.planted:app()", bind=bind, workers=int(workers))
