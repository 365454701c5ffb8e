"""Processor time of processes and which of them a connection belongs to, as Linux tells."""

import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")
_PROCESS_CLOCK = 2


def processor_seconds(pid: int) -> float:
    """What a live process has had of any core so far, to the nanosecond.

    Raises `OSError` when there is no such process.
    """
    # As clock_getcpuclockid(3) makes it on Linux; /proc/PID/stat has the same figure in ticks.
    return time.clock_gettime(~pid << 3 | _PROCESS_CLOCK)


def family_seconds(parent: int) -> float:
    """The same of a process and all the children that it ever had."""
    tasks = (_PROC / str(parent) / "task").glob("*/children")
    total = processor_seconds(parent)
    for pid in [int(pid) for task in tasks for pid in task.read_text().split()]:
        with suppress(OSError):  # It has ended since, and is counted below.
            total += processor_seconds(pid)
    # proc_pid_stat(5): fields 16 and 17 are of children that have ended, in clock ticks.
    fields = (_PROC / str(parent) / "stat").read_text().rpartition(")")[2].split()
    return total + (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def machine_seconds() -> float:
    """What all processes of the machine have had of its cores so far, and its host kept back."""
    # proc_stat(5): user, nice, system, idle, iowait, irq, softirq, steal; guests are in user.
    fields = (_PROC / "stat").read_text().splitlines()[0].split()[1:9]
    user, nice, system, _idle, _wait, irq, softirq, steal = map(int, fields)
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


class ForeignLoad:
    """Processor time of all but some processes and their children, from now on."""

    def __init__(self, own: Sequence[int]) -> None:
        self._own = own
        self.average = os.getloadavg()[0]
        """Load at the start."""
        self._began = time.monotonic()
        self._before = self._foreign_seconds()

    def share(self) -> float:
        """Of all cores of the machine, since the start."""
        used = self._foreign_seconds() - self._before
        return used / (time.monotonic() - self._began) / (os.cpu_count() or 1)

    def _foreign_seconds(self) -> float:
        return machine_seconds() - sum(map(family_seconds, self._own))


def owner_of_port(port: int, among: Iterable[int]) -> int:
    """Which of these processes holds the near end of a TCP connection from that port.

    Raises `LookupError` when none does.
    """
    rows = [line.split() for line in (_PROC / "net" / "tcp").read_text().splitlines()[1:]]
    sockets = {f"socket:[{row[9]}]" for row in rows if int(row[1].partition(":")[2], 16) == port}
    for pid in among:
        if any(str(entry.readlink()) in sockets for entry in (_PROC / str(pid) / "fd").iterdir()):
            return pid
    raise LookupError(f"port {port} is nobody's")
