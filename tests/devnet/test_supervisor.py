"""Supervisor: start order, crashes, restarts, signals and cleanup of child processes."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from devnet.process_groups import Process, end_group, find, members
from devnet.supervisor import (
    AlreadyRunning,
    Child,
    ChildFailed,
    ChildSpec,
    Stopped,
    Supervisor,
    free_port,
    listens,
)

SLEEPER = "import time; time.sleep(600)"
READY = """
import signal, time
# Whatever the process that starts it was told of signals, a child inherits.
signal.signal(signal.SIGTERM, signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
print("on", flush=True)
time.sleep(600)
"""
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('on', flush=True); time.sleep(600)"  # noqa: E501
PARENT = f"""
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", {SLEEPER!r}])
print(child.pid, flush=True)
time.sleep(600)
"""


TIMEOUT = 60.0
"""Seconds for what takes milliseconds on a machine that has nothing else to do."""


def program(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def make_spec(name: str = "sleeper", code: str = SLEEPER, **overrides: object) -> ChildSpec:
    given: dict[str, object] = {
        "name": name,
        "command": program(code),
        "ready": lambda: True,
        "start_timeout": TIMEOUT,
        "stop_timeout": TIMEOUT,
    }
    return ChildSpec(**(given | overrides))  # type: ignore[arg-type]


def announced(log_file: Path) -> Callable[[], bool]:
    return lambda: log_file.exists() and log_file.stat().st_size > 0


def wait_for(condition: Callable[[], bool], seconds: float = TIMEOUT) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        time.sleep(0.02)


@pytest.fixture
def output_lines() -> list[str]:
    return []


@pytest.fixture
def supervisor(tmp_path: Path, output_lines: list[str]) -> Iterator[Supervisor]:
    with Supervisor(tmp_path / "demo", output_lines.append) as supervisor:
        yield supervisor


def kill_and_notice(supervisor: Supervisor, child: Child) -> None:
    os.kill(child.pid, signal.SIGKILL)
    wait_for(lambda: child.ended() is not None)
    supervisor.wait(0.3)


def test_child_has_own_session_and_given_environment(
    supervisor: Supervisor,
) -> None:
    log = supervisor.folder / "logs" / "teller.log"
    code = f"import os; print(os.environ['NEW'], os.environ['PATH'] != '', flush=True); {SLEEPER}"
    child = supervisor.run(
        make_spec("teller", code, environment={"NEW": "x"}, ready=announced(log))
    )
    assert log.read_text() == "x True\n"
    assert os.getsid(child.pid) == child.pid


def test_start_returns_when_the_child_is_ready(supervisor: Supervisor) -> None:
    answers = iter([False, False, True])
    supervisor.run(make_spec(ready=lambda: next(answers)))
    assert next(answers, "asked until it said yes") == "asked until it said yes"


def test_children_of_one_start_launch_before_any_wait(
    supervisor: Supervisor,
) -> None:
    log = supervisor.folder / "logs" / "second.log"
    first = make_spec("first", ready=announced(log))
    second = make_spec("second", "print('up', flush=True); " + SLEEPER)
    supervisor.run_together(first, second)
    assert log.read_text() == "up\n"


def test_child_that_exits_before_ready_fails_with_log_tail(
    supervisor: Supervisor,
) -> None:
    code = "import sys; sys.exit('no such thing')"
    with pytest.raises(ChildFailed, match=r"broken ended with 1\.(.|\n)*no such thing"):
        supervisor.run(make_spec("broken", code, ready=lambda: False))


def test_child_that_is_never_ready_fails_after_timeout(supervisor: Supervisor) -> None:
    with pytest.raises(ChildFailed, match=r"sleeper did not become ready: no progress for 1 s"):
        supervisor.run(make_spec(ready=lambda: False, start_timeout=1.0))


def test_start_with_progress_outlasts_its_timeout(supervisor: Supervisor) -> None:
    code = "import time\nfor n in range(60): print(n, flush=True); time.sleep(0.1)\ntime.sleep(600)"
    log = supervisor.folder / "logs" / "slow.log"
    began = time.monotonic()
    supervisor.run(
        make_spec("slow", code, start_timeout=5.0, ready=lambda: "59" in log.read_text().split())
    )
    assert time.monotonic() - began > 5.0


def test_children_are_stopped_at_the_same_time(tmp_path: Path) -> None:
    """Each child exits once all three were signalled; otherwise it is killed."""
    code = """
import pathlib, signal, sys, time
asked = pathlib.Path(sys.argv[1])
def stop(*_):
    (asked / sys.argv[2]).touch()
    while len(list(asked.iterdir())) < 3:
        time.sleep(0.01)
    sys.exit()
signal.signal(signal.SIGTERM, stop)
print("ready", flush=True)
# Not one long sleep: Python would not handle a signal that comes just before it until its end.
while True:
    time.sleep(0.05)
"""
    output_lines: list[str] = []
    (tmp_path / "asked").mkdir()
    began = 0.0
    with Supervisor(tmp_path / "demo", output_lines.append) as supervisor:
        for name in ("first", "second", "third"):
            log = supervisor.folder / "logs" / f"{name}.log"
            command = [*program(code), str(tmp_path / "asked"), name]
            supervisor.run(make_spec(name, command=command, ready=announced(log)))
        began = time.monotonic()
    assert time.monotonic() - began < TIMEOUT
    assert output_lines == ["stopping third, second, first"]


def test_killed_child_leaves_no_semaphore_or_temporary_folder(tmp_path: Path) -> None:
    code = """
import multiprocessing, signal, tempfile, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
lock = multiprocessing.get_context("spawn").Lock()
print("/dev/shm/sem." + lock._semlock.name.strip("/"), tempfile.mkdtemp(), flush=True)
time.sleep(600)
"""
    with Supervisor(tmp_path / "demo", print) as supervisor:
        log = supervisor.folder / "logs" / "holder.log"
        supervisor.run(make_spec("holder", code, ready=announced(log), stop_timeout=0.2))
        left = [Path(word) for word in log.read_text().split()]
        assert [path.exists() for path in left] == [True, True]
    assert [path.exists() for path in left] == [False, False]


def test_stop_reaches_grandchildren(tmp_path: Path) -> None:
    with Supervisor(tmp_path / "demo", print) as supervisor:
        log = supervisor.folder / "logs" / "parent.log"
        supervisor.run(make_spec("parent", PARENT, ready=announced(log)))
        grandchild = int(log.read_text())
        assert find(grandchild) is not None
    assert find(grandchild) is None


def test_stop_reaches_grandchildren_of_a_dead_child(tmp_path: Path) -> None:
    with Supervisor(tmp_path / "demo", print) as supervisor:
        log = supervisor.folder / "logs" / "parent.log"
        child = supervisor.run(make_spec("parent", PARENT, ready=announced(log)))
        grandchild = int(log.read_text())
        os.kill(child.pid, signal.SIGKILL)
        wait_for(lambda: child.ended() is not None)
        assert find(grandchild) is not None
    assert find(grandchild) is None


def test_child_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    with Supervisor(tmp_path / "demo", print) as supervisor:
        log = supervisor.folder / "logs" / "deaf.log"
        spec = make_spec("deaf", DEAF, ready=announced(log), stop_timeout=0.2)
        pid = supervisor.run(spec).pid
    assert find(pid) is None


def test_stop_timeouts_run_at_the_same_time(tmp_path: Path) -> None:
    with Supervisor(tmp_path / "demo", print) as supervisor:
        for name in ("a", "b", "c", "d", "e"):
            log = supervisor.folder / "logs" / f"{name}.log"
            supervisor.run(make_spec(name, DEAF, ready=announced(log), stop_timeout=5.0))
        began = time.monotonic()
    assert 5.0 <= time.monotonic() - began < 5 * 5.0


def test_killed_child_is_reported_and_restarted(
    supervisor: Supervisor, output_lines: list[str]
) -> None:
    child = supervisor.run(make_spec("worker", "print('hello', flush=True); " + SLEEPER))
    first = child.pid
    wait_for(lambda: child.log_file.read_text() == "hello\n")
    kill_and_notice(supervisor, child)
    assert child.pid != first
    assert find(child.pid) is not None
    assert "worker was ended by SIGKILL" in output_lines[0]
    assert "    hello" in output_lines[0]
    assert output_lines[1].startswith("worker is back after ")


def test_restart_ends_processes_of_the_dead_child(supervisor: Supervisor) -> None:
    log = supervisor.folder / "logs" / "parent.log"
    child = supervisor.run(make_spec("parent", PARENT, ready=announced(log)))
    grandchild = int(log.read_text())
    kill_and_notice(supervisor, child)
    assert find(grandchild) is None


def test_failed_restart_is_retried(
    supervisor: Supervisor, output_lines: list[str], tmp_path: Path
) -> None:
    attempts = tmp_path / "attempts"
    code = f"""
import pathlib, sys, time
attempts = pathlib.Path({str(attempts)!r})
attempts.write_text((attempts.read_text() if attempts.exists() else "") + "x")
if len(attempts.read_text()) in (2, 3):
    sys.exit("not yet")
print("on", flush=True)
time.sleep(600)
"""
    log = supervisor.folder / "logs" / "unsure.log"
    ready = lambda: log.exists() and log.read_text().splitlines()[-1:] == ["on"]  # noqa: E731
    child = supervisor.run(make_spec("unsure", code, ready=ready))
    log.write_text("")
    kill_and_notice(supervisor, child)
    assert attempts.read_text() == "xxxx"
    assert sum("not yet" in line for line in output_lines) == 2
    assert child.ended() is None


def test_death_of_essential_child_ends_demo_with_reason(
    supervisor: Supervisor,
) -> None:
    child = supervisor.run(make_spec("chain", irreplaceable="its blocks are gone"))
    os.kill(child.pid, signal.SIGKILL)
    with pytest.raises(ChildFailed, match="chain cannot be restarted: its blocks are gone"):
        supervisor.wait(TIMEOUT)


def test_error_of_the_work_lists_ended_children(tmp_path: Path, output_lines: list[str]) -> None:
    def work() -> None:
        with Supervisor(tmp_path / "demo", output_lines.append) as supervisor:
            child = supervisor.run(make_spec("chain", irreplaceable="its blocks are gone"))
            os.kill(child.pid, signal.SIGKILL)
            wait_for(lambda: child.ended() is not None)
            raise ConnectionError

    with pytest.raises(ConnectionError):
        work()
    assert output_lines[0].startswith("chain was ended by SIGKILL.")


def test_child_that_keeps_dying_is_given_up(supervisor: Supervisor, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    # It must not end before it was seen alive for the first time.
    code = f"import pathlib, time\nwhile not pathlib.Path({str(seen)!r}).exists(): time.sleep(0.01)"
    supervisor.run(make_spec("brief", code))
    seen.touch()
    with pytest.raises(ChildFailed, match="brief keeps ending"):
        supervisor.wait(TIMEOUT)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_stops_the_work_at_its_next_check(tmp_path: Path, number: signal.Signals) -> None:
    with Supervisor(tmp_path / "demo", print) as supervisor:
        pid = supervisor.run(make_spec()).pid
        os.kill(os.getpid(), number)
        with pytest.raises(Stopped, match=f"stopping on {number.name}"):
            supervisor.wait(TIMEOUT)
    assert find(pid) is None


def test_signal_interrupts_the_wait_for_a_child(tmp_path: Path) -> None:
    def ready() -> bool:
        os.kill(os.getpid(), signal.SIGINT)
        return False

    with pytest.raises(Stopped), Supervisor(tmp_path / "demo", print) as supervisor:
        supervisor.run(make_spec(ready=ready))


def test_signal_handlers_are_restored_afterwards(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    with Supervisor(tmp_path / "demo", print):
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) == before


def test_two_demos_in_one_folder_are_refused(supervisor: Supervisor) -> None:
    with (
        pytest.raises(AlreadyRunning, match=f"process {os.getpid()}"),
        Supervisor(supervisor.folder, print),
    ):
        pass


VICTIM = f"""
import sys
from pathlib import Path
from devnet.supervisor import ChildSpec, Supervisor
with Supervisor(Path(sys.argv[1]), print) as supervisor:
    for name in ("one", "two"):
        log = supervisor.folder / "logs" / (name + ".log")
        ready = lambda: log.exists() and log.stat().st_size > 0
        supervisor.run(ChildSpec(name, [sys.executable, "-c", {PARENT!r}], ready))
    print("up", flush=True)
    supervisor.wait(600)
"""


def killed_demo(folder: Path) -> list[int]:
    """Numbers of the processes that a demo in `folder` left when it was killed."""
    victim = subprocess.Popen(
        [*program(VICTIM), str(folder)], stdout=subprocess.PIPE, start_new_session=True
    )
    with victim:
        assert victim.stdout is not None
        assert victim.stdout.readline() == b"up\n"
        leaders = [entry["pid"] for entry in json.loads((folder / "processes.json").read_text())]
        left = [process.pid for leader in leaders for process in members(leader)]
        victim.kill()
    assert len(left) == 4
    assert (folder / "temporary").readlink().is_dir()
    return left


def test_next_demo_ends_processes_of_a_killed_demo(tmp_path: Path, output_lines: list[str]) -> None:
    left = killed_demo(tmp_path / "demo")
    assert all(find(pid) is not None for pid in left)
    temporary = (tmp_path / "demo" / "temporary").readlink()
    with Supervisor(tmp_path / "demo", output_lines.append):
        assert [find(pid) for pid in left] == [None] * 4
        assert not temporary.exists()
    assert [line.split()[1] for line in output_lines] == ["two", "one"]


def test_next_demo_ends_group_whose_leader_is_dead(tmp_path: Path) -> None:
    left = killed_demo(tmp_path / "demo")
    for entry in json.loads((tmp_path / "demo" / "processes.json").read_text()):
        os.kill(entry["pid"], signal.SIGKILL)
    with Supervisor(tmp_path / "demo", print):
        assert [find(pid) for pid in left] == [None] * 4


def test_unrelated_process_with_recorded_pid_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    folder.mkdir()
    with subprocess.Popen(program(SLEEPER), start_new_session=True) as stranger:
        entry = {"name": "old", "pid": stranger.pid, "group": stranger.pid, "started": "before"}
        (folder / "processes.json").write_text(json.dumps([entry]))
        with Supervisor(folder, print):
            assert stranger.poll() is None
        stranger.kill()


def test_orderly_end_leaves_no_record(tmp_path: Path, output_lines: list[str]) -> None:
    for _ in range(2):
        with Supervisor(tmp_path / "demo", output_lines.append) as supervisor:
            supervisor.run(make_spec())
    assert output_lines == ["stopping sleeper"] * 2


def test_end_group_returns_whether_it_ended_by_itself() -> None:
    for code, went in ((READY, True), (DEAF, False)):
        with subprocess.Popen(
            program(code), start_new_session=True, stdout=subprocess.PIPE
        ) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == b"on\n"
            assert end_group(child.pid, timeout=30.0 if went else 0.2) is went


def test_process_is_identified_by_pid_and_start_time() -> None:
    me = find(os.getpid())
    assert me is not None
    assert me == Process(os.getpid(), os.getpgid(0), me.started)
    with subprocess.Popen(program(SLEEPER)) as other:
        found = find(other.pid)
        assert found is not None
        assert found.started != me.started
        other.kill()


def test_taken_port_is_replaced_by_a_free_one() -> None:
    chosen = free_port()
    assert free_port(chosen) == chosen
    assert not listens(chosen)
    server = subprocess.Popen(
        [sys.executable, "-m", "http.server", str(chosen), "--bind", "127.0.0.1"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    with server:
        wait_for(lambda: listens(chosen))
        assert free_port(chosen) != chosen
        server.kill()


RESERVING = """
import sys
from devnet.supervisor import free_port
print(free_port(int(sys.argv[1])), flush=True)
sys.stdin.read()
"""


def reserve(port: int) -> tuple[subprocess.Popen[str], int]:
    """A process that wants the port and does not listen, and the port that it got."""
    started = subprocess.Popen(
        [sys.executable, "-c", RESERVING, str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert started.stdout is not None
    return started, int(started.stdout.readline())


def test_chosen_port_is_kept_from_other_processes_before_anything_listens() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        wanted = int(probe.getsockname()[1])
    first, chosen = reserve(wanted)
    with first:
        assert chosen == wanted
        second, other = reserve(wanted)
        with second:
            assert other != wanted
            second.kill()
        assert free_port(wanted) != wanted
        first.kill()
    assert free_port(wanted) == wanted
