"""Dagster's processes: `isthmus code-server`, `isthmus daemon`, `isthmus page`;
`isthmus up`, `isthmus alive`.

Each returns its exit code. Dagster is imported once the environment is set: it reads it then.
"""

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec

import click

if TYPE_CHECKING:
    from pipelines.processes import Process

P = ParamSpec("P")


def dagster_command(run: Callable[P, None]) -> Callable[P, int]:
    """An error of ours is one sentence and exit code 1, or 2 for a wrong setting."""

    @wraps(run)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> int:
        from sqlalchemy.exc import OperationalError

        from indexer.cli.base import print_error
        from indexer.config.settings import log_format
        from indexer.errors import ConfigurationError
        from indexer.logs import configure_logging
        from warehouse_schema.configuration import explain
        from warehouse_schema.migrate import MigrationRefused

        if log_format() == "json":
            # Text lines are uvicorn's and Dagster's, under handlers of their own.
            name = click.get_current_context().info_name or ""
            configure_logging("relay-server" if kwargs.get("relay") else name, "json")
        try:
            run(*args, **kwargs)
        except ConfigurationError as error:
            print_error(explain(error))
            return 2
        except MigrationRefused as error:
            print_error(str(error))
            return 1
        except OperationalError as error:
            print_error(f"Dagster's database (ISTHMUS_DAGSTER_URL): {error.orig}")
            return 1
        return 0

    return wrapped


@click.command("code-server")
@click.option("--relay", is_flag=True, help="The server of the relay and of webhooks, with keys.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@dagster_command
def code_server(*, relay: bool, host: str) -> None:
    """Hold Dagster's definitions and start their runs, until interrupted.

    It listens on ISTHMUS_CODE_SERVER_PORT, or on ISTHMUS_RELAY_SERVER_PORT. Its protocol has no
    login: any client of the port can start runs. A signal to the process group ends the runs too.
    """
    from pipelines.environment import code_location, prepare_dagster

    location = code_location(relay=relay)
    prepare_dagster()
    from pipelines.code_server import serve

    serve(location.module, host, location.port)


@click.command()
@dagster_command
def daemon() -> None:
    """Evaluate Dagster's sensors and schedules until interrupted."""
    from pipelines.environment import prepare_dagster

    prepare_dagster()
    from pipelines.daemon import run_daemon

    run_daemon()


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=int, default=3000, show_default=True)
@dagster_command
def page(host: str, port: int) -> None:
    """Serve Dagster's page behind its guard until interrupted."""
    from pipelines.environment import prepare_dagster
    from pipelines.page.settings import load_page_settings

    settings = load_page_settings(host, port)
    prepare_dagster()
    from pipelines.page.server import serve

    serve(settings)


@click.command()
@click.argument("name", metavar="PROCESS")
def alive(name: str) -> int:
    """Whether a process of this machine answers at its usual port: 0, or 1.

    PROCESS is code-server, relay-server, daemon, page or api. For health checks of containers.
    """
    from pipelines.processes import PROCESSES

    process = next((each for each in PROCESSES if each.name == name), None)
    if process is None:
        raise click.UsageError(f"no process {name}: {', '.join(each.name for each in PROCESSES)}")
    return _check(process)


@dagster_command
def _check(process: "Process") -> None:
    from pipelines.alive import is_alive

    if not is_alive(process):
        raise click.ClickException(f"{process.name} does not answer")


@click.command()
@click.option("--migrate", is_flag=True, help="Run `isthmus migrate` first.")
@click.option("--print", "only_print", is_flag=True, help="Print supervisord.conf, start nothing.")
@click.option("--bind", metavar="HOST:PORT", help="Where the API listens.")
@click.option("--page-port", type=int, help="Where Dagster's page listens.")
def up(*, migrate: bool, only_print: bool, bind: str | None, page_port: int | None) -> int:
    """Run all processes of the configuration on this machine, until interrupted.

    Checks the configuration, then becomes supervisord, which restarts what ends. Its files are in
    `supervisor` under ISTHMUS_HOME, each process's log in `logs`. 2 for a wrong setting.
    """
    from indexer.errors import ConfigurationError
    from pipelines.up import Installation, run_isthmus
    from warehouse_schema.configuration import explain, load_configuration

    try:
        installation = Installation(load_configuration(), bind=bind, page_port=page_port)
    except ConfigurationError as error:
        click.echo(explain(error), err=True)
        return 2
    if only_print:
        click.echo(installation.configuration(), nl=False)
        return 0
    if code := run_isthmus("config", "check"):
        return code
    if migrate and (code := run_isthmus("migrate")):
        return code
    installation.write()
    return installation.run()
