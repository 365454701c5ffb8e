"""Real programs in front of and beside a test's Postgres: PgBouncer and a streaming replica."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import NullPool, create_engine, text
from sqlalchemy.engine import URL

from devnet.supervisor import free_port
from tests.factories.api_server import ROOT, TIMEOUT
from tests.memory import server_folder
from warehouse_schema.embedded import HOST, find_binaries

USER = "nobody" if os.geteuid() == 0 else None
"""Neither Postgres nor PgBouncer runs as root."""
LOGIN = "isthmus_api_pooled"


def program(name: str, package: str) -> str:
    """Path of a program of Debian. Fails with the fix where there is none."""
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")
    if found is None:
        pytest.fail(
            f"no {name} on this machine: install Debian's {package}, or run .ci/run as root"
        )
    return found


def sql(url: URL, *statements: str) -> None:
    """Run statements, each by itself."""
    engine = create_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as conn:
        for statement in statements:
            conn.execute(text(statement))


def scalar(url: URL, query: str) -> object:
    """The value of a query."""
    engine = create_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as conn:
        return conn.scalar(text(query))


def wait_until(url: URL, condition: str) -> None:
    """Until a query is true."""
    deadline = time.monotonic() + TIMEOUT
    while not scalar(url, condition):
        assert time.monotonic() < deadline, condition
        time.sleep(0.01)


_PASSWORDS: dict[int | None, str] = {}
"""Of the login, by the port of its server."""


@dataclass(frozen=True)
class PooledLogin:
    """The login of `deploy/pooled-login.sql`."""

    url: URL
    """The database with it."""
    secret: str
    """Its password as the server stores it."""


def pooled_login(database: URL) -> PooledLogin:
    """Create it, as docs/operations/machines.md says."""
    psql = find_binaries().folder / "psql"
    url = database.set(drivername="postgresql").render_as_string(hide_password=False)
    script = ROOT / "deploy" / "pooled-login.sql"
    subprocess.run([psql, "-qX", url, "-f", script], check=True, stdout=subprocess.DEVNULL)
    # Another database of the server has the same login.
    password = _PASSWORDS.get(database.port)
    if password is None:
        password = _PASSWORDS[database.port] = secrets.token_urlsafe(16)
        sql(database, f"ALTER ROLE {LOGIN} PASSWORD '{password}'")
    stored = scalar(database, f"SELECT rolpassword FROM pg_authid WHERE rolname = '{LOGIN}'")
    return PooledLogin(database.set(username=LOGIN, password=password), str(stored))


@contextmanager
def running(
    command: Sequence[str | Path],
    log: Path,
    port: int,
    user: str | None = None,
    *,
    stop: signal.Signals = signal.SIGINT,
) -> Iterator["subprocess.Popen[bytes]"]:
    """A program while it listens on a port; the signal `stop` ends it."""
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, user=user, cwd="/")
        try:
            deadline = time.monotonic() + TIMEOUT
            while not _listens(port):
                if process.poll() is not None or time.monotonic() > deadline:
                    pytest.fail(log.read_text())
                time.sleep(0.02)
            yield process
        finally:
            process.send_signal(stop)
            process.wait(TIMEOUT)


def _listens(port: int) -> bool:
    try:
        socket.create_connection((HOST, port)).close()
    except ConnectionRefusedError:
        return False
    return True


@contextmanager
def pgbouncer(login: PooledLogin, edits: Mapping[str, str] | None = None) -> Iterator[URL]:
    """PgBouncer with `deploy/pgbouncer.ini`; the URL of the database through it.

    `edits` are further texts to replace.
    """
    url, port = login.url, free_port()
    with tempfile.TemporaryDirectory(prefix="isthmus-pgbouncer-") as name:
        folder = Path(name)
        config = (ROOT / "deploy" / "pgbouncer.ini").read_text()
        for old, new in {
            "isthmus = host=db.internal port=5432 dbname=isthmus": (
                f"{url.database} = host={HOST} port={url.port} dbname={url.database}"
            ),
            "listen_port = 6432": f"listen_port = {port}",
            "/run/postgresql/pgbouncer.pid": f"{folder}/pid",
            "/etc/pgbouncer/userlist.txt": f"{folder}/userlist.txt",
            **(edits or {}),
        }.items():
            assert old in config, old
            config = config.replace(old, new)
        (folder / "pgbouncer.ini").write_text(config)
        (folder / "userlist.txt").write_text(f'"{LOGIN}" "{login.secret}"\n')
        for path in (folder, *folder.iterdir()):
            if USER is not None:
                shutil.chown(path, USER)
        command = [program("pgbouncer", "pgbouncer"), str(folder / "pgbouncer.ini")]
        with running(command, folder / "log", port, USER):
            yield url.set(port=port)


@dataclass(frozen=True)
class Standby:
    """A streaming replica of the whole server."""

    owner: URL
    """As the superuser, for the test alone."""
    primary: URL
    process: "subprocess.Popen[bytes]"

    def url(self, login: URL) -> URL:
        """Where a login of the primary reads the same database."""
        return login.set(port=self.owner.port)

    def catch_up(self) -> None:
        """Wait until it has replayed what the primary has written."""
        position = scalar(self.primary, "SELECT pg_switch_wal()")
        wait_until(self.owner, f"SELECT pg_last_wal_replay_lsn() >= '{position}'::pg_lsn")

    @contextmanager
    def paused(self) -> Iterator[None]:
        """It receives and replays nothing."""
        sql(self.owner, "SELECT pg_wal_replay_pause()")
        wait_until(self.owner, "SELECT pg_get_wal_replay_pause_state() = 'paused'")
        try:
            yield
        finally:
            sql(self.owner, "SELECT pg_wal_replay_resume()")


@contextmanager
def standby(primary: URL) -> Iterator[Standby]:
    """A replica of the primary's server, made by pg_basebackup."""
    programs, port = find_binaries().folder, free_port()
    with server_folder("standby") as folder:
        if USER is not None:
            shutil.chown(folder, USER)
        data = folder / "data"
        source = primary.set(drivername="postgresql", database=None)
        subprocess.run(
            [
                *(programs / "pg_basebackup", "-D", data, "-R", "-X", "stream", "-c", "fast"),
                *("-d", source.render_as_string(hide_password=False)),
            ],
            user=USER,
            check=True,
            cwd="/",
        )
        settings = {
            "port": str(port),
            "listen_addresses": HOST,
            "unix_socket_directories": "",
            "max_connections": "200",
            "fsync": "off",
            "hot_standby_feedback": "on",
            "wal_receiver_status_interval": "1s",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        command: list[str | Path] = [programs / "postgres", "-D", data, *options]
        with running(command, folder / "log", port, USER) as process:
            yield Standby(primary.set(port=port), primary, process)
