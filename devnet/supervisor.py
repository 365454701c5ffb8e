"""Starts the demo's processes in order, restarts them, and stops them in reverse.

Each child leads a session of its own, so that a Ctrl-C in the terminal reaches the supervisor alone
and a stop reaches everything the child started. What is running is also written to a file: a
supervisor that was killed leaves children, and the next one ends them before it begins. Children
have a temporary folder of the supervisor's, which is removed with all that they left in it.

Everything happens in the caller's thread, inside `start`, `check`, `wait` and `stop`: signals only
leave a note, and the caller meets it at the next `check`.

Errors:

    SupervisorError
    ├── AlreadyRunning    another live demo owns the folder
    ├── ChildFailed       a child did not become ready, ended for good, or keeps ending
    └── Stopped           SIGINT or SIGTERM came
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType
from typing import IO, Protocol

from devnet.evm_node import DevnetError
from devnet.local_http import HOST
from devnet.process_groups import (
    MARK,
    Process,
    ask_group,
    await_end,
    end_group,
    find,
    is_ours,
    members,
    processor_seconds,
)
from devnet.progress import Progress
from indexer.config.settings import child_environment
from warehouse_schema.embedded import EmbeddedPostgres

_POLL_SECONDS = 0.05
_LOOK_EVERY_SECONDS = 0.25
_STOP_TIMEOUT_SECONDS = 8.0
_STEP_PROCESSOR_SECONDS = 0.5
"""A start makes progress when it has had so much more of a processor."""
_MAX_PROCESSOR_SECONDS = 300.0
"""A start that has had so much of a processor will never be ready. All imports take three."""
_SYSTEM_CHOICES = (0,) * 20
"""Ports that the system chooses may be reserved by processes that do not listen yet."""
_MOST_RESTARTS = 5
_RESTART_WINDOW_SECONDS = 60.0
_TAIL_LINES = 12
_TAIL_BYTES = 16_384


class SupervisorError(DevnetError):
    """Root of the tree in the module's docstring."""


class AlreadyRunning(SupervisorError):
    """Another live demo owns the folder."""


class ChildFailed(SupervisorError):
    """A child did not become ready, ended for good, or keeps ending."""


class Stopped(SupervisorError):
    """SIGINT or SIGTERM came: stop everything."""


class Managed(Protocol):
    """Something the supervisor starts, watches and stops."""

    @property
    def name(self) -> str:
        """Name in messages, and of its log."""

    @property
    def irreplaceable(self) -> str | None:
        """Why it cannot be started again once it ended; None when it can."""

    def start(self, check: Callable[[], None]) -> None:
        """Return once it serves, calling `check` while waiting. Raises `ChildFailed`."""

    def ended(self) -> str | None:
        """Description of its end; None while it runs."""

    def ask_to_stop(self) -> None:
        """Let it begin to end where others need not be there for that; `stop` comes next."""

    def stop(self) -> None:
        """End it and all it started. Harmless when it has ended or never began."""


@dataclass(frozen=True)
class ChildSpec:
    """A process to run. `ready` is polled until it returns True; `start_timeout` is the number of
    seconds that a start may take without progress: no processor time, nothing logged. `environment`
    is added to the supervisor's own."""

    name: str
    command: Sequence[str]
    ready: Callable[[], bool]
    environment: Mapping[str, str] = field(default_factory=dict)
    start_timeout: float = 60.0
    stop_timeout: float = _STOP_TIMEOUT_SECONDS
    irreplaceable: str | None = None
    directory: Path | None = None


