"""Dagster's page behind the guard.

In the place of `dagster-webserver`, which knows no login and no host name.
"""

from threading import Thread

import uvicorn
from dagster import DagsterInstance
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster_webserver.app import create_app_from_workspace_process_context
from dagster_webserver.version import __version__

from indexer.logs import logs_json
from pipelines.page.guard import Guard
from pipelines.page.settings import PageSettings
from pipelines.workspace import await_code_servers, load_workspace

_STATEMENT_TIMEOUT_MS = 15_000
_RECYCLE_SECONDS = 3_600
_OVERFLOW = 20
_STOP_SECONDS = 3


def serve(settings: PageSettings) -> None:
    """Serve until SIGTERM or SIGINT."""
    with DagsterInstance.get() as instance:
        # As `dagster-webserver` does: a query that takes longer helps no reader.
        instance.optimize_for_webserver(_STATEMENT_TIMEOUT_MS, _RECYCLE_SECONDS, _OVERFLOW)
        with WorkspaceProcessContext(
            instance, load_workspace(), version=__version__, read_only=settings.read_only
        ) as context:
            Thread(target=_load_started_servers, args=(context,), daemon=True).start()
            app = create_app_from_workspace_process_context(context)
            uvicorn.run(
                Guard(app, origins=settings.origins, password=settings.password),
                host=settings.host,
                port=settings.port,
                log_level="warning",
                # Its own handlers, unless logs are JSON.
                log_config=None if logs_json() else uvicorn.config.LOGGING_CONFIG,
                # A page that is open in a browser keeps its WebSocket.
                timeout_graceful_shutdown=_STOP_SECONDS,
            )


def _load_started_servers(context: WorkspaceProcessContext) -> None:
    await_code_servers()
    context.refresh_workspace()
