"""The service's processes on a host, each forked from a process that has imported them before."""

import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.system.bench.processor import family_seconds
from tests.system.chaos.processes import Nursery, children_of
from tests.system.chaos.transfers.crew import Process, Spec
from tests.system.fleet.hosts import Host
from tests.system.fleet.programs import Program

RESTART_SECONDS = 1.0
"""As `RestartSec` of deploy/systemd."""
_LOOK_SECONDS = 0.1


@dataclass
class Machine:
    """A host with processes that are started again when they end, as systemd does."""

    host: Host
    processes: Mapping[str, Process]
    programs: dict[str, Program] = field(default_factory=dict)
    """What else runs here, by name: PgBouncer."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    """A kill is not seen as an end by itself."""

    def start(self) -> None:
        """Start everything that does not run."""
        for program in self.programs.values():
            program.start()
        for process in self.processes.values():
            process.start()

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a process and its children."""
        pid = self.processes[name].pid
        for each in [] if pid is None else [pid, *children_of(pid)]:
            with suppress(ProcessLookupError):
                os.kill(each, number)

    def kill(self, name: str) -> None:
        """SIGKILL to a process and its children."""
        with self._lock:
            self.processes[name].kill()

    def cpu_seconds(self, name: str) -> float:
        """Processor time of a process and all of its children."""
        pid = self.processes[name].pid
        return 0.0 if pid is None else family_seconds(pid)

    def restart_ended(self, over: threading.Event) -> None:
        """Start what ended again after a second, until `over`."""
        due: dict[str, float] = {}
        while not over.wait(_LOOK_SECONDS):
            now = time.monotonic()
            for name, process in self.processes.items():
                with self._lock:
                    if process.runs():
                        due.pop(name, None)
                    elif due.setdefault(name, now + RESTART_SECONDS) <= now:
                        process.start()


@contextmanager
def machine(host: Host, specs: Sequence[Spec], folder: Path) -> Iterator[Machine]:
    """A host with these processes, not yet started; they end with it."""
    with ExitStack() as stack:
        nursery = Nursery(folder / f"{host.name}.log", host.command([]))
        stack.callback(nursery.close)
        processes = {
            each.name: Process(each, nursery, folder / f"{host.name}-{each.name}.log")
            for each in specs
        }
        yield Machine(host, processes)
