"""The end of a child process."""

import subprocess
from contextlib import suppress
from typing import Any


def end_process(process: "subprocess.Popen[Any]", seconds: float) -> None:
    """Send SIGTERM, kill the process if it runs `seconds` later, and wait for its end.

    No effect on a process that has ended.
    """
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    process.kill()
    process.wait()
