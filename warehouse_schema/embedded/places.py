"""The data folder, the files next to it, private files."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from warehouse_schema.embedded.errors import FolderNotUsable


@dataclass(frozen=True)
class Places:
    """Paths of a server's files. They need not exist."""

    data: Path

    @property
    def password_file(self) -> Path:
        """The password, mode 0600."""
        return self.sibling("password")

    @property
    def port_file(self) -> Path:
        """The port of the last start."""
        return self.sibling("port")

    @property
    def log_file(self) -> Path:
        """The server's log."""
        return self.sibling("log")

    def sibling(self, kind: str) -> Path:
        """The file or folder of that kind next to the data folder."""
        return self.data.with_name(f"{self.data.name}.{kind}")

    def password(self) -> str:
        """The superuser's. Raises FolderNotUsable."""
        try:
            return self.password_file.read_text().strip()
        except FileNotFoundError as error:
            raise FolderNotUsable(
                f"{self.password_file} is gone, and {self.data} cannot be opened without it. "
                "Restore it, or set a new password with Postgres in single-user mode."
            ) from error

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Serialises starts and stops between processes."""
        _make_folders(self.data.parent)
        # The kernel frees the lock when its holder dies, and Postgres does not inherit it.
        with self.sibling("lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _make_folders(path: Path) -> None:
    """Create missing folders with mode 0755, regardless of the umask."""
    if path.exists():
        return
    _make_folders(path.parent)
    try:
        path.mkdir()
    except FileExistsError:
        return  # Another process starting up made it first.
    path.chmod(0o755)


@contextmanager
def open_private(path: Path, flags: int) -> Iterator[int]:
    """A file descriptor for writing a file of mode 0600."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def write_private(path: Path, text: str) -> None:
    """Write a new file of mode 0600, and sync it to disk."""
    with open_private(path, os.O_EXCL) as descriptor:
        os.write(descriptor, text.encode())
        os.fsync(descriptor)
