"""Process groups by number: its members, whether we started it, and how to end it.

A child that leads its own session has a group of its own number, and all that it starts stays in
that group unless it leaves on purpose. So a group is what is started, watched and ended.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

MARK = "ISTHMUS_DEMO"
"""Environment variable of every process of the demo: the folder whose demo it is."""

_PROC = Path("/proc")
_POLL_SECONDS = 0.02
_DEATH_SECONDS = 120.0
"""Only a process in uninterruptible sleep takes its time to die, or one on a busy machine."""
_TRACKER = b"multiprocessing.resource_tracker"
_TRACKER_SECONDS = 10.0


@dataclass(frozen=True)
class Process:
    """A live process. `started` is its start time in the system's own words, to the second or
    finer: together with the number it names one process of all times."""

    pid: int
    group: int
    started: str
    processor_seconds: float = field(default=0.0, compare=False)


def members(group: int) -> list[Process]:
    """The live processes of a group; a zombie is not live."""
    return [process for process in _processes() if process.group == group]


def find(pid: int) -> Process | None:
    """The live process of that number."""
    return next((process for process in _processes() if process.pid == pid), None)


def is_ours(process: Process, leader: Process, mark: str) -> bool:
    """Whether a process in the group of `leader`, as it was once recorded, is of that group.

    Numbers come again: the recorded leader itself is known by its start time, what it left behind
    by the mark in its environment (where the system shows it).
    """
    return process == leader or f"{MARK}={mark}".encode() in _environment(process.pid)


def processor_seconds(group: int) -> float:
    """Processor time that the live processes of a group, and their ended children, have had."""
    return sum(process.processor_seconds for process in members(group))


def end_group(group: int, *, timeout: float) -> bool:
    """`ask_group`, then `await_end` for `timeout` seconds; what that returns."""
    ask_group(group)
    return await_end(group, timeout=timeout)


def ask_group(group: int) -> None:
    """SIGTERM to all of a group. The caller must know that the group is its own."""
    _signal(group, signal.SIGTERM)


def await_end(group: int, *, timeout: float) -> bool:
    """Wait until a group is empty; SIGKILL to what is left after `timeout` seconds.

    Returns whether all ended before that. The caller reaps its own child. Raises `TimeoutError`
    when the kernel cannot end one of them.
    """
    if _is_empty_within(group, timeout):
        return True
    # Python's resource tracker unlinks the semaphores of the others once they are gone.
    for process in members(group):
        if _TRACKER not in command_line(process.pid):
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
    if _is_empty_within(group, _TRACKER_SECONDS):
        return False
    _signal(group, signal.SIGKILL)
    if not _is_empty_within(group, _DEATH_SECONDS):
        raise TimeoutError(f"process group {group} outlives SIGKILL: {members(group)}")
    return False


def _signal(group: int, number: signal.Signals) -> None:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return
    except PermissionError:
        # macOS raises it for a group that holds nothing but unreaped children.
        if members(group):
            raise


def _is_empty_within(group: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while True:
        if not members(group):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)


def _processes() -> Iterator[Process]:
    return _from_proc() if (_PROC / "self" / "stat").exists() else _from_ps()


def _from_proc() -> Iterator[Process]:
    boot = (_PROC / "sys" / "kernel" / "random" / "boot_id").read_text().strip()
    for entry in _PROC.iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            text = (entry / "stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        # The program's name is in parentheses and may hold any of them; the state comes after.
        fields = text.rpartition(")")[2].split()
        state, group, ticks = fields[0], int(fields[2]), fields[19]
        if state not in ("Z", "X"):
            # proc_pid_stat(5), fields 14 to 17: its own time and that of children that ended.
            spent = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
            yield Process(int(entry.name), group, f"{boot}/{ticks}", spent)


def _from_ps() -> Iterator[Process]:
    columns = ["-o", "pid=", "-o", "pgid=", "-o", "stat=", "-o", "time=", "-o", "lstart="]
    listed = subprocess.run(["ps", "-A", *columns], check=True, capture_output=True, text=True)
    for line in listed.stdout.splitlines():
        pid, group, state, spent, started = line.split(maxsplit=4)
        if not state.startswith("Z"):
            yield Process(int(pid), int(group), started, _seconds(spent))


def _seconds(spent: str) -> float:
    """Seconds of `[[dd-]hh:]mm:ss`."""
    days, _, clock = spent.rpartition("-")
    parts = enumerate(reversed(clock.split(":")))
    return 86_400 * float(days or 0) + sum(float(part) * 60.0**place for place, part in parts)


def command_line(pid: int) -> bytes:
    """Its arguments, in the system's own form; nothing of a process that has just ended."""
    if not (_PROC / "self" / "cmdline").exists():
        command = ["ps", "-ww", "-o", "command=", "-p", str(pid)]
        return subprocess.run(command, check=False, capture_output=True).stdout
    try:
        return (_PROC / str(pid) / "cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def _environment(pid: int) -> list[bytes]:
    try:
        return (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return []
