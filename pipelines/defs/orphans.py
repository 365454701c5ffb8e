"""Ends runs whose process is gone.

Dagster notices a run that dies while its code server lives. When both die, by a crash of the
machine or a kill, the run stays STARTED for ever and keeps its chain's pool.
"""

import os
import subprocess
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import dagster as dg

from pipelines.instance import process_of

TICK_SECONDS = 15
_REUSE_SECONDS = 10.0
"""A process that started this long after the id was recorded is another one with the id. Covers the
difference between the kernel's start time and the event's time."""
_PROC = Path("/proc")
_ENDED = ("Z", "X")
"""States of a process that has ended and waits for its parent."""


def is_gone(pid: int, recorded_at: float, start_time: Callable[[int], float | None]) -> bool:
    """Whether no process of that id runs, or only one that started after it was recorded.

    `recorded_at` is in unix seconds.
    """
    started = start_time(pid)
    return started is None or started > recorded_at + _REUSE_SECONDS


def sweep(instance: dg.DagsterInstance, start_time: Callable[[int], float | None]) -> list[str]:
    """End every run that is STARTED without a process; returns their ids.

    For runs of this machine, as Dagster's default launcher starts them: the sensor below is
    evaluated in the code server, the parent of every run.
    """
    ended = []
    for run in instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED])):
        process = process_of(instance, run)
        if process is not None and is_gone(*process, start_time):
            instance.report_run_failed(run, f"its process (pid {process[0]}) is gone")
            ended.append(run.run_id)
    return ended


@dg.sensor(
    name="orphaned_runs",
    description="Ends runs whose process died together with its code server.",
    minimum_interval_seconds=TICK_SECONDS,
    default_status=dg.DefaultSensorStatus.RUNNING,
)
def orphaned_runs(context: dg.SensorEvaluationContext) -> dg.SkipReason:
    """Sweep, and report the runs."""
    ended = sweep(context.instance, process_start_time)
    return dg.SkipReason(f"ended {', '.join(ended)}" if ended else "every run has its process")


definitions = dg.Definitions(sensors=[orphaned_runs])


def process_start_time(pid: int) -> float | None:
    """Unix time at which the process with that id started; None when none runs."""
    if (_PROC / "self/stat").exists():
        try:
            stat = (_PROC / str(pid) / "stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return None
        # proc_pid_stat(5): the name is in parentheses and may hold any character; after it come the
        # state (field 3) and, as field 22, the start in clock ticks since boot.
        fields = stat.rpartition(")")[2].split()
        if fields[0] in _ENDED:
            return None
        uptime = float((_PROC / "uptime").read_text().split()[0])
        return time.time() - uptime + int(fields[19]) / os.sysconf("SC_CLK_TCK")
    ps = subprocess.run(
        ["ps", "-o", "stat=", "-o", "lstart=", "-p", str(pid)],
        check=False,
        capture_output=True,
        text=True,
        env={"LC_ALL": "C", "PATH": "/bin:/usr/bin"},
    )
    words = ps.stdout.split(maxsplit=1)
    if len(words) < 2 or words[0].startswith(_ENDED):
        return None
    return datetime.strptime(words[1].strip(), "%a %b %d %H:%M:%S %Y").astimezone().timestamp()
