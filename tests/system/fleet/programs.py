"""Programs that run on hosts of the fleet or outside of them, each with a log of its own."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.system.fleet.hosts import Host

ROOT = Path(__file__).resolve().parents[3]
READY_SECONDS = 120.0
"""Far more than any start takes, also on a busy machine."""
_STOP_SECONDS = 20.0
_POLL_SECONDS = 0.05


class FleetFailed(Exception):
    """A part of the fleet did not start, or ended by itself."""


class Missing(Exception):
    """This machine lacks something that the fleet needs."""


@dataclass
class Program:
    """A program, started as often as needed. Its process leads a group of its own."""

    name: str
    words: Sequence[str]
    log: Path
    host: Host | None = None
    """None: outside."""
    environment: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    """System user; None: root."""
    stop_signal: signal.Signals = signal.SIGTERM
    _process: "subprocess.Popen[bytes] | None" = None

    @property
    def pid(self) -> int:
        """Of its process. Raises `FleetFailed` when it never ran."""
        if self._process is None:
            raise FleetFailed(f"{self.name} was not started")
        return self._process.pid

    def start(self) -> None:
        """Start it unless it runs; it may not be ready yet."""
        if self.runs():
            return
        words = list(self.words)
        if self.user is not None:
            # In this order: the user may not enter a namespace.
            words = ["setpriv", f"--reuid={self.user}", "--regid=nogroup", "--clear-groups", *words]
        if self.host is not None:
            words = self.host.command(words)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd="/" if self.user else ROOT,
                env={"PATH": os.environ["PATH"], "LC_ALL": "C", **self.environment},
                start_new_session=True,
            )

    def runs(self) -> bool:
        """Whether its process lives."""
        return self._process is not None and self._process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to its whole group."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def kill(self) -> None:
        """SIGKILL to its whole group, and wait for its end."""
        if self.runs():
            self.signal(signal.SIGKILL)
            assert self._process is not None
            self._process.wait(_STOP_SECONDS)

    def stop(self) -> None:
        """End it in order, or kill it after 20 seconds."""
        if not self.runs():
            return
        assert self._process is not None
        self._process.send_signal(self.stop_signal)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_STOP_SECONDS)
        self.kill()

    def await_ready(self, is_ready: Callable[[], bool]) -> None:
        """Wait until it is. Raises `FleetFailed` with the end of its log."""
        deadline = time.monotonic() + READY_SECONDS
        while not is_ready():
            if not self.runs() or time.monotonic() > deadline:
                what = "is not ready" if self.runs() else "ended"
                raise FleetFailed(f"{self.name} {what}: {end_of(self.log)}")
            time.sleep(_POLL_SECONDS)


def wait_for(what: str, condition: Callable[[], bool], seconds: float = READY_SECONDS) -> None:
    """Wait until it holds. Raises `FleetFailed`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise FleetFailed(f"not within {seconds:g} s: {what}")
        time.sleep(_POLL_SECONDS)


def python(module: str, *words: str) -> list[str]:
    """The command that runs a module of the project."""
    return [sys.executable, "-m", module, *words]


def end_of(log: Path) -> str:
    """Last lines of a log."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return " / ".join(lines[-6:])[-1500:]


_PACKAGES = {
    "ip": "iproute2",
    "haproxy": "haproxy",
    "pgbouncer": "pgbouncer",
    "setpriv": "util-linux",
}


_PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"
"""Also the folders of administrators' programs."""


def require(programs: Sequence[str], *, path: str = _PATH) -> None:
    """Raises `Missing` without root or one of the programs."""
    if os.geteuid() != 0:
        raise Missing("make fleet needs root: it makes network namespaces")
    for name in programs:
        if find_program(name, path=path) is None:
            raise Missing(f"make fleet needs {name}: apt-get install {_PACKAGES[name]}")


def find_program(name: str, *, path: str = _PATH) -> str | None:
    """Its path."""
    return shutil.which(name, path=path)
