"""Where tests keep the files of their servers: in memory, where there is room for them.

A clone of a database is some 400 files. Made and dropped in memory they cost a fifth of the
processor time that a disk's file system takes, and nobody waits for a disk.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MEMORY = Path("/dev/shm")
ROOM = 4 * 2**30
"""Bytes that the servers of a suite need at most, with Postgres' logs of what was written."""


@contextmanager
def server_folder(kind: str, memory: Path | None = MEMORY) -> Iterator[Path]:
    """A folder in `memory` that every user of this machine may enter, gone afterwards.

    On disk where `memory` is None or has no room.
    Not pytest's `tmp_path`: run as root, Postgres is user `nobody`, who may not enter it.
    """
    parent = memory if memory is not None and _has_room(memory) else None
    folder = Path(tempfile.mkdtemp(prefix=f"isthmus-{kind}-{os.getpid()}-", dir=parent))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _has_room(memory: Path) -> bool:
    """Whether it is there, as it is not in every container, and has room once it is swept."""
    if not os.access(memory, os.W_OK | os.X_OK):
        return False
    _sweep(memory)
    return shutil.disk_usage(memory).free >= ROOM


def _sweep(memory: Path) -> None:
    """Remove what tests that were killed have left there: memory is not emptied by anybody else.

    A Postgres whose files are gone ends by itself within a minute.
    """
    for folder in memory.glob("isthmus-*"):
        named = re.fullmatch(r"isthmus-[a-z0-9]+-(\d+)-\w+", folder.name)
        if named and not Path(f"/proc/{named[1]}").exists():
            # Another worker may sweep at the same time.
            shutil.rmtree(folder, ignore_errors=True)
