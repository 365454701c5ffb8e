"""Start, attach to, and stop the server of a data folder."""

import logging
import os
import shlex
import signal
import subprocess
import time
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from types import TracebackType

from warehouse_schema.embedded.accounts import (
    account_for,
    check_way_to_data,
    check_way_to_programs,
)
from warehouse_schema.embedded.cluster import ensure_cluster
from warehouse_schema.embedded.errors import FolderNotUsable, NotRunning, StartFailed, StopFailed
from warehouse_schema.embedded.places import Places, open_private
from warehouse_schema.embedded.postmaster import (
    Postmaster,
    disown_pid_file,
    live_postmaster,
    orphans,
)
from warehouse_schema.embedded.programs import Binaries, find_binaries, leading_int
from warehouse_schema.embedded.server import (
    DEFAULT_DATABASE,
    DEFAULT_SCHEME,
    HOST,
    Server,
    choose_port,
)

logger = logging.getLogger(__name__)

# Given on the command line, so a new release of ours takes effect at the next start.
SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
}
# For tests alone: a crash of the machine may lose or damage everything.
NOT_DURABLE = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}

# Part of Postgres' message while children of a killed server still exit.
CHILDREN_REMAIN = "is still in use"
_ADDRESS_IN_USE = "Address already in use"

_POLL_SECONDS = 0.05
_START_TIMEOUT = 60
_ORPHAN_TIMEOUT = 3
"""Children notice that their server is dead as soon as they wait for anything."""
_RECOVERY_TIMEOUT = 600
_STOP_TIMEOUT = 120
_LARGEST_LOG_BYTES = 16 * 1024 * 1024