class Child:
    """A process that leads its own session."""

    def __init__(self, spec: ChildSpec, log_file: Path, registry: Registry) -> None:
        self.spec = spec
        self.log_file = log_file
        self._registry = registry
        self._process: subprocess.Popen[bytes] | None = None
        self._stop_requested_at: float | None = None

    @property
    def name(self) -> str:
        """The spec's."""
        return self.spec.name

    @property
    def irreplaceable(self) -> str | None:
        """The spec's."""
        return self.spec.irreplaceable

    @property
    def pid(self) -> int:
        """Number of the process and of its group. Raises `ChildFailed` when it does not run."""
        if self._process is None:
            raise ChildFailed(f"{self.name} is not running")
        return self._process.pid

    def start(self, check: Callable[[], None]) -> None:
        """Start it and wait until it is ready. Raises `ChildFailed` with the log's end."""
        self.launch()
        self.await_ready(check)

    def launch(self) -> None:
        """Start it and do not wait."""
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                list(self.spec.command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.spec.directory,
                env=child_environment(
                    {
                        "TMPDIR": str(self._registry.temporary_folder),
                        **self.spec.environment,
                        MARK: self._registry.mark,
                    }
                ),
                start_new_session=True,
            )
        self._stop_requested_at = None
        self._registry.add(self.name, self._process.pid)

    def await_ready(self, check: Callable[[], None]) -> None:
        """Return once it serves, calling `check` while waiting. Raises `ChildFailed`."""
        progress = Progress(self.spec.start_timeout)
        # Ended comes first: on a port that a stranger took, the stranger would answer.
        while (ended := self.ended()) is None:
            if self.spec.ready():
                return
            spent = processor_seconds(self.pid)
            progress.note((spent // _STEP_PROCESSOR_SECONDS, self.log_file.stat().st_size))
            if progress.has_stopped or spent > _MAX_PROCESSOR_SECONDS:
                raise ChildFailed(
                    f"{self.name} did not become ready:"
                    f" no progress for {self.spec.start_timeout:g} s,"
                    f" {spent:.0f} s of processor time. {_end_of(self.log_file)}"
                )
            check()
            time.sleep(_POLL_SECONDS)
        raise ChildFailed(ended)

    def ended(self) -> str | None:
        """Exit code or signal, and the end of the log."""
        if self._process is None or (code := self._process.poll()) is None:
            return None
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
        return f"{self.name} {how}. {_end_of(self.log_file)}"

    def ask_to_stop(self) -> None:
        """SIGTERM to its group, once: a second one would interrupt what the first one began."""
        if self._process is not None and self._stop_requested_at is None:
            ask_group(self._process.pid)
            self._stop_requested_at = time.monotonic()

    def stop(self) -> None:
        """End its group, also when the process itself is gone and left others behind."""
        self.ask_to_stop()
        process, self._process = self._process, None
        if process is None or self._stop_requested_at is None:
            return
        waited = time.monotonic() - self._stop_requested_at
        await_end(process.pid, timeout=max(0.0, self.spec.stop_timeout - waited))
        process.wait()
        self._registry.remove(process.pid)


class PostgresService:
    """The embedded server. It daemonises, so its launcher reports its status."""

    name = "postgres"
    irreplaceable = None
    _CHECK_EVERY_SECONDS = 2.0

    def __init__(self, server: EmbeddedPostgres) -> None:
        self._server = server
        self._checked_at = 0.0

    def start(self, check: Callable[[], None]) -> None:
        """Attach to it or bring it up, after recovery if it was killed."""
        check()
        self._server.start()

    def ended(self) -> str | None:
        """Checked at most every two seconds: each check starts a process."""
        if time.monotonic() - self._checked_at < self._CHECK_EVERY_SECONDS:
            return None
        self._checked_at = time.monotonic()
        if self._server.status() is not None:
            return None
        return f"postgres does not answer. {_end_of(self._server.places.log_file)}"

    def ask_to_stop(self) -> None:
        """Nothing yet: what the others still write must find it."""

    def stop(self) -> None:
        """A fast shutdown."""
        self._server.stop()


@dataclass(frozen=True)
class _Entry:
    """A child as the file remembers it."""

    name: str
    pid: int
    group: int
    started: str

    @property
    def leader(self) -> Process:
        return Process(self.pid, self.group, self.started)


class Registry:
    """The file of running processes, and the lock that its writer holds."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.mark = str(folder.resolve())
        self._file = folder / "processes.json"
        self._lock_file = folder / "lock"
        self._lock: IO[str] | None = None
        self._temporary_link = folder / "temporary"
        self._entries: dict[int, _Entry] = {}

    def claim(self) -> None:
        """Become the folder's one demo. Raises `AlreadyRunning`."""
        lock = self._lock_file.open("a+")
        try:
            # The kernel lets go of it when we die, and a child does not inherit it.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.seek(0)
            owner = lock.read().strip()
            lock.close()
            raise AlreadyRunning(
                f"a demo runs already in {self.mark} (process {owner}). Stop it with Ctrl-C or "
                f"`kill {owner}`, or set ISTHMUS_HOME to another folder."
            ) from error
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        self._lock = lock

    def release(self) -> None:
        """Let another demo have the folder."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    @property
    def temporary_folder(self) -> Path:
        """The children's, under the system's own: paths of sockets must be short."""
        if not self._temporary_link.is_symlink():
            self._temporary_link.symlink_to(tempfile.mkdtemp(prefix="isthmus-"))
        return self._temporary_link.readlink()

    def remove_temporary_folder(self) -> None:
        """With everything that children left in it."""
        if self._temporary_link.is_symlink():
            shutil.rmtree(self.temporary_folder, ignore_errors=True)
            self._temporary_link.unlink()

    def end_leftovers(self) -> list[str]:
        """End what a killed demo left, last started first; the names of what was found."""
        found = []
        for entry in reversed(self._read()):
            alive = members(entry.group)
            if any(is_ours(process, entry.leader, self.mark) for process in alive):
                # Their state is not reused: chains and databases are created for each demo.
                end_group(entry.group, timeout=0)
                found.append(f"{entry.name} (process {entry.pid})")
        self.remove_temporary_folder()
        self._write()
        return found

    def add(self, name: str, pid: int) -> None:
        """Remember a child that was just started."""
        process = find(pid)
        if process is not None:  # Else it has ended already, and `Child.start` will say how.
            self._entries[pid] = _Entry(name, process.pid, process.group, process.started)
            self._write()

    def remove(self, pid: int) -> None:
        """Forget a child whose group is empty."""
        self._entries.pop(pid, None)
        self._write()

    def _read(self) -> list[_Entry]:
        if not self._file.exists():
            return []
        return [_Entry(**entry) for entry in json.loads(self._file.read_text())]

    def _write(self) -> None:
        # Renamed into place: a reader never meets half a file.
        fresh = self._file.with_suffix(".new")
        fresh.write_text(json.dumps([asdict(entry) for entry in self._entries.values()]))
        fresh.replace(self._file)


class Supervisor:
    """The demo's processes. Use it as a context manager: leaving it stops them all.

    Entering claims the folder, ends what a killed demo left there, and takes SIGINT and SIGTERM
    over; `log` gets a line for each event.
    """

    def __init__(self, folder: Path, log: Callable[[str], None]) -> None:
        self.folder = folder
        self._log = log
        self._registry = Registry(folder)
        self._running: list[Managed] = []
        self._restarts: dict[str, deque[float]] = {}
        self._signal: signal.Signals | None = None
        self._looked_at = 0.0
        self._handlers: dict[signal.Signals, object] = {}

    def __enter__(self) -> Supervisor:
        self._registry.claim()
        for number in (signal.SIGINT, signal.SIGTERM):
            self._handlers[number] = signal.signal(number, self._note_signal)
        for left in self._registry.end_leftovers():
            self._log(f"ended {left}, left by a demo that was killed")
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None and not isinstance(error, SupervisorError):
            self._log_ended()
        try:
            self.stop()
        finally:
            for number, handler in self._handlers.items():
                signal.signal(number, handler)  # type: ignore[arg-type]
            self._registry.remove_temporary_folder()
            self._registry.release()

    def child(self, spec: ChildSpec) -> Child:
        """A child that writes to `logs/<name>.log` in the folder; not yet started."""
        logs = self.folder / "logs"
        logs.mkdir(exist_ok=True)
        return Child(spec, logs / f"{spec.name}.log", self._registry)

    def start(self, managed: Managed) -> None:
        """Start it after those before it. Raises `ChildFailed`, or `Stopped` while it waits."""
        # Noted first: a child that fails half way has to be stopped too.
        self._running.append(managed)
        managed.start(self._check_signal)

    def run(self, spec: ChildSpec) -> Child:
        """`start` of a new `child`."""
        child = self.child(spec)
        self.start(child)
        return child

    def run_together(self, *specs: ChildSpec) -> list[Child]:
        """Start children that do not need each other, then wait for all of them."""
        children = [self.child(spec) for spec in specs]
        for child in children:
            self._running.append(child)
            child.launch()
        for child in children:
            child.await_ready(self._check_signal)
        return children

    def check(self) -> None:
        """Look after the children: restart a dead one that can be.

        Raises `Stopped` after a signal, `ChildFailed` for a child that cannot go on.
        """
        self._check_signal()
        if time.monotonic() - self._looked_at < _LOOK_EVERY_SECONDS:
            return
        self._looked_at = time.monotonic()
        for managed in self._running:
            ended = managed.ended()
            if ended is not None:
                self._restart(managed, ended)

    def wait(self, seconds: float) -> None:
        """`check` for that long."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self.check()
            time.sleep(min(left, _POLL_SECONDS))
        self.check()

    def leave_running(self, managed: Managed) -> None:
        """Do not stop this one at the end."""
        self._running.remove(managed)

    def stop(self) -> None:
        """Stop everything, also when one of them fails to stop.

        All get a signal first, then each is waited for, last started first.
        """
        errors: list[Exception] = []
        if self._running:
            self._log(f"stopping {', '.join(each.name for each in reversed(self._running))}")
        for managed in reversed(self._running):
            managed.ask_to_stop()
        while self._running:
            managed = self._running.pop()
            try:
                managed.stop()
            except (OSError, RuntimeError) as error:
                errors.append(error)
        if errors:
            raise ExceptionGroup("some processes could not be stopped", errors)

    def _log_ended(self) -> None:
        """Log which children have ended: the likely cause of another error."""
        for managed in self._running:
            ended = managed.ended()
            if ended is not None:
                self._log(ended)

    def _restart(self, managed: Managed, ended: str) -> None:
        """Start a dead child again, also when its first attempts fail."""
        began = time.monotonic()
        while True:
            self._allow_restart(managed, ended)
            self._log(f"{ended}\nrestarting {managed.name}")
            managed.stop()
            try:
                managed.start(self._check_signal)
            except ChildFailed as error:
                ended = str(error)
            else:
                self._log(f"{managed.name} is back after {time.monotonic() - began:.1f} s")
                return

    def _allow_restart(self, managed: Managed, ended: str) -> None:
        """Raise `ChildFailed` for what cannot come back, or has come back too often."""
        if managed.irreplaceable is not None:
            raise ChildFailed(
                f"{ended}\n{managed.name} cannot be restarted: {managed.irreplaceable}"
            )
        now = time.monotonic()
        restarts = self._restarts.setdefault(managed.name, deque())
        while restarts and now - restarts[0] > _RESTART_WINDOW_SECONDS:
            restarts.popleft()
        if len(restarts) >= _MOST_RESTARTS:
            raise ChildFailed(f"{ended}\n{managed.name} keeps ending; it is not restarted again")
        restarts.append(now)

    def _check_signal(self) -> None:
        if self._signal is not None:
            raise Stopped(f"stopping on {self._signal.name}")

    def _note_signal(self, number: int, _: FrameType | None) -> None:
        self._signal = signal.Signals(number)


def _end_of(log_file: Path) -> str:
    return f"The end of {log_file}:\n{log_tail(log_file)}"


def log_tail(log_file: Path) -> str:
    """The last lines of a log, each indented; says so when there are none."""
    with suppress(FileNotFoundError), log_file.open("rb") as log:
        log.seek(max(0, log_file.stat().st_size - _TAIL_BYTES))
        lines = log.read().decode(errors="replace").splitlines()[-_TAIL_LINES:]
        if lines:
            return "\n".join(f"    {line}" for line in lines)
    return "    (nothing)"


# Ports


def free_port(wanted: int = 0) -> int:
    """`wanted` if it is free, otherwise a port the system chooses.

    It is reserved until this process ends: no other process of this user gets it from here, also
    before the child listens. A stranger may take it before that; the child then fails.
    """
    for port in (wanted, *_SYSTEM_CHOICES) if wanted else _SYSTEM_CHOICES:
        with _listening(port) as chosen:
            if chosen is not None and _reserve(chosen):
                return chosen
    raise ChildFailed(f"no free port on {HOST}")


def _reserve(port: int) -> bool:
    """Lock the byte of that number; the kernel lets go of it when this process ends."""
    try:
        fcntl.lockf(_reservations(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except (BlockingIOError, PermissionError):
        return False
    return True


@cache
def _reservations() -> int:
    """A file of all demos of this user, wherever their folders are. It stays empty and open."""
    path = Path(tempfile.gettempdir()) / f"isthmus-ports-{os.getuid()}"
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


@contextmanager
def _listening(port: int) -> Iterator[int | None]:
    with socket.socket() as probe:
        # As servers do: connections of a past one that are timing out do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
            probe.listen()
        except OSError:
            yield None
        else:
            yield int(probe.getsockname()[1])


def listens(port: int) -> bool:
    """Whether something accepts connections there."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((HOST, port)) == 0
