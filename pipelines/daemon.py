"""Dagster's daemon, as `dagster-daemon run` runs it, over the code servers of the settings."""

from contextlib import suppress

from dagster import DagsterInstance
from dagster._daemon.controller import daemon_controller_from_instance
from dagster._utils.interrupts import capture_interrupts, setup_interrupt_handlers

from indexer.logs import adopt_loggers
from pipelines.workspace import await_code_servers, load_workspace


def run_daemon() -> None:
    """Evaluate sensors and schedules until SIGTERM or SIGINT."""
    await_code_servers()
    setup_interrupt_handlers()
    with (
        # What the loop raises when a signal has come.
        suppress(KeyboardInterrupt),
        capture_interrupts(),
        DagsterInstance.get() as instance,
        daemon_controller_from_instance(
            instance, workspace_load_target=load_workspace()
        ) as controller,
    ):
        adopt_loggers("dagster")
        controller.check_daemon_loop()
