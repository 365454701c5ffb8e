"""Process groups by number: who is in one, whether it is the one we started, and how to end it.

A child that leads its own session has a group of its own number, and all that it starts stays in
that group unless it leaves on purpose. So a group is what is started, watched and ended.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MARK = "ISTHMUS_DEMO"
"""Environment variable of every process of the demo: the folder whose demo it is."""

_PROC = Path("/proc")
_POLL_SECONDS = 0.02
_DEATH_SECONDS = 30.0
"""Only a process in uninterruptible sleep takes its time to die."""


@dataclass(frozen=True)
class Process:
    """A live process. `started` is its start time in the system's own words, to the second or
    finer: together with the number it names one process of all times."""

    pid: int
    group: int
    started: str


def members(group: int) -> list[Process]:
    """The live processes of a group; a dead one that nobody has reaped is not live."""
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


def end_group(group: int, *, patience: float) -> bool:
    """SIGTERM to all of a group, SIGKILL to whoever is left after `patience` seconds.

    Returns whether all went by themselves. The caller must know that the group is its own, and
    reaps its own child. Raises `TimeoutError` when the kernel cannot end one of them.
    """
    _signal(group, signal.SIGTERM)
    if _is_empty_within(group, patience):
        return True
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
        # macOS says so of a group that holds nothing but unreaped children.
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
            yield Process(int(entry.name), group, f"{boot}/{ticks}")


def _from_ps() -> Iterator[Process]:
    columns = ["-o", "pid=", "-o", "pgid=", "-o", "stat=", "-o", "lstart="]
    listed = subprocess.run(["ps", "-A", *columns], check=True, capture_output=True, text=True)
    for line in listed.stdout.splitlines():
        pid, group, state, started = line.split(maxsplit=3)
        if not state.startswith("Z"):
            yield Process(int(pid), int(group), started)


def _environment(pid: int) -> list[bytes]:
    try:
        return (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return []
