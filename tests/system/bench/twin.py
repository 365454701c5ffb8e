"""A server to hold the API's figures against: the same app, server and settings, ready bytes.

    python -m tests.system.bench.twin BIND WORKERS FOLDER

`/static/<name>` is a view that sends what lies in FOLDER under that name and nothing else, behind
all that every request of the API passes. `/owned/<name>` is the same behind `owner_only`: it needs
a token. `/bare/<name>` sends it without the app: what the server alone costs. A file is a status
line, an empty line and the body.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from flask import Blueprint, Response

from api.auth.owner import owner_only, public
from api.server import serve

Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def make_app(folder: str) -> Wsgi:
    """Called in each worker, as `api.wsgi` is imported in each."""
    from api.wsgi import app

    answers = dict(map(_read, Path(folder).iterdir()))
    for name, rule in (("static", public), ("owned", owner_only)):
        app.register_blueprint(_showing(answers, name, rule))
    bare = _bare(answers)

    def either(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        is_bare = environ["PATH_INFO"].startswith("/bare/")
        return (bare if is_bare else app)(environ, start_response)

    return either


def _read(file: Path) -> tuple[str, tuple[str, bytes]]:
    status, _, body = file.read_bytes().partition(b"\n\n")
    return file.name, (status.decode(), body)


def _showing(
    answers: dict[str, tuple[str, bytes]], prefix: str, rule: Callable[[], None]
) -> Blueprint:
    showing = Blueprint(prefix, __name__)
    showing.before_request(rule)

    @showing.get(f"/{prefix}/<name>")
    def show(name: str) -> Response:
        status, body = answers[name]
        return Response(body, status=status, mimetype="application/json")

    return showing


def _bare(answers: dict[str, tuple[str, bytes]]) -> Wsgi:
    def bare(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        status, body = answers[environ["PATH_INFO"].removeprefix("/bare/")]
        length = [("Content-Length", str(len(body)))] if body else []
        start_response(status, [("Content-Type", "application/json"), *length])
        return [body]

    return bare


def main(arguments: Sequence[str]) -> None:
    """Serve until told to stop."""
    bind, workers, folder = arguments
    serve(f"tests.system.bench.twin:make_app({folder!r})", bind=bind, workers=int(workers))


if __name__ == "__main__":
    main(sys.argv[1:])
