"""The processes of Dagster's runs, as Linux shows them."""

from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")


def run_pids(code_server: int) -> list[int]:
    """Process ids of the runs of a code server: the children of its fork server."""
    return [
        run
        for child in _children(code_server)
        if b"multiprocessing.forkserver" in _read(_PROC / str(child) / "cmdline")
        for run in _children(child)
    ]


def _children(pid: int) -> list[int]:
    tasks = (_PROC / str(pid) / "task").glob("*/children")
    return [int(child) for task in tasks for child in _read(task).split()]


def _read(path: Path) -> bytes:
    """Nothing of a process that has just ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return path.read_bytes()
    return b""
