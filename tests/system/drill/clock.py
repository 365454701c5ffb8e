"""A wrong wall clock for one process, by a library that it loads before others.

The machine's clock belongs to all processes, and Linux has no namespace for it. libfaketime 0.9.10
does not do: it moves the clock of timeouts as well, or breaks `time.sleep` of Python 3.11.
"""

import subprocess
from pathlib import Path

COMPILER = "cc"
_SOURCE = Path(__file__).with_name("skewed_clock.c")


def clock_ahead(folder: Path, seconds: int) -> dict[str, str]:
    """Variables of a process whose clock is so many seconds ahead; compiles into `folder`."""
    library = folder / "skewed_clock.so"
    subprocess.run([COMPILER, "-shared", "-fPIC", "-O2", "-o", library, _SOURCE], check=True)
    return {"LD_PRELOAD": str(library), "SKEW_SECONDS": str(seconds)}
