"""A primary and its standby, set up and promoted with the commands of docs/operations/failover.md.

Two clusters of Debian's Postgres on one machine, with one port on two loopback addresses: so the
page's commands need no port. Each runs as the user of Postgres.
"""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import LiteralString

import psycopg
from psycopg import sql

from devnet.supervisor import free_port
from tests.system.chaos.processes import await_death, children_of, kill

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "operations" / "failover.md"
PROGRAMS = Path("/usr/lib/postgresql/15/bin")
OWNER = "isthmus"
SECONDS = 120
"""Timeout of a block of commands, and of what it sets going."""
ACCOUNT = "postgres" if os.geteuid() == 0 else None
"""Postgres does not run as root."""
_POLL_SECONDS = 0.02


def blocks(language: str, section: str) -> list[str]:
    """Fenced blocks of a section of the page."""
    found = re.search(rf"^## {section}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.M | re.DOTALL)
    assert found is not None, section
    return re.findall(rf"^```{language}\n(.*?)^```", found[1], re.M | re.DOTALL)


@dataclass(frozen=True)
class Node:
    """One machine of the page: an address, and a folder in the place of Debian's."""

    folder: Path
    address: str
    port: int

    @property
    def data(self) -> Path:
        return self.folder / "main"

    def adapted(self, text: str) -> str:
        """A block of the page for this cluster instead of Debian's `main`."""
        options = (
            f"-c listen_addresses={self.address} -c port={self.port}"
            f" -c unix_socket_directories={self.folder}"
        )
        control = f"{PROGRAMS}/pg_ctl -w -D {self.data} -l {self.folder}/postgres.log"
        text = text.replace("pg_ctlcluster 15 main start", f"{control} -o '{options}' start")
        for command in ("stop", "promote"):
            text = text.replace(f"pg_ctlcluster 15 main {command}", f"{control} {command}")
        text = text.replace("/etc/postgresql/15/main", str(self.folder))
        # The doctor is run by the test, with the service's environment.
        text = re.sub(r"^isthmus .*$", "", text, flags=re.M)
        return text.replace("/var/lib/postgresql/15/main", str(self.data))

    def sh(self, block: str, env: Mapping[str, str] | None = None) -> str:
        """Run a block of the page on this machine; returns its output."""
        done = self.run(block, env)
        log = self.folder / "postgres.log"
        lines = log.read_text().splitlines()[-20:] if log.exists() else []
        assert done.returncode == 0, "\n".join((block, done.stdout, *lines))
        return done.stdout

    def run(
        self, block: str, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """The same, whatever its exit code."""
        own = {"PGHOST": str(self.folder), "PGPORT": str(self.port), "PGUSER": OWNER}
        return subprocess.run(
            ["bash", "-euc", self.adapted(block)],
            env={"PATH": f"{PROGRAMS}:{os.environ['PATH']}", "LANG": "C", **own, **(env or {})},
            cwd=self.folder,
            user=ACCOUNT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SECONDS,
            text=True,
        )

    def kill(self) -> int:
        """SIGKILL to the server and all of its processes at once; how many there were."""
        postmaster = int((self.data / "postmaster.pid").read_text().split()[0])
        assert str(self.data) in Path(f"/proc/{postmaster}/cmdline").read_text()
        victims = [postmaster, *children_of(postmaster)]
        killed = kill(victims)
        await_death(victims)
        # Postgres does not start while its last process id is in use, if only until init reaps it.
        deadline = time.monotonic() + SECONDS
        while Path(f"/proc/{postmaster}").exists():
            assert time.monotonic() < deadline, f"init does not reap {postmaster}"
            time.sleep(_POLL_SECONDS)
        return killed

    def connect(self, database: str = "postgres") -> psycopg.Connection:
        """A session of the superuser on this machine alone."""
        return psycopg.connect(
            host=self.address, port=self.port, user=OWNER, dbname=database, autocommit=True
        )

    def stop(self) -> None:
        """Stop the server where it runs."""
        if (self.data / "postmaster.pid").exists():
            self.run("pg_ctlcluster 15 main stop -m immediate")


@dataclass
class Pair:
    """Primary and standby; `primary` is the one that takes writes now."""

    primary: Node
    standby: Node

    def url(self, database: str) -> str:
        """libpq URL that names both, the first machine first whichever is the primary."""
        hosts = ",".join(
            f"{each.address}:{each.port}"
            for each in sorted((self.primary, self.standby), key=lambda node: node.address)
        )
        return f"postgresql://{OWNER}@{hosts}/{database}?target_session_attrs=read-write"

    def execute(self, statement: LiteralString, *names: str) -> None:
        """Run a statement as the owner, with names quoted in the places of `{}`."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))

    def start(self) -> None:
        """Start the primary."""
        self.primary.sh("pg_ctlcluster 15 main start")

    def kill_all(self) -> int:
        """Kill the primary."""
        return self.primary.kill()

    def make_standby(self) -> None:
        """The page's section, up to commits that wait for the standby."""
        make, look, wait = blocks("sh", "Make a standby")
        self.standby.sh(make, {"PRIMARY": self.primary.address})
        deadline = time.monotonic() + SECONDS
        while "|streaming|" not in self.primary.sh(look):
            assert time.monotonic() < deadline, "the standby does not stream"
            time.sleep(_POLL_SECONDS)
        self.primary.sh(wait)
        self.await_sync()

    def await_sync(self) -> None:
        """Until commits wait for the standby."""
        query = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
        deadline = time.monotonic() + SECONDS
        with self.primary.connect() as connection:
            while connection.execute(query).fetchone() != (1,):
                assert time.monotonic() < deadline, "no synchronous standby"
                time.sleep(_POLL_SECONDS)

    def promote(self, *, fence: bool = True) -> None:
        """The page's section: fence the primary, promote the standby."""
        fencing, promotion = blocks("sh", "Promote")
        if fence:
            self.primary.sh(fencing)
        self.standby.sh(promotion)
        self.primary, self.standby = self.standby, self.primary


@contextmanager
def running_pair(folder: Path) -> Iterator[Pair]:
    """A primary and a synchronous standby under a folder, stopped afterwards."""
    assert (PROGRAMS / "initdb").exists(), f"no {PROGRAMS}/initdb: install Debian's postgresql"
    port = free_port()
    nodes = [Node(folder / name, address, port) for name, address in _ADDRESSES]
    for node in nodes:
        node.folder.mkdir()
        node.folder.chmod(0o755)
        if ACCOUNT is not None:
            shutil.chown(node.folder, ACCOUNT)
    first, second = nodes
    first.sh(f"initdb -U {OWNER} --auth=trust -D {first.data} --encoding=UTF8 >/dev/null")
    with (first.data / "pg_hba.conf").open("a") as access:
        access.write("host all all 127.0.0.0/8 trust\nhost replication all 127.0.0.0/8 trust\n")
    second.data.mkdir()
    if ACCOUNT is not None:
        shutil.chown(second.data, ACCOUNT)
    try:
        first.sh("pg_ctlcluster 15 main start")
        [settings] = blocks("sql", "Settings of both machines")
        with first.connect() as connection:
            for statement in filter(str.strip, settings.split(";")):
                connection.execute(statement.encode())
        pair = Pair(first, second)
        pair.make_standby()
        yield pair
    finally:
        for node in nodes:
            node.stop()


_ADDRESSES = (("one", "127.0.0.2"), ("two", "127.0.0.3"))
