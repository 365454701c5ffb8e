"""Definitions for tests of the code server: jobs that go on until SIGTERM, one with a sensor."""

import time

import dagster as dg

from pipelines.long_run import stopping
from pipelines.restart_sensor import KEEPS_RUNNING, runs_of, sensor_name
from pipelines.supervision import RunState, next_step


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


@dg.job(executor_def=dg.in_process_executor)
def wait_on() -> None:
    go_on()


@dg.sensor(
    name=sensor_name("wait_on"),
    job=wait_on,
    tags={KEEPS_RUNNING: "true"},
    default_status=dg.DefaultSensorStatus.RUNNING,
)
def keep_waiting(context: dg.SensorEvaluationContext) -> dg.RunRequest | dg.SkipReason:
    """Decides as the sensors of long runs do, of runs that achieve something."""
    now = time.time()
    return next_step(RunState("here", moved_at=now), runs_of(context.instance, "wait_on"), now, 0.0)


defs = dg.Definitions(jobs=[wait, wait_on], sensors=[keep_waiting])
