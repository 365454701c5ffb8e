"""Runs of the code server: forks of one process that has imported the definitions."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from dagster import DagsterEventType, DagsterInstance, DagsterRun, DagsterRunStatus, RunsFilter
from dagster._core.remote_representation.external import RemoteRepository
from dagster._core.storage.tags import RUN_KEY_TAG, SENSOR_NAME_TAG
from dagster._core.test_utils import create_run_for_test
from dagster._core.workspace.context import WorkspaceProcessContext, WorkspaceRequestContext
from dagster._core.workspace.load_target import GrpcServerTarget

from devnet.process_groups import members
from devnet.services import isthmus
from devnet.supervisor import free_port, listens
from tests.run_processes import run_pids

TIMEOUT = 120.0
"""Seconds for what takes a second on a quiet machine."""
SERVE = "from pipelines.code_server import serve; serve"
MODULE = "tests.pipelines.waiting_definitions"


@dataclass(frozen=True)
class CodeServer:
    process: subprocess.Popen[bytes]
    port: int
    instance: DagsterInstance

    @contextmanager
    def workspace(self) -> Iterator[WorkspaceRequestContext]:
        target = GrpcServerTarget(
            host="127.0.0.1", port=self.port, socket=None, location_name="tests"
        )
        with WorkspaceProcessContext(self.instance, target) as context:
            yield context.create_request_context()

    @staticmethod
    def repository(workspace: WorkspaceRequestContext) -> RemoteRepository:
        return workspace.get_code_location("tests").get_repository("__repository__")

    def launch(self, job_name: str = "wait") -> str:
        """Start a job that goes on until SIGTERM; the run's id once it is under way."""
        with self.workspace() as workspace:
            job = self.repository(workspace).get_full_job(job_name)
            run = create_run_for_test(
                self.instance,
                job_name=job_name,
                remote_job_origin=job.get_remote_origin(),
                job_code_origin=job.get_python_origin(),
            )
            self.instance.launch_run(run.run_id, workspace)
        wait_for(lambda: self.is_under_way(run.run_id))
        return run.run_id

    def is_under_way(self, run_id: str) -> bool:
        """Whether its step listens to signals."""
        events = self.instance.all_logs(run_id, of_type=DagsterEventType.ASSET_MATERIALIZATION)
        return len(events) > 0

    def queued(self) -> list[DagsterRun]:
        return list(self.instance.get_runs(RunsFilter(statuses=[DagsterRunStatus.QUEUED])))

    def switch_off(self, sensor_name: str) -> None:
        """As the switch on Dagster's page does."""
        with self.workspace() as workspace:
            sensor = self.repository(workspace).get_sensor(sensor_name)
            self.instance.stop_sensor(sensor.get_remote_origin_id(), sensor.selector_id, sensor)

    def status(self, run_id: str) -> DagsterRunStatus:
        run = self.instance.get_run_by_id(run_id)
        assert run is not None
        return run.status


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        time.sleep(0.05)


def semaphores(group: int) -> set[Path]:
    """Named semaphores that processes of a group hold; other programs have theirs beside them."""
    found = set[Path]()
    for each in members(group):
        # One that has just ended holds none.
        with suppress(FileNotFoundError, ProcessLookupError):
            maps = Path(f"/proc/{each.pid}/maps").read_text()
            found.update(map(Path, re.findall(r"/dev/shm/sem\.mp-\w+", maps)))
    return found


@pytest.fixture
def server(tmp_path: Path) -> Iterator[CodeServer]:
    (tmp_path / "dagster.yaml").write_text(
        "run_coordinator: {module: dagster, class: QueuedRunCoordinator}\n"
    )
    port = free_port()
    environment = {
        **os.environ,
        "DAGSTER_HOME": str(tmp_path),
        "GRPC_ENABLE_FORK_SUPPORT": "0",
        "DAGSTER_GRPC_SHUTDOWN_GRACE_PERIOD": "2",
    }
    process = subprocess.Popen(
        [sys.executable, "-c", f"{SERVE}({MODULE!r}, '127.0.0.1', {port})"],
        env=environment,
        start_new_session=True,
    )
    try:
        with DagsterInstance.from_config(str(tmp_path)) as instance:
            wait_for(lambda: listens(port))
            yield CodeServer(process, port, instance)
    finally:
        if members(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.timeout(3 * TIMEOUT)
def test_killed_run_is_on_record_as_failed(server: CodeServer) -> None:
    run_id = server.launch()
    [pid] = run_pids(server.process.pid)
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: server.status(run_id) == DagsterRunStatus.FAILURE)
    assert run_pids(server.process.pid) == []


@pytest.mark.timeout(3 * TIMEOUT)
def test_successor_of_a_killed_run_is_queued_at_once(server: CodeServer) -> None:
    run_id = server.launch("wait_on")
    [pid] = run_pids(server.process.pid)
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: server.queued() != [])
    [successor] = server.queued()
    assert successor.job_name == "wait_on"
    assert successor.tags[RUN_KEY_TAG] == f"after {run_id}"
    assert successor.tags[SENSOR_NAME_TAG] == "wait_on_sensor"


@pytest.mark.timeout(3 * TIMEOUT)
def test_switched_off_sensor_starts_no_successor(server: CodeServer) -> None:
    run_id = server.launch("wait_on")
    server.switch_off("wait_on_sensor")
    [pid] = run_pids(server.process.pid)
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: server.status(run_id) == DagsterRunStatus.FAILURE)
    # The end of a run is handled after those before it.
    other = server.launch()
    [pid] = run_pids(server.process.pid)
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: server.status(other) == DagsterRunStatus.FAILURE)
    assert server.queued() == []


@pytest.mark.timeout(3 * TIMEOUT)
def test_sigterm_ends_runs_in_order_and_leaves_no_semaphores(server: CodeServer) -> None:
    run_ids = [server.launch(), server.launch()]
    assert len(run_pids(server.process.pid)) == 2
    held = semaphores(server.process.pid)
    assert any(path.exists() for path in held)
    os.killpg(server.process.pid, signal.SIGTERM)
    server.process.wait(TIMEOUT)
    assert [server.status(run_id) for run_id in run_ids] == [DagsterRunStatus.SUCCESS] * 2
    wait_for(lambda: members(server.process.pid) == [])
    assert [path for path in held if path.exists()] == []


@pytest.mark.parametrize("option", [(), ("--relay",)], ids=["indexer", "relay"])
def test_wrong_settings_end_the_server_without_traceback(
    option: tuple[str, ...], tmp_path: Path
) -> None:
    ended = subprocess.run(
        isthmus("code-server", *option),
        env={
            **os.environ,
            "DAGSTER_HOME": str(tmp_path),
            "ISTHMUS_NETWORK": "mainnet",
            "DATABASE_URL": "mysql://x/y",
            "ISTHMUS_STRT_EIP155_1": "7",
        },
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert ended.returncode == 2
    assert "Traceback" not in ended.stderr
    assert "DATABASE_URL must be a postgresql:// URL" in ended.stderr
    assert "the nearest one is ISTHMUS_START_EIP155_1 " in ended.stderr
