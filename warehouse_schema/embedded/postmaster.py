"""The server process of a data folder: whether it runs, and what a dead one left."""

from dataclasses import dataclass
from pathlib import Path

from warehouse_schema.embedded.accounts import account_for
from warehouse_schema.embedded.places import write_private
from warehouse_schema.embedded.programs import output_of

# No system gives out this process id: the largest pid of Linux is 2**22, of macOS 99 999.
_NO_SUCH_PID = 2**31 - 1


@dataclass(frozen=True)
class Postmaster:
    """A live postmaster of our data folder, from its pid file and command line."""

    pid: int
    port: int
    status: str
    command: str

    @property
    def is_ready(self) -> bool:
        """Whether its pid file says so; that of a server that was just killed still does."""
        return self.status == "ready"

    @property
    def is_durable(self) -> bool:
        """Whether acknowledged commits survive a crash of the machine."""
        return " fsync=off " not in self.command


def live_postmaster(data: Path) -> Postmaster | None:
    """The live postmaster of a folder; a pid file alone proves nothing. Raises FolderNotUsable.

    After a crash the pid may be another process's, so its command must also be ``postgres -D`` with
    our folder. Lines of the pid file: Postgres, miscadmin.h.
    """
    account_for(data)
    lines = _pid_file_lines(data)
    if len(lines) < 4:
        return None
    pid = int(lines[0])
    command = _command_line(pid)
    if "postgres" not in command or f" -D {data} " not in command:
        return None
    status = lines[7].strip() if len(lines) > 7 else "starting"
    return Postmaster(pid, int(lines[3]), status, command)


def disown_pid_file(data: Path) -> None:
    """Make a stale pid file name no process: another process may have that pid now.

    The file stays, because its shared memory key is how Postgres itself notices children of
    the dead server that still write to this folder.
    """
    pid_file, lines = data / "postmaster.pid", _pid_file_lines(data)
    if not pid_file.exists():
        return
    if not lines:
        # Postgres will not start beside an empty one, which a full disk leaves behind.
        pid_file.unlink()
        return
    account = account_for(data)
    replacement = pid_file.with_name("postmaster.pid.disowned")
    replacement.unlink(missing_ok=True)
    write_private(replacement, "\n".join([str(_NO_SUCH_PID), *lines[1:]]) + "\n")
    if account is not None:
        account.give(replacement)
    replacement.replace(pid_file)


def orphans(data: Path) -> list[int]:
    """Children that a dead server left behind: they hold the shared memory its pid file names.

    None are known where there is no /proc, and a server that lives has none.
    """
    lines = _pid_file_lines(data)
    words = lines[6].split() if len(lines) > 6 else []
    # A server that was killed during its start may not have written them.
    if len(words) != 2 or live_postmaster(data) is not None:
        return []
    key, segment = words
    mapped = f" {segment} ", f"/SYSV{int(key):08x}"
    return [
        int(entry.name)
        for entry in Path("/proc").glob("[0-9]*")
        if any(all(part in line for part in mapped) for line in _maps(entry))
    ]


def _maps(process: Path) -> list[str]:
    """Memory mappings of a process; none if it is gone or another user's."""
    try:
        return (process / "maps").read_text(errors="replace").splitlines()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return []


def _pid_file_lines(data: Path) -> list[str]:
    try:
        return (data / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return []


def _command_line(pid: int) -> str:
    """Arguments of a process, with a blank before and after each; "" if it is gone."""
    if not Path("/proc/self/cmdline").exists():
        return f" {(output_of('ps', '-ww', '-o', 'command=', '-p', str(pid)) or '').strip()} "
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return f" {words.decode(errors='replace').replace(chr(0), ' ')} "
