"""A worker of Celery that runs Dagster's steps: the application that `isthmus worker` starts."""

import socket
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import dagster as dg
from celery import Celery, Task
from celery.exceptions import Reject
from celery.signals import setup_logging
from dagster import DagsterEventType
from dagster import _check as check
from dagster._core.execution.stats import StepEventStatus
from dagster._grpc.types import ExecuteStepArgs
from dagster._serdes import serialize_value, unpack_value
from dagster_celery.executor import CeleryExecutor
from dagster_celery.make_app import make_app
from dagster_celery.tasks import create_task
from sqlalchemy.exc import OperationalError

from indexer.config.settings import load_settings, log_format
from indexer.logs import configure_logging
from pipelines.celery_settings import celery_settings

DEFAULT_QUEUE = "dagster"
PING_SECONDS = 10.0
_STEP_EVENTS = {
    DagsterEventType.STEP_START,
    DagsterEventType.STEP_OUTPUT,
    DagsterEventType.ASSET_MATERIALIZATION,
    DagsterEventType.STEP_SUCCESS,
}
"""What the run follows a step by."""
_PRELOAD = (
    *("pipelines.definitions", "pipelines.storage", "indexer.ingest.backfill"),
    *("indexer.ingest.readers", "indexer.analytics.daily", "indexer.analytics.export"),
)


class StepTask(Task):
    """Dagster's task, for a broker that delivers at least once.

    A step whose process gets SIGTERM goes back to the broker: the worker does that when the
    connection is lost, and Dagster would make a result of the signal. So does one that lost
    Dagster's database in the middle of a statement. A step that has ended, and whose
    acknowledgement was lost, is not run again.
    """

    abstract = True

    def __call__(self, execute_step_args_packed: Any, executable_dict: Any) -> list[str]:
        """Run the step; its events. Raises `Reject` when interrupted."""
        step = unpack_value(execute_step_args_packed, as_type=ExecuteStepArgs)
        try:
            events = _events_of_ended(step)
            if events is None:
                events = super().__call__(execute_step_args_packed, executable_dict)
        except (dg.DagsterExecutionInterruptedError, OperationalError) as error:
            raise Reject(str(error), requeue=True) from error
        return list(events)


def _events_of_ended(step: ExecuteStepArgs) -> list[str] | None:
    """Events of a step that succeeded before, from Dagster's log; None if it did not."""
    (key,) = check.not_none(step.step_keys_to_execute)
    instance = dg.DagsterInstance.from_ref(check.not_none(step.instance_ref))
    (stats,) = instance.get_run_step_stats(step.run_id, [key]) or (None,)
    if stats is None or stats.status != StepEventStatus.SUCCESS:
        return None
    events = [
        entry.dagster_event
        for entry in instance.all_logs(step.run_id, of_type=_STEP_EVENTS)
        if entry.step_key == key and entry.dagster_event is not None
    ]
    begun = max(at for at, each in enumerate(events) if each.is_step_start)
    return [serialize_value(each) for each in events[begun:]]


def worker_app() -> Celery:
    """Celery's application with Dagster's task. Raises `ConfigurationError`."""
    executor = CeleryExecutor.for_cli(**celery_settings(load_settings()))
    app: Celery = make_app(executor.app_args())
    create_task(app, base=StepTask)
    return app


def node_name() -> str:
    """Name of the worker of this machine at the broker."""
    return f"isthmus@{socket.gethostname()}"


def run_worker(queues: Sequence[str], processes: int, name: str | None) -> None:
    """Run steps until SIGTERM, then end those under way. Raises `ConfigurationError`."""
    app = worker_app()
    # Before the worker forks: its processes have imported what steps need then, and share it.
    for module in _PRELOAD:
        import_module(module)

    # Celery would set up logs of its own.
    setup_logging.connect(_keep_logging)
    configure_logging("worker", log_format())
    app.worker_main(
        [
            "worker",
            f"--concurrency={processes}",
            f"--hostname={name or node_name()}",
            f"--queues={','.join(queues)}",
            # Workers need not know of each other.
            "--without-gossip",
            "--without-mingle",
        ]
    )


def _keep_logging(**_: Any) -> None:
    """Receiver of the signal; that there is one keeps Celery from setting up logging."""


def delete_old_results() -> None:
    """Delete results of steps from Dagster's database, a day after their end."""
    worker_app().backend.cleanup()


def answers_ping(name: str | None = None) -> bool:
    """Whether the worker of this machine answers at the broker."""
    found = worker_app().control.ping(destination=[name or node_name()], timeout=PING_SECONDS)
    return bool(found)
