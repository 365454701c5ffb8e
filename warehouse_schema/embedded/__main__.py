"""`python -m warehouse_schema.embedded start|stop|status|url`: the embedded Postgres by hand."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from warehouse_schema.embedded import (
    DEFAULT_DATABASE,
    DEFAULT_SCHEME,
    EmbeddedPostgres,
    EmbeddedPostgresError,
)
from warehouse_schema.location import embedded_folder, named_database
from warehouse_schema.variables import SettingsError


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; 0 if done, 1 with a sentence on stderr if not, 3 if nothing runs."""
    options = _parser().parse_args(arguments)
    try:
        postgres = EmbeddedPostgres(options.data or embedded_folder(), options.port)
        return _COMMANDS[options.command](postgres, options)
    except (EmbeddedPostgresError, SettingsError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m warehouse_schema.embedded")
    parser.add_argument("command", choices=sorted(_COMMANDS))
    parser.add_argument(
        "--data", type=Path, help="the data folder; default is postgres under ISTHMUS_HOME"
    )
    parser.add_argument("--port", type=int, default=0, help="0: the last one, or a free one")
    parser.add_argument("--database", default=DEFAULT_DATABASE, help="`start` creates it")
    parser.add_argument("--scheme", default=DEFAULT_SCHEME, help="of the URL printed")
    return parser


def _start_command(postgres: EmbeddedPostgres, options: argparse.Namespace) -> int:
    server = postgres.start()
    postgres.ensure_database(options.database)
    print(server.public_url(options.database, options.scheme))
    url = postgres.url(options.database, options.scheme)
    if named_database() not in (None, url):
        print(
            "DATABASE_URL names another server, which is used in place of this one: unset it, or "
            "set it to what `python -m warehouse_schema.embedded url` prints",
            file=sys.stderr,
        )
    return 0


def _stop_command(postgres: EmbeddedPostgres, _: argparse.Namespace) -> int:
    print("stopped" if postgres.stop() else "was not running")
    return 0


def _status_command(postgres: EmbeddedPostgres, options: argparse.Namespace) -> int:
    server = postgres.status()
    print("not running" if server is None else server.public_url(options.database, options.scheme))
    return 3 if server is None else 0


def _url_command(postgres: EmbeddedPostgres, options: argparse.Namespace) -> int:
    print(postgres.url(options.database, options.scheme))
    return 0


_COMMANDS: dict[str, Callable[[EmbeddedPostgres, argparse.Namespace], int]] = {
    "start": _start_command,
    "stop": _stop_command,
    "status": _status_command,
    "url": _url_command,
}


if __name__ == "__main__":
    sys.exit(main())
