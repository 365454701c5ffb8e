"""What the commands of `isthmus` share: lazy loading, logs, errors in one sentence."""

import gc
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from typing import Any, NamedTuple, ParamSpec

import click

INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 and the number of SIGINT, as shells have it."""

P = ParamSpec("P")


class LazyCommand(NamedTuple):
    """A command of another package: `module:attribute`, and its line in the help."""

    target: str
    help: str


class LazyGroup(click.Group):
    """Group that imports another package's command only when that is used."""

    def __init__(self, *args: Any, lazy: Mapping[str, LazyCommand], **options: Any) -> None:
        super().__init__(*args, **options)
        self._lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of their declaration."""
        return [*self.commands, *self._lazy]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command. Raises `ClickException` when its package is not installed."""
        if cmd_name not in self._lazy:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = self._lazy[cmd_name].target.partition(":")
        try:
            command: click.Command = getattr(import_module(module), attribute)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module}.".startswith(f"{error.name}."):
                raise
            raise click.ClickException(
                f"`isthmus {cmd_name}` is not part of this installation: it needs the package "
                f"{error.name}"
            ) from error
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            own = [(name, each.get_short_help_str(100)) for name, each in self.commands.items()]
            formatter.write_dl([*own, *((name, each.help) for name, each in self._lazy.items())])


@contextmanager
def importing() -> Iterator[None]:
    """Around imports: without garbage collection.

    What they make lives as long as the process. Looking through it took a seventh of the start,
    and one full collection 60 ms and more, which later a block would wait for: `gc.freeze` leaves
    it out of those too.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def operator_command(run: Callable[P, int]) -> Callable[P, int]:
    """Log to stderr; an error of ours is one sentence and exit code 1, or 2 for a wrong setting."""

    @wraps(run)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> int:
        # Imported here: `--help` needs none of it.
        with importing():
            from sqlalchemy.exc import OperationalError

            from indexer.config.settings import log_format
            from indexer.errors import ConfigurationError, IndexerError
            from indexer.logs import configure_logging
            from indexer.tracing import start_tracing
            from warehouse_schema.configuration import explain

        # `relay run` of `isthmus relay run`.
        path = click.get_current_context().command_path
        process = path.partition(" ")[2]
        configure_logging(process, log_format())
        try:
            start_tracing(process)
            return run(*args, **kwargs)
        except IndexerError as error:
            is_setting = isinstance(error, ConfigurationError)
            text = explain(error) if is_setting else str(error)
            print_error(f"{type(error).__name__}: {text}")
            return 2 if is_setting else 1
        except OperationalError as error:
            print_error(f"the database of DATABASE_URL: {error.orig}")
            return 1

    return wrapped


def print_line(line: object) -> None:
    """Print progress of a process that runs for long; where logs are JSON, log it."""
    from indexer.logs import logs_json

    if logs_json():
        logging.getLogger("isthmus").info("%s", line)
    else:
        print(line, flush=True)


def print_error(message: str) -> None:
    """Print the error that ends a command to stderr; where logs are JSON, log it."""
    from indexer.logs import logs_json

    if logs_json():
        logging.getLogger("isthmus").error("%s", message)
    else:
        click.echo(message, err=True)
