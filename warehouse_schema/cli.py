"""`isthmus migrate` and `isthmus database …`."""

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

    from warehouse_schema.embedded import EmbeddedPostgres


@click.command()
@click.option("--url", help="A Postgres of your own; default: DATABASE_URL.")
@click.option("--data", type=click.Path(path_type=Path), help="Data folder of an embedded one.")
def migrate(url: str | None, data: Path | None) -> int:
    """Bring a Postgres up to date: database, roles, tables, views, grants.

    Without an option it is the server of DATABASE_URL; where that is unset, on the devnet alone,
    the embedded one under ISTHMUS_HOME. An embedded server is started and left running. Running it
    again changes nothing; two at once wait for each other. 1 if it was not done, 2 for a wrong URL
    or setting.
    """
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import OperationalError

    from warehouse_schema.embedded import EmbeddedPostgres, EmbeddedPostgresError
    from warehouse_schema.location import embedded_folder
    from warehouse_schema.migrate import MigrationRefused
    from warehouse_schema.migrate import migrate as migrate_database

    try:
        target = None if data is not None and url is None else _named_server(url)
        folder = data or embedded_folder()
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    try:
        migrate_database(target or make_url(EmbeddedPostgres(folder).start().url()))
    except (MigrationRefused, EmbeddedPostgresError) as error:
        click.echo(f"{type(error).__name__}: {error}", err=True)
        return 1
    except OperationalError as error:
        # No server, a wrong password, a lock that was not granted.
        click.echo(f"not migrated: {' '.join(str(error.orig).split())}", err=True)
        return 1
    return 0


def _named_server(url: str | None) -> "URL | None":
    """The server of `--url` or of `DATABASE_URL`; None for the embedded one."""
    from warehouse_schema.engine import warehouse_url
    from warehouse_schema.location import database_variable

    if url is not None:
        return warehouse_url(url, "--url")
    named = database_variable()
    return None if named is None else warehouse_url(named)


@click.group()
def database() -> None:
    """Run the embedded Postgres by hand."""


def _options(command: Callable[..., int]) -> Callable[..., int]:
    for option in (
        click.option("--scheme", default="postgresql+psycopg", help="Of the URL that is printed."),
        click.option("--database", "name", default="isthmus", help="`start` creates it."),
        click.option("--port", type=int, default=0, help="0: the last one, or a free one."),
        click.option(
            "--data",
            type=click.Path(path_type=Path),
            help="Data folder; default: postgres under ISTHMUS_HOME.",
        ),
    ):
        command = option(command)
    return command


def _on_server(data: Path | None, port: int, act: "Callable[[EmbeddedPostgres], int]") -> int:
    """Act on the server of a folder; an error is one sentence and exit code 1, 2 for a setting."""
    from warehouse_schema.embedded import EmbeddedPostgres, EmbeddedPostgresError
    from warehouse_schema.location import embedded_folder
    from warehouse_schema.variables import SettingsError

    try:
        return act(EmbeddedPostgres(data or embedded_folder(), port))
    except (EmbeddedPostgresError, SettingsError) as error:
        click.echo(f"{type(error).__name__}: {error}", err=True)
        return 2 if isinstance(error, SettingsError) else 1


@database.command()
@_options
def start(data: Path | None, port: int, name: str, scheme: str) -> int:
    """Start it, create the database, print its URL without the password."""

    def act(postgres: "EmbeddedPostgres") -> int:
        from warehouse_schema.location import named_database

        server = postgres.start()
        postgres.ensure_database(name)
        click.echo(server.public_url(name, scheme))
        if named_database() not in (None, postgres.url(name, scheme)):
            click.echo(
                "DATABASE_URL names another server, which is used in place of this one: unset it, "
                "or set it to what `isthmus database url` prints",
                err=True,
            )
        return 0

    return _on_server(data, port, act)


@database.command()
@_options
def stop(data: Path | None, port: int, **_: str) -> int:
    """Stop it."""

    def act(postgres: "EmbeddedPostgres") -> int:
        click.echo("stopped" if postgres.stop() else "was not running")
        return 0

    return _on_server(data, port, act)


@database.command()
@_options
def status(data: Path | None, port: int, name: str, scheme: str) -> int:
    """Print its URL without the password; 3 when it does not run."""

    def act(postgres: "EmbeddedPostgres") -> int:
        server = postgres.status()
        click.echo("not running" if server is None else server.public_url(name, scheme))
        return 3 if server is None else 0

    return _on_server(data, port, act)


@database.command()
@_options
def url(data: Path | None, port: int, name: str, scheme: str) -> int:
    """Print its URL with the password."""

    def act(postgres: "EmbeddedPostgres") -> int:
        click.echo(postgres.url(name, scheme))
        return 0

    return _on_server(data, port, act)
