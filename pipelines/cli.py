"""Dagster's processes: `isthmus code-server`, `isthmus worker`, `isthmus daemon`, `isthmus page`;
`isthmus up`, `isthmus alive`.

Each returns its exit code. Dagster is imported once the environment is set: it reads it then.
"""

from collections.abc import Callable
from contextlib import suppress
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
@click.option(
    "--queue",
    "queues",
    multiple=True,
    default=["dagster"],
    show_default=True,
    help="Queue to take steps from; may be repeated. `exports` where the export folder is.",
)
@click.option("--processes", type=click.IntRange(1), default=1, show_default=True)
@click.option("--name", help="NAME@HOST at the broker; default: isthmus@ and the machine's name.")
@dagster_command
def worker(*, queues: tuple[str, ...], processes: int, name: str | None) -> None:
    """Run steps of Dagster's jobs for the Celery executor, until interrupted.

    SIGTERM lets steps end; SIGQUIT ends the worker at once, and others go on with its steps.
    """
    from pipelines.environment import prepare_dagster
    from warehouse_schema.configuration import set_variables

    prepare_dagster()
    # Each process is for one core. Threads of Polars would wait for each other, spinning.
    set_variables({"POLARS_MAX_THREADS": "1"})
    from pipelines.celery_worker import run_worker

    run_worker(queues, processes, name)


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@dagster_command
def step(*, arguments: tuple[str, ...]) -> None:
    """Run one step, as the Kubernetes executor starts it: `dagster api execute_step`."""
    from pipelines.environment import prepare_dagster

    if arguments[:3] != ("dagster", "api", "execute_step"):
        raise click.UsageError("not a step: the Kubernetes executor alone starts this command")
    prepare_dagster()
    from dagster._cli import create_dagster_cli

    create_dagster_cli().main(arguments[1:], prog_name="dagster", standalone_mode=False)


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
@click.option("--port", type=int, help="Of api or page, where it was started with another.")
def alive(name: str, port: int | None) -> int:
    """Whether a process of this machine answers: 0, or 1.

    PROCESS is code-server, relay-server, daemon, page, api or worker. For health checks of
    containers. The ports of the code servers are those of the settings, those of api and page 8080
    and 3000.
    """
    from pipelines.processes import PROCESSES, WORKER

    known = (*PROCESSES, WORKER)
    process = next((each for each in known if each.name == name), None)
    if process is None:
        raise click.UsageError(f"no process {name}: {', '.join(each.name for each in known)}")
    if port is not None and process.health_path is None:
        raise click.UsageError(f"--port is for api and page; {name} has its port in the settings")
    return _check(process, port)


@dagster_command
def _check(process: "Process", port: int | None) -> None:
    from pipelines.alive import is_alive

    if not is_alive(process, port):
        raise click.ClickException(f"{process.name} does not answer")


@click.command()
@click.option("--migrate", is_flag=True, help="Run `isthmus migrate` first.")
@click.option("--print", "only_print", is_flag=True, help="Print supervisord.conf, start nothing.")
@click.option("--bind", metavar="HOST:PORT", help="Where the API listens.")
@click.option("--page-port", type=int, help="Where Dagster's page listens.")
def up(*, migrate: bool, only_print: bool, bind: str | None, page_port: int | None) -> int:
    """Run all processes of the configuration on this machine, until interrupted.

    Checks the configuration, then becomes supervisord, which restarts what ends. Its files are in
    `supervisor` under ISTHMUS_HOME, each process's log in `logs`. 2 for a wrong setting; 1 while
    it runs already, an address is in use or a database is missing.
    """
    from indexer.errors import ConfigurationError
    from pipelines.listeners import StartRefused
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
    try:
        installation.require_startable()
    except StartRefused as error:
        click.echo(str(error), err=True)
        return 1
    if migrate and (code := run_isthmus("migrate")):
        return code
    if code := _create_dagster_database():
        return code
    installation.write()
    click.echo(f"logs: {installation.logs}", err=True)
    click.echo(f"state: supervisorctl -c {installation.file} status", err=True)
    return installation.run()


@dagster_command
def _create_dagster_database() -> None:
    """Else each of Dagster's processes would end for the same reason, again and again."""
    from sqlalchemy.exc import OperationalError

    from pipelines.environment import ensure_dagster_database

    # A server that does not answer yet is waited for by the processes.
    with suppress(OperationalError):
        ensure_dagster_database()
