"""`isthmus migrate` and `isthmus database …`."""

import logging
import os
import sys
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
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

    from warehouse_schema.configuration import explain
    from warehouse_schema.embedded import EmbeddedPostgres, EmbeddedPostgresError
    from warehouse_schema.engine import warehouse_url
    from warehouse_schema.location import WarehouseVariables, embedded_folder, from_environment
    from warehouse_schema.migrate import MigrationRefused
    from warehouse_schema.migrate import migrate as migrate_database

    target = None
    try:
        if url is not None:
            target = warehouse_url(url, "--url")
        elif data is None and (named := from_environment(WarehouseVariables).database_url):
            target = warehouse_url(named)
        folder = data or embedded_folder()
    except ValueError as error:
        raise click.UsageError(explain(error)) from error
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


@click.group()
def database() -> None:
    """Run the embedded Postgres by hand."""


def _command(act: "Callable[..., int]", *, takes_arguments: bool = False) -> None:
    """Register `act(postgres, name, scheme)`; an error is one sentence: 1, or 2 for a setting.

    With `takes_arguments` it also gets every argument that is no option of all commands.
    """
    given = {"ignore_unknown_options": takes_arguments, "allow_extra_args": takes_arguments}

    @database.command(context_settings=given)
    @click.option(
        "--data",
        type=click.Path(path_type=Path),
        help="Data folder; default: postgres under ISTHMUS_HOME.",
    )
    @click.option("--port", type=int, default=0, help="0: the last one, or a free one.")
    @click.option("--database", "name", default="isthmus", help="`start` creates it.")
    @click.option("--scheme", default="postgresql+psycopg", help="Of the URL that is printed.")
    @click.pass_context
    @wraps(act)
    def run(context: click.Context, data: Path | None, port: int, name: str, scheme: str) -> int:
        from warehouse_schema.configuration import explain
        from warehouse_schema.embedded import EmbeddedPostgres, EmbeddedPostgresError
        from warehouse_schema.location import embedded_folder
        from warehouse_schema.variables import SettingsError

        try:
            postgres = EmbeddedPostgres(data or embedded_folder(), port)
            return act(postgres, name, scheme, *context.args)
        except EmbeddedPostgresError as error:
            click.echo(f"{type(error).__name__}: {error}", err=True)
            return 1
        except SettingsError as error:
            click.echo(f"{type(error).__name__}: {explain(error)}", err=True)
            return 2


@_command
def start(postgres: "EmbeddedPostgres", name: str, scheme: str) -> int:
    """Start it, create the database, print its URL without the password."""
    from warehouse_schema.location import LocationVariables, from_environment

    server = postgres.start()
    postgres.ensure_database(name)
    click.echo(server.public_url(name, scheme))
    named = from_environment(LocationVariables).database_url
    if named not in (None, postgres.url(name, scheme)):
        click.echo(
            "DATABASE_URL names another server, which is used in place of this one: unset it, "
            "or set it to what `isthmus database url` prints",
            err=True,
        )
    return 0


@_command
def stop(postgres: "EmbeddedPostgres", *_: str) -> int:
    """Stop it."""
    click.echo("stopped" if postgres.stop() else "was not running")
    return 0


@_command
def status(postgres: "EmbeddedPostgres", name: str, scheme: str) -> int:
    """Print its URL without the password; 3 when it does not run."""
    server = postgres.status()
    click.echo("not running" if server is None else server.public_url(name, scheme))
    return 3 if server is None else 0


@partial(_command, takes_arguments=True)
def psql(postgres: "EmbeddedPostgres", name: str, _scheme: str, *arguments: str) -> int:
    """Open Postgres's own shell on it as the owner; `-c SQL` and other arguments are psql's."""
    from warehouse_schema.configuration import child_environment
    from warehouse_schema.embedded import BinariesNotFound

    server = postgres.running_server()
    program = postgres.binaries.folder / "psql"
    if not program.exists():
        raise BinariesNotFound(f"no psql in {program.parent}: install Postgres's client")
    # The password is in no argument, which every user of the machine could read.
    environment = child_environment({"PGPASSWORD": server.password})
    words = ("psql", *arguments, server.public_url(name, "postgresql"))
    os.execve(program, words, environment)  # noqa: S606  # no shell is wanted


@_command
def url(postgres: "EmbeddedPostgres", name: str, scheme: str) -> int:
    """Print its URL with the password."""
    click.echo(postgres.url(name, scheme))
    return 0
