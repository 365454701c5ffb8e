"""Dagster's code server, with runs as forks of a process that has imported the definitions.

python -m pipelines.code_server pipelines.definitions [--host 127.0.0.1] [--port 4000]

Replaces `dagster api grpc -m`, which starts a new interpreter for each run: 3 s of processor time
for imports, a minute or more on a busy machine, while Dagster waits in one gRPC call. A fork takes
a tenth of a second and shares memory.
"""

import argparse
import logging
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Sequence
from importlib import import_module
from multiprocessing import forkserver

from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._core.utils import FuturesAwareThreadPoolExecutor
from dagster._grpc.server import DagsterApiServer, DagsterGrpcServer
from dagster._utils.log import configure_loggers

from indexer.cli.base import print_error
from indexer.config.settings import export_dagster_variables, log_format
from indexer.errors import ConfigurationError
from indexer.logs import adopt_loggers, configure_logging
from warehouse_schema.configuration import explain

_PRELOAD = ("pipelines.code_server", "pipelines.storage")


class ForkingApiServer(DagsterApiServer):
    """Dagster's servicer with a fork server for runs."""

    def __init__(self, module: str, end: threading.Event, pool: FuturesAwareThreadPoolExecutor):
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["pipelines.fork_server", *_PRELOAD, module])
        # Started now: it imports while this process does.
        forkserver.ensure_running()
        super().__init__(
            server_termination_event=end,
            logger=logging.getLogger("dagster.code_server"),
            server_threadpool_executor=pool,
            loadable_target_origin=LoadableTargetOrigin(
                executable_path=sys.executable, working_directory=os.getcwd(), module_name=module
            ),
        )
        self._mp_ctx = context  # type: ignore[assignment]  # Dagster has no setting for it.


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until SIGTERM or SIGINT, then wait for the runs; a signal to the group ends those."""
    parser = argparse.ArgumentParser(prog="python -m pipelines.code_server")
    parser.add_argument("module")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=4000)
    options = parser.parse_args(arguments)
    if log_format() == "json":
        # Text lines are Dagster's, under handlers of its own.
        configure_logging(f"code_server {options.module}", "json")
    try:
        export_dagster_variables()
        # Before the fork server imports it too: a settings error is one sentence, no traceback.
        import_module(options.module)
    except ConfigurationError as error:
        print_error(explain(error))
        sys.exit(2)
    configure_loggers()
    adopt_loggers("dagster")
    end = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: end.set())
    pool = FuturesAwareThreadPoolExecutor(max_workers=None)
    server = DagsterGrpcServer(
        server_termination_event=end,
        dagster_api_servicer=ForkingApiServer(options.module, end, pool),
        logger=logging.getLogger("dagster.code_server"),
        threadpool_executor=pool,
        host=options.host,
        port=options.port,
    )
    server.serve()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
