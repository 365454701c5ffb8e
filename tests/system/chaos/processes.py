"""The processes of a run: followers, Postgres, and how each is killed.

Every kill is SIGKILL to a live process. Whatever a kill takes away is started again by the same
means as in production: the follower's command, the embedded launcher.
"""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import LiteralString, Protocol

import psycopg
from psycopg import sql

from devnet.process_groups import find, members
from warehouse_schema.embedded import EmbeddedPostgres, NotRunning, Server

PROJECT = Path(__file__).resolve().parents[3]
_DEATH_SECONDS = 20.0
_POLL_SECONDS = 0.002


class NotDying(Exception):
    """A process outlives SIGKILL."""


class Nursery:
    """The forking process, and what became of its children. Close it."""

    def __init__(self, log: Path, prefix: Sequence[str] = ()) -> None:
        """`prefix` is a command that runs another one, such as `ip netns exec NAME`."""
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [*prefix, sys.executable, "-m", "tests.system.chaos.nursery"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=PROJECT,
                start_new_session=True,
            )
        self._born: queue.Queue[int] = queue.Queue()
        self._codes: dict[int, int] = {}
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def close(self) -> None:
        """End it and every child."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def bear(
        self,
        arguments: list[str],
        environment: Mapping[str, str],
        log: Path,
    ) -> int:
        """A new process; its id."""
        assert self._process.stdin is not None
        child = {
            "arguments": arguments,
            "environment": dict(environment),
            "log": str(log),
        }
        self._process.stdin.write(json.dumps(child).encode() + b"\n")
        self._process.stdin.flush()
        return self._born.get(timeout=30)

    def code(self, pid: int) -> int | None:
        """How a child ended; None while it lives."""
        with self._changed:
            return self._codes.get(pid)

    def wait(self, pid: int) -> int:
        """How a child ended, once it did. Raises `NotDying`."""
        with self._changed:
            if not self._changed.wait_for(lambda: pid in self._codes, timeout=_DEATH_SECONDS):
                raise NotDying(f"process {pid}")
            return self._codes[pid]

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            if "born" in told:
                with self._changed:
                    # The number may have been another child's, who is long gone.
                    self._codes.pop(told["born"], None)
                self._born.put(told["born"])
                continue
            with self._changed:
                self._codes[told["ended"]] = told["code"]
                self._changed.notify_all()


@dataclass
class Follower:
    """One chain's follower, started as often as needed."""

    chain: str
    nursery: Nursery
    environment: Mapping[str, str]
    log: Path
    pid: int | None = None
    starts: int = 0
    ended: list[str] = field(default_factory=list)
    """How it ended when nobody had killed it: exit code and the last line of its log."""

    def start(self) -> None:
        """Start it unless it runs."""
        if self.runs():
            return
        self.pid = self.nursery.bear(["follow", self.chain], self.environment, self.log)
        self.starts += 1

    def runs(self) -> bool:
        """Whether it runs; one that ended by itself is noted."""
        if self.pid is None:
            return False
        code = self.nursery.code(self.pid)
        if code is None:
            return True
        self.ended.append(f"{self.chain} code {code}: {last_line(self.log)}")
        self.pid = None
        return False

    def signal(self, number: signal.Signals) -> bool:
        """Send a signal; False when it does not run."""
        if not self.runs():
            return False
        assert self.pid is not None
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            # It went by itself in the very moment; the next look notes how.
            return False
        return True

    def kill(self) -> bool:
        """SIGKILL, and wait until it is gone; False when it was not running."""
        if not self.signal(signal.SIGKILL):
            return False
        assert self.pid is not None
        code = self.nursery.wait(self.pid)
        if code != -signal.SIGKILL:
            # It went by itself in the very moment.
            self.ended.append(f"{self.chain} code {code}: {last_line(self.log)}")
        self.pid = None
        return code == -signal.SIGKILL


def last_line(log: Path) -> str:
    """The end of a log in one line."""
    if not log.exists():
        return ""
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1][:400] if lines else ""


class KillableServer(Protocol):
    """A Postgres, or a pair of them, that a run uses and kills."""

    def url(self, database: str) -> str:
        """libpq URL of a database."""
        ...

    def execute(self, statement: LiteralString, *names: str) -> None:
        """Run a statement as the owner, with names quoted in the places of `{}`."""
        ...

    def start(self) -> None:
        """Bring it back."""
        ...

    def kill_all(self) -> int:
        """SIGKILL to all of its processes; how many there were."""
        ...


class Postgres:
    """The durable server that is killed. Starting it again is the launcher's own work."""

    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        self._embedded = EmbeddedPostgres(folder, durable=durable)
        self.server: Server = self._embedded.start()
        if sys.platform == "linux":
            # Recovery makes sure of every file on disk: one call instead of one a file, of which
            # there are thousands. Nothing else about the server is another than in production.
            self.execute("ALTER SYSTEM SET recovery_init_sync_method = 'syncfs'")
            self.execute("SELECT pg_reload_conf()")

    def url(self, database: str) -> str:
        """libpq URL; the port is kept over restarts."""
        return self.server.url(database, "postgresql")

    def execute(self, statement: LiteralString, *names: str) -> None:
        """Run a statement as the owner, with names quoted in the places of `{}`."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))

    def start(self) -> None:
        """Bring it back. Raises what the launcher raises."""
        self.server = self._embedded.start()

    def stop(self) -> None:
        """A fast shutdown."""
        self._embedded.stop()

    def postmaster(self) -> int:
        """Process id of the server. Raises `NotRunning`: a number that a dead one left in its file
        may be a stranger's by now, who is not to be killed."""
        pid = int((self._embedded.data_dir / "postmaster.pid").read_text().split()[0])
        command = Path(f"/proc/{pid}/cmdline")
        if not command.exists() or str(self._embedded.data_dir) not in command.read_text():
            raise NotRunning(f"process {pid} is not the server of {self._embedded.data_dir}")
        return pid

    def kill_postmaster(self) -> int:
        """SIGKILL to the postmaster alone; its children notice and leave. Processes killed."""
        os.kill(self.postmaster(), signal.SIGKILL)
        return 1

    def kill_all(self) -> int:
        """SIGKILL to the postmaster and all of its children at once. Processes killed."""
        postmaster = self.postmaster()
        return kill([postmaster, *children_of(postmaster)])

    def kill_backend(self, pid: int) -> bool:
        """SIGKILL to one session's process: the server ends every session and recovers."""
        return kill([pid]) == 1


def kill(pids: list[int]) -> int:
    """SIGKILL to all of them, as nearly at once as can be; how many were there."""
    killed = 0
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        killed += 1
    return killed


def await_death(pids: list[int]) -> None:
    """Wait until none of them runs. Raises `NotDying`."""
    deadline = time.monotonic() + _DEATH_SECONDS
    for pid in pids:
        while find(pid) is not None:
            if time.monotonic() > deadline:
                raise NotDying(f"process {pid}")
            time.sleep(_POLL_SECONDS)


def children_of(parent: int) -> list[int]:
    """Processes whose parent is that one."""
    return [pid for pid, of in _parents() if of == parent]


def _parents() -> Iterator[tuple[int, int]]:
    """Every process and its parent."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            stat = (entry / "stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        # The program's name is in parentheses and may hold any of them; state and parent follow.
        yield int(entry.name), int(stat.rpartition(")")[2].split()[1])


def group_of(leader: int) -> list[int]:
    """Every live process of a group."""
    return [process.pid for process in members(leader)]
