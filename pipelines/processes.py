"""Which process an id belongs to, on this machine, now."""

import os
import subprocess
import time
from datetime import datetime
from pathlib import Path

_PROC = Path("/proc")
_ENDED = ("Z", "X")
"""States of a process that runs no more and is only waiting for its parent to ask."""


def born_at(pid: int) -> float | None:
    """Unix time at which the process with that id began; None when none runs."""
    if (_PROC / "self/stat").exists():
        return _born_by_proc(pid)
    return _born_by_ps(pid)


def _born_by_proc(pid: int) -> float | None:
    try:
        stat = (_PROC / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # proc_pid_stat(5): the name is in parentheses and may hold any character; after it come the
    # state (field 3) and, as field 22, the start in clock ticks since boot.
    fields = stat.rpartition(")")[2].split()
    if fields[0] in _ENDED:
        return None
    uptime = float((_PROC / "uptime").read_text().split()[0])
    return time.time() - uptime + int(fields[19]) / os.sysconf("SC_CLK_TCK")


def _born_by_ps(pid: int) -> float | None:
    asked = subprocess.run(
        ["ps", "-o", "stat=", "-o", "lstart=", "-p", str(pid)],
        check=False,
        capture_output=True,
        text=True,
        env={"LC_ALL": "C", "PATH": "/bin:/usr/bin"},
    )
    words = asked.stdout.split(maxsplit=1)
    if len(words) < 2 or words[0].startswith(_ENDED):
        return None
    return datetime.strptime(words[1].strip(), "%a %b %d %H:%M:%S %Y").astimezone().timestamp()
