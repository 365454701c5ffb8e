"""Definitions for tests of the code server: a job that goes on until SIGTERM."""

import time

import dagster as dg

from pipelines.long_run import stopping


@dg.op
def go_on(context: dg.OpExecutionContext) -> None:
    """Ends as a long run does: between two pieces of work."""
    with stopping() as stop:
        context.log_event(dg.AssetMaterialization("under_way"))
        while not stop.requested:
            time.sleep(0.05)


@dg.job(executor_def=dg.in_process_executor)
def wait() -> None:
    go_on()


defs = dg.Definitions(jobs=[wait])