class EmbeddedPostgres:
    """A data folder and its server; safe to use from many processes at once.

    `port` 0 means: the port of the last start, or a free one. `durable=False` trades safety for
    speed, for tests. Nothing is created before `start`.
    """

    def __init__(
        self, data_dir: Path, port: int = 0, bin_dir: Path | None = None, *, durable: bool = True
    ) -> None:
        # Resolved, because the command line of a live server is matched against it.
        self.data_dir = Path(data_dir).resolve()
        self.port = port
        self.durable = durable
        self.places = Places(self.data_dir)
        self._bin_dir = bin_dir
        self._entered: Server | None = None

    def start(self) -> Server:
        """Bring the server up, or attach to it when it runs already, whatever its port.

        Returns once it accepts connections, after recovery if the last end was a crash.
        `Server.started_here` tells whether this call started it. Raises the whole tree but
        StopFailed and NotRunning.
        """
        with self.places.locked():
            running = self._wait_until_ready()
            if running is not None:
                if self.durable and not running.is_durable:
                    raise FolderNotUsable(
                        f"the server on {self.data_dir} runs without fsync (test mode): a "
                        "crash would lose data. Stop it and start it again."
                    )
                return Server(running.port, self.places.password(), started_here=False)
            account = account_for(self.data_dir)
            if account is not None:
                check_way_to_data(account, self.data_dir)
                check_way_to_programs(account, self.binaries.folder)
            ensure_cluster(self.places, self.binaries, durable=self.durable)
            return self._launch()

    def stop(self) -> bool:
        """End the server and every session in it (a fast shutdown), and wait for that.

        Returns False when none was running. Raises StopFailed.
        """
        if not self.data_dir.exists():
            return False
        with self.places.locked():
            if live_postmaster(self.data_dir) is None:
                return False
            result = self._run(
                "pg_ctl", "stop", "-D", str(self.data_dir), "-m", "fast", "-w",
                "-t", str(_STOP_TIMEOUT),
            )  # fmt: skip
            remaining = live_postmaster(self.data_dir)
            if remaining is not None:
                raise StopFailed(
                    f"Postgres (pid {remaining.pid}) did not stop: {result.stdout.strip()} "
                    f"See {self.places.log_file}."
                )
            logger.info("stopped postgres data=%s", self.data_dir)
            return True

    def status(self) -> Server | None:
        """The running server, or None if none accepts connections at this moment."""
        if not self.data_dir.exists():
            return None
        postmaster = live_postmaster(self.data_dir)
        if postmaster is None or not self._accepts(postmaster):
            return None
        return Server(postmaster.port, self.places.password(), started_here=False)

    def url(self, database: str = DEFAULT_DATABASE, scheme: str = DEFAULT_SCHEME) -> str:
        """The URL of the running server, password included. Raises NotRunning."""
        return self.running_server().url(database, scheme)

    def ensure_database(self, name: str = DEFAULT_DATABASE) -> bool:
        """Create the database unless it is there; returns whether it was created.

        Raises NotRunning, and psycopg.Error for what the server refuses.
        """
        import psycopg  # Only this needs a driver; starting and stopping must not.
        from psycopg import sql

        server = self.running_server()
        with psycopg.connect(server.url("postgres", "postgresql"), autocommit=True) as connection:
            # One creator at a time, so that two first starts do not collide.
            connection.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", (name,))
            known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,))
            if known.fetchone() is not None:
                return False
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
            return True

    def __enter__(self) -> Server:
        self._entered = self.start()
        return self._entered

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._entered is not None and self._entered.started_here:
            self.stop()
        self._entered = None

    @cached_property
    def binaries(self) -> Binaries:
        """The programs in use, looked for once. Raises BinariesNotFound."""
        return find_binaries(self._bin_dir)

    def _accepts(self, postmaster: Postmaster) -> bool:
        """Whether it accepts connections; the pid file of a killed one may still say ready."""
        if not postmaster.is_ready:
            return False
        result = self._run("pg_isready", "-q", "-h", HOST, "-p", str(postmaster.port), "-t", "3")
        return result.returncode == 0

    def _wait_until_ready(self) -> Postmaster | None:
        """The running postmaster once it answers; None if there is none, or it went away."""
        deadline = time.monotonic() + _RECOVERY_TIMEOUT
        while (postmaster := live_postmaster(self.data_dir)) is not None:
            if self._accepts(postmaster):
                return postmaster
            if time.monotonic() > deadline:
                raise StartFailed(
                    f"Postgres (pid {postmaster.pid}) runs and has been {postmaster.status!r} for "
                    f"{_RECOVERY_TIMEOUT} s. See {self.places.log_file}."
                )
            time.sleep(_POLL_SECONDS)
        return None

    def running_server(self) -> Server:
        """The running server. Raises NotRunning."""
        server = self.status()
        if server is None:
            raise NotRunning(f"no Postgres answers for {self.data_dir}. Start it first.")
        return server

    def _launch(self) -> Server:
        """Start a server that is known not to run.

        For about a second after a kill -9 the old children hold the shared memory and Postgres
        refuses to start, rightly; that, and a port lost to another program, are worth another try.
        A child that does not notice that its server is dead is killed: its uncommitted work is lost
        with the server.
        """
        began, port_file = time.monotonic(), self.places.port_file
        while True:
            disown_pid_file(self.data_dir)
            recorded = leading_int(port_file.read_text()) if port_file.exists() else 0
            port = choose_port(self.port, recorded)
            failure = self._try_to_start(port)
            if failure is None:
                port_file.write_text(f"{port}\n")
                logger.info("started postgres data=%s port=%d", self.data_dir, port)
                return Server(port, self.places.password(), started_here=True)
            passing = CHILDREN_REMAIN in failure or _ADDRESS_IN_USE in failure
            if not passing or time.monotonic() > began + _START_TIMEOUT:
                raise StartFailed(
                    f"Postgres did not start on {self.data_dir}; the end of "
                    f"{self.places.log_file}: {failure[-2000:].strip()}"
                )
            if CHILDREN_REMAIN in failure and time.monotonic() > began + _ORPHAN_TIMEOUT:
                for pid in orphans(self.data_dir):
                    logger.warning(
                        "ending pid=%d, left behind by a dead server data=%s", pid, self.data_dir
                    )
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            time.sleep(_POLL_SECONDS)

    def _try_to_start(self, port: int) -> str | None:
        """None once the server accepts connections; else what it wrote to its log this time."""
        settings = SETTINGS | {"port": str(port)} | ({} if self.durable else NOT_DURABLE)
        options = shlex.join(
            word for name, value in settings.items() for word in ("-c", f"{name}={value}")
        )
        log_file = self.places.log_file
        if log_file.exists() and log_file.stat().st_size > _LARGEST_LOG_BYTES:
            log_file.replace(self.places.sibling("log.1"))
        with open_private(log_file, os.O_APPEND) as log:
            begin = os.fstat(log).st_size
            # The log is the server's output from the first byte: a pipe of ours would stay open
            # for as long as the server lives, and block the readers of our own output.
            done = self._run(
                "pg_ctl", "start", "-D", str(self.data_dir), "-o", options, "-w",
                "-t", str(_RECOVERY_TIMEOUT), output=log,
            )  # fmt: skip
        if done.returncode == 0:
            return None
        with log_file.open("rb") as written:
            written.seek(begin)
            return written.read().decode(errors="replace")

    def _run(
        self, program: str, *arguments: str, output: int = subprocess.PIPE
    ) -> subprocess.CompletedProcess[str]:
        account = account_for(self.data_dir)
        return self.binaries.run(account, program, *arguments, output=output)
