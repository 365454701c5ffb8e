"""Dagster's code server, with runs as forks of a process that has imported the definitions.

Replaces `dagster api grpc -m`, which starts a new interpreter for each run: 3 s of processor time
for imports, a minute or more on a busy machine, while Dagster waits in one gRPC call. A fork takes
a tenth of a second and shares memory.
"""

import logging
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from multiprocessing import connection, forkserver

from dagster import DagsterInstance
from dagster._core.instance import InstanceRef
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._core.utils import FuturesAwareThreadPoolExecutor
from dagster._grpc.server import DagsterApiServer, DagsterGrpcServer
from dagster._utils.log import configure_loggers

from indexer.config.metrics import set_metrics_folder
from indexer.config.settings import load_settings
from indexer.logs import adopt_loggers
from indexer.metrics.server import folder_registry, serve_metrics, shared_folder
from pipelines.successors import start_successor

logger = logging.getLogger("dagster.code_server")

_METRICS = {
    "pipelines.definitions": "ISTHMUS_METRICS_PIPELINES",
    "pipelines.relay": "ISTHMUS_METRICS_RELAY",
}
"""Definitions → variable with the address of their metrics."""
_LOOK_SECONDS = 0.5
"""Until the end of a run is noticed that was started since the last look."""
_RETRY_SECONDS = 1.0
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
            logger=logger,
            server_threadpool_executor=pool,
            loadable_target_origin=LoadableTargetOrigin(
                executable_path=sys.executable, working_directory=os.getcwd(), module_name=module
            ),
        )
        self._mp_ctx = context  # type: ignore[assignment]  # Dagster has no setting for it.

    def _cleanup_thread(self) -> None:
        """Record runs whose process has ended, and start their successors, until the server ends.

        Dagster's own looks twice a second, and ends with the first error, such as a restart of its
        database: no end of a run would be recorded from then on.
        """
        while not self._server_termination_event.is_set():
            sentinels = [process.sentinel for process, _ in list(self._executions.values())]
            if sentinels:
                connection.wait(sentinels, _LOOK_SECONDS)
            else:
                self._server_termination_event.wait(_LOOK_SECONDS)
            try:
                self._check_for_orphaned_runs()
            except Exception:
                logger.exception("an ended run could not be recorded; tried again")
                self._server_termination_event.wait(_RETRY_SECONDS)

    def _check_for_orphaned_runs(self) -> None:
        before = dict(self._executions)
        super()._check_for_orphaned_runs()
        for run_id in before.keys() - self._executions.keys():
            if self._shutdown_once_executions_finish_event.is_set():
                return
            self._start_successor(run_id, before[run_id][1])

    def _start_successor(self, run_id: str, instance_ref: InstanceRef) -> None:
        with DagsterInstance.from_ref(instance_ref) as instance:
            run = instance.get_run_by_id(run_id)
            if run is None or run.remote_job_origin is None:
                return
            repository = self._get_repo_for_origin(run.remote_job_origin.repository_origin)
            try:
                successor = start_successor(instance, repository, run)
            except Exception:
                # The sensor's next tick decides again.
                logger.exception("no successor of run %s could be started", run_id)
                return
        if successor is not None:
            logger.info("run %s of %s has ended: run %s is next", run_id, run.job_name, successor)


def serve(module: str, host: str, port: int) -> None:
    """Serve until SIGTERM or SIGINT, then wait for the runs; a signal to the group ends those.

    Raises `ConfigurationError` that the definitions raise, or for an address of metrics in use.
    """
    # Before the fork server imports it too: a settings error is one sentence, no traceback.
    import_module(module)
    configure_loggers()
    adopt_loggers("dagster")
    with _metrics(module):
        _serve(module, host, port)


@contextmanager
def _metrics(module: str) -> Iterator[None]:
    """Serve what all runs count, where the module has an address for it."""
    settings, variable = load_settings(), _METRICS.get(module, "")
    if variable not in settings.metrics:
        yield
        return
    with shared_folder() as folder:
        # Before the fork server starts: runs read it at their first count.
        set_metrics_folder(folder)
        with serve_metrics(settings, variable, folder_registry(folder)):
            yield


def _serve(module: str, host: str, port: int) -> None:
    end = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: end.set())
    pool = FuturesAwareThreadPoolExecutor(max_workers=None)
    server = DagsterGrpcServer(
        server_termination_event=end,
        dagster_api_servicer=ForkingApiServer(module, end, pool),
        logger=logger,
        threadpool_executor=pool,
        host=host,
        port=port,
    )
    server.serve()
