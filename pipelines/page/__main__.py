"""Serves Dagster's page behind the guard.

python -m pipelines.page -w pipelines/workspace.yaml [-w …] [--host 127.0.0.1] [--port 3000]

In the place of `dagster-webserver`, which knows no login and no host name.
"""

import argparse
import sys
from collections.abc import Sequence

import uvicorn
from dagster import DagsterInstance
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import WorkspaceFileTarget
from dagster_webserver.app import create_app_from_workspace_process_context
from dagster_webserver.version import __version__

from indexer.errors import ConfigurationError
from pipelines.page.guard import Guard
from pipelines.page.settings import PageSettings, load_page_settings

_STATEMENT_TIMEOUT_MS = 15_000
_RECYCLE_SECONDS = 3_600
_OVERFLOW = 20
_STOP_SECONDS = 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT; 2 when the settings are wrong, with the reason."""
    options = _parse(arguments)
    try:
        settings = load_page_settings(options.host, options.port)
    except ConfigurationError as error:
        print(error, file=sys.stderr)
        return 2
    with DagsterInstance.get() as instance:
        # As `dagster-webserver` does: a query that takes longer helps no reader.
        instance.optimize_for_webserver(_STATEMENT_TIMEOUT_MS, _RECYCLE_SECONDS, _OVERFLOW)
        target = WorkspaceFileTarget(options.workspace)
        with WorkspaceProcessContext(
            instance, target, version=__version__, read_only=settings.read_only
        ) as context:
            _serve(context, settings)
    return 0


def _serve(context: WorkspaceProcessContext, settings: PageSettings) -> None:
    app = create_app_from_workspace_process_context(context)
    uvicorn.run(
        Guard(app, origins=settings.origins, password=settings.password),
        host=settings.host,
        port=settings.port,
        log_level="warning",
        # A page that is open in a browser keeps its WebSocket.
        timeout_graceful_shutdown=_STOP_SECONDS,
    )


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m pipelines.page")
    parser.add_argument("-w", "--workspace", action="append", required=True, metavar="FILE")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=3000)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
