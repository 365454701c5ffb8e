"""A primary and its synchronous standby on hosts of their own, as operations/failover.md has it.

Its commands are for Debian's clusters; what they do is done here to servers of the fleet.
"""

import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psycopg
from sqlalchemy.engine import URL, make_url

from tests.system.fleet.hosts import NETWORK, Host
from tests.system.fleet.programs import FleetFailed, Program, wait_for
from warehouse_schema.embedded import find_binaries
from warehouse_schema.embedded.accounts import nobody
from warehouse_schema.migrate import migrate

PORT = 5432
DATABASE = "isthmus"
_OWNER = "isthmus"
_STANDBY = "isthmus_standby"
"""Name and slot of a standby that commits wait for."""
_SETTINGS = {
    "port": str(PORT),
    "unix_socket_directories": "",
    "max_connections": "400",
    "shared_buffers": "256MB",
    "jit": "off",
    "timezone": "UTC",
    "wal_level": "replica",
    "hot_standby": "on",
    "max_wal_senders": "10",
    "max_slot_wal_keep_size": "20GB",
    "recovery_init_sync_method": "syncfs",
}
"""Durable, as an operator's: fsync and synchronous_commit are on."""


@dataclass
class Postgres:
    """One server and its data folder."""

    host: Host
    data: Path
    password: str
    program: Program

    @property
    def url(self) -> URL:
        """The warehouse's, as its owner."""
        return make_url(
            f"postgresql+psycopg://{_OWNER}:{self.password}@{self.host.address}:{PORT}/{DATABASE}"
        )

    def start(self) -> None:
        """Return once it accepts connections."""
        self.program.start()
        self.program.await_ready(self.answers)

    def answers(self) -> bool:
        """Whether it accepts a session."""
        try:
            self.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """Run a statement as the owner of everything. Raises `psycopg.Error`."""
        with psycopg.connect(
            host=self.host.address,
            port=PORT,
            user=_OWNER,
            password=self.password,
            dbname=database,
            autocommit=True,
            connect_timeout=2,
        ) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []


def create_primary(host: Host, folder: Path) -> Postgres:
    """A server with a migrated warehouse, which runs."""
    password = secrets.token_urlsafe(16)
    server = _server(host, folder, password)
    secret = folder / "password"
    secret.write_text(password)
    os.chown(secret, nobody().uid, nobody().gid)
    _run(
        "initdb", "-D", str(server.data), "-U", _OWNER, f"--pwfile={secret}",
        "--auth=scram-sha-256", "--encoding=UTF8", "--data-checksums", "--no-instructions",
        "--locale=C",
    )  # fmt: skip
    secret.unlink()
    lines = [f"host {what} all {NETWORK} scram-sha-256" for what in ("all", "replication")]
    (server.data / "pg_hba.conf").write_text("\n".join([*lines, ""]))
    server.start()
    server.execute(f"CREATE DATABASE {DATABASE}")
    migrate(server.url)
    return server


def create_standby(primary: Postgres, host: Host, folder: Path) -> Postgres:
    """A standby of a server, which runs and which commits wait for."""
    server = _server(host, folder, primary.password)
    source = (
        f"host={primary.host.address} port={PORT} user={_OWNER} password={primary.password}"
        f" application_name={_STANDBY}"
    )
    _run(
        "pg_basebackup", "-D", str(server.data), "-d", source, "-R", "-C", "-S", _STANDBY,
        "--checkpoint=fast",
    )  # fmt: skip
    server.start()
    primary.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{_STANDBY}'")
    primary.execute("SELECT pg_reload_conf()")
    wait_for("the standby is synchronous", lambda: is_synchronous(primary))
    return server


def is_synchronous(primary: Postgres) -> bool:
    """Whether commits wait for a standby that is there."""
    query = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
    return primary.execute(query) == [(1,)]


def promote(standby: Postgres) -> None:
    """Make it the primary. The old one must not run."""
    standby.execute("ALTER SYSTEM SET synchronous_standby_names = ''")
    standby.execute("SELECT pg_promote()")
    standby.execute("SELECT pg_reload_conf()")


def do_not_wait_for_standby(primary: Postgres) -> None:
    """Let commits return before a standby has them."""
    primary.execute("ALTER SYSTEM SET synchronous_standby_names = ''")
    primary.execute("SELECT pg_reload_conf()")


def read_write_url(servers: Sequence[Postgres]) -> str:
    """URL of whichever of these servers takes writes."""
    first = servers[0]
    hosts = ",".join(f"{each.host.address}:{PORT}" for each in servers)
    return (
        f"postgresql://{_OWNER}:{first.password}@{hosts}/{DATABASE}?target_session_attrs=read-write"
    )


def _server(host: Host, folder: Path, password: str) -> Postgres:
    folder.mkdir()
    account = nobody()
    os.chown(folder, account.uid, account.gid)
    data = folder / "data"
    words = [str(find_binaries().folder / "postgres"), "-D", str(data)]
    settings = {"listen_addresses": host.address, **_SETTINGS}
    words += [f"--{name}={value}" for name, value in settings.items()]
    program = Program(f"postgres on {host.name}", words, folder / "log", host, user=account.name)
    return Postgres(host, data, password, program)


def _run(*words: str) -> None:
    done = find_binaries().run(nobody(), *words)
    if done.returncode != 0:
        raise FleetFailed(f"{words[0]}: {done.stdout.strip()}")
