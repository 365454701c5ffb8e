"""Runs whose process is gone."""

import os
import subprocess
import sys
import time

import pytest
from dagster import DagsterRunStatus
from dagster._core.events import EngineEventData
from dagster._core.test_utils import create_run_for_test

from pipelines.defs.orphans import is_gone, process_start_time, sweep
from pipelines.instance import process_of


@pytest.mark.parametrize(
    ("born", "gone"),
    [(None, True), (990.0, False), (1_005.0, False), (1_011.0, True)],
    ids=["no process", "older", "within the clocks' error", "a stranger"],
)
def test_process_is_gone_if_its_id_is_free_or_reused(born, gone):
    assert is_gone(7, 1_000.0, lambda pid: {7: born}[pid]) == gone


def test_process_start_time_is_read():
    before = time.time()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert before - 2 <= process_start_time(child.pid) <= time.time() + 2
    finally:
        child.kill()
        # Not reaped yet: a dead process whose parent has not asked is gone all the same.
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert process_start_time(child.pid) is None
        child.communicate()
    assert process_start_time(child.pid) is None


@pytest.fixture
def started(instance):
    """Call it for a run on record as STARTED, in a process or none."""

    def make(pid: int | None, status=DagsterRunStatus.STARTED):
        run = create_run_for_test(instance, job_name="follow", status=status)
        if pid is not None:
            instance.report_engine_event("Started process", run, EngineEventData.in_process(pid))
        return run

    return make


def test_process_of_run_is_read_from_dagster_event(instance, started):
    process = process_of(instance, started(os.getpid()))
    assert process is not None
    pid, noted_at = process
    assert pid == os.getpid()
    assert noted_at == pytest.approx(time.time(), abs=5)
    assert process_of(instance, started(None)) is None


def test_sweep_ends_only_running_runs_without_process(instance, started):
    alive, gone = started(os.getpid()), started(999)
    unnoted, ended = started(None), started(999, DagsterRunStatus.SUCCESS)
    assert sweep(instance, {os.getpid(): 0.0}.get) == [gone.run_id]
    statuses = [instance.get_run_by_id(run.run_id).status for run in (alive, gone, unnoted, ended)]
    assert statuses == [
        DagsterRunStatus.STARTED,
        DagsterRunStatus.FAILURE,
        DagsterRunStatus.STARTED,
        DagsterRunStatus.SUCCESS,
    ]
    assert sweep(instance, {os.getpid(): 0.0}.get) == []
