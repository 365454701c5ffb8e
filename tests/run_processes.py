"""The processes of Dagster's runs, as Linux shows them."""

from contextlib import suppress
from pathlib import Path

from devnet.process_groups import command_line

_PROC = Path("/proc")


def run_pids(code_server: int) -> list[int]:
    """Process ids of the runs of a code server: the children of its fork server."""
    return [
        run
        for child in _children(code_server)
        if b"multiprocessing.forkserver" in command_line(child)
        for run in _children(child)
    ]


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for task in (_PROC / str(pid) / "task").glob("*/children"):
        # A process that has just ended has no children.
        with suppress(FileNotFoundError, ProcessLookupError):
            found += map(int, task.read_text().split())
    return found
