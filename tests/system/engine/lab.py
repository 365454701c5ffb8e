"""Machines: network namespaces that see each other alone, and the processes in them.

Everything is made inside namespaces, so that nothing of the host's network changes: `hub` holds a
bridge with the servers' address, each worker has one end of a veth pair whose other end is there.
"""

import os
import pwd
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).parents[3]
HUB_ADDRESS = "10.213.0.1"
STANDBY_ADDRESS = "10.213.0.254"
"""Also the hub's: Postgres's standby listens there."""
_PREFIX = "10.213.0."
_POLL_SECONDS = 0.1
START_SECONDS = 240.0

ISTHMUS = (str(Path(sys.executable).with_name("isthmus")),)


class NotInstalled(RuntimeError):
    """A program is missing; the message says what to install."""


def require(program: str, package: str) -> str:
    """Path of a program. Raises `NotInstalled`."""
    for folder in (*os.environ["PATH"].split(os.pathsep), "/usr/sbin", "/sbin"):
        path = Path(folder) / program
        if os.access(path, os.X_OK):
            return str(path)
    raise NotInstalled(f"{program} is missing: apt-get install {package}")


@dataclass
class Machine:
    """A namespace with a folder of its own."""

    name: str
    namespace: str
    address: str
    folder: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(
        self, command: Sequence[str], env: Mapping[str, str], log: str, user: str | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a process group here; its output goes to a file in the folder."""
        with (self.folder / log).open("ab") as out:
            process = subprocess.Popen(
                ["ip", "netns", "exec", self.namespace, *_as(user), *command],
                env={"PATH": os.environ["PATH"], "HOME": str(self.folder), **env},
                cwd=self.folder,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def run(self, command: Sequence[str], env: Mapping[str, str], user: str | None = None) -> str:
        """Run a command here to its end. Raises `AssertionError` with its output."""
        done = subprocess.run(
            ["ip", "netns", "exec", self.namespace, *_as(user), *command],
            env={"PATH": os.environ["PATH"], "HOME": str(self.folder), **env},
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout


def _as(user: str | None) -> list[str]:
    if user is None:
        return []
    account = pwd.getpwnam(user)
    return ["setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]


def kill(process: subprocess.Popen[bytes], number: signal.Signals = signal.SIGKILL) -> None:
    """Signal the process group and wait for its leader."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)
    process.wait(60)


def wait_until(holds: Callable[[], bool], what: str, seconds: float = START_SECONDS) -> None:
    """Wait for a condition. Raises `AssertionError` that names it."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(_POLL_SECONDS)


class Lab:
    """The machines of one test. Ends their processes and deletes the namespaces at its end."""

    def __init__(self, folder: Path) -> None:
        """Raises `NotInstalled` where namespaces cannot be made."""
        require("ip", "iproute2")
        if os.geteuid() != 0:
            raise NotInstalled("network namespaces need root: run `make engine` as root")
        self._folder = folder
        self._prefix = f"isthmus-{os.getpid()}-"
        self.machines: dict[str, Machine] = {}

    def __enter__(self) -> "Lab":
        self.hub = self._machine("hub", HUB_ADDRESS)
        self._ip("-n", self.hub.namespace, "link", "add", "br0", "type", "bridge")
        for address in (HUB_ADDRESS, STANDBY_ADDRESS):
            self._ip("-n", self.hub.namespace, "addr", "add", f"{address}/24", "dev", "br0")
        self._ip("-n", self.hub.namespace, "link", "set", "br0", "up")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for machine in reversed(self.machines.values()):
            for process in machine.processes:
                kill(process)
            for pid in self._pids(machine):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._ip("netns", "delete", machine.namespace)

    def machine(self, name: str) -> Machine:
        """A new machine on the hub's network."""
        number = len(self.machines) + 1
        machine = self._machine(name, f"{_PREFIX}{number}")
        space, hub, end = machine.namespace, self.hub.namespace, f"veth{number}"
        self._ip(
            *("link", "add", end, "netns", hub, "type", "veth"),
            *("peer", "name", "eth0", "netns", space),
        )
        self._ip("-n", hub, "link", "set", end, "master", "br0", "up")
        self._ip("-n", space, "addr", "add", f"{machine.address}/24", "dev", "eth0")
        self._ip("-n", space, "link", "set", "eth0", "up")
        return machine

    def _machine(self, name: str, address: str) -> Machine:
        folder = self._folder / name
        folder.mkdir()
        machine = Machine(name, f"{self._prefix}{name}", address, folder)
        self._ip("netns", "add", machine.namespace)
        self.machines[name] = machine
        self._ip("-n", machine.namespace, "link", "set", "lo", "up")
        return machine

    def _pids(self, machine: Machine) -> list[int]:
        """Processes that left their group, such as the port mapper of Erlang."""
        found = subprocess.run(
            ["ip", "netns", "pids", machine.namespace], capture_output=True, text=True, check=True
        )
        return [int(pid) for pid in found.stdout.split()]

    def _ip(self, *arguments: str) -> None:
        done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
        if done.returncode:
            raise NotInstalled(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
