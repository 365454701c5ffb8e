"""A Postgres of Debian that pgBackRest backs up, with the commands of docs/operations/backup.md."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from devnet.supervisor import free_port

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "operations" / "backup.md"
PROGRAMS = Path("/usr/lib/postgresql/15/bin")
SECONDS = 60
ACCOUNT = "postgres" if os.geteuid() == 0 else None
"""Postgres does not run as root."""


def blocks(language: str, section: str) -> list[str]:
    """Fenced blocks of a section of the page."""
    text = PAGE.read_text()
    found = re.search(rf"^## {section}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found is not None, section
    return re.findall(rf"^```{language}\n(.*?)^```", found[1], re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Cluster:
    """A cluster in a folder, with the page's paths replaced by it."""

    folder: Path
    port: int

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def url(self) -> str:
        return f"postgresql+psycopg://isthmus@127.0.0.1:{self.port}/isthmus"

    def adapted(self, text: str) -> str:
        """A block of the page for this cluster instead of Debian's `main`."""
        control = f"{PROGRAMS}/pg_ctl -w -D {self.data} -l {self.folder}/postgres.log"
        for command in ("start", "stop", "restart"):
            text = text.replace(f"pg_ctlcluster 15 main {command}", f"{control} {command}")
        return text.replace("/var/lib/postgresql/15/main", str(self.data)).replace(
            "/var/lib/pgbackrest", f"{self.folder}/repository"
        )

    def sh(self, block: str, env: Mapping[str, str] | None = None) -> str:
        """Run a block of the page as the user of Postgres; returns its output."""
        names = {"CONFIG": "pgbackrest.conf", "LOG_PATH": "log", "LOCK_PATH": "lock"}
        own = {f"PGBACKREST_{name}": f"{self.folder}/{file}" for name, file in names.items()}
        done = subprocess.run(
            ["bash", "-euc", self.adapted(block)],
            env={"PATH": os.environ["PATH"], **own, **(env or {})},
            cwd=self.folder,
            user=ACCOUNT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SECONDS,
            text=True,
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}"
        return done.stdout

    def sql(self, statements: str, database: str = "postgres") -> None:
        """Run statements as the superuser, each by itself."""
        program = [str(PROGRAMS / "psql"), "-qX", "-v", "ON_ERROR_STOP=1"]
        place = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "isthmus", database]
        subprocess.run([*program, *place], input=statements, text=True, check=True)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A running cluster, configured as the page says, without a backup."""
    for program in (PROGRAMS / "initdb", Path("/usr/bin/pgbackrest")):
        if not program.exists():
            pytest.fail(f"no {program}: install Debian's postgresql and pgbackrest")
    with tempfile.TemporaryDirectory(prefix="isthmus-restore-", dir="/var/tmp") as name:
        made = Cluster(Path(name), free_port())
        (made.folder / "log").mkdir()
        if ACCOUNT is not None:
            shutil.chown(made.folder, ACCOUNT)
            shutil.chown(made.folder / "log", ACCOUNT)
        [config] = blocks("ini", "Configuration")
        (made.folder / "pgbackrest.conf").write_text(
            made.adapted(config) + f"pg1-port={made.port}\npg1-socket-path={name}\n"
            "pg1-user=isthmus\n"
        )
        made.sh(f"{PROGRAMS}/initdb -U isthmus --auth=trust -D {made.data} --encoding=UTF8")
        with (made.data / "postgresql.conf").open("a") as settings:
            settings.write(f"port = {made.port}\nunix_socket_directories = '{name}'\n")
        made.sh("pg_ctlcluster 15 main start")
        try:
            [settings_of_archive] = blocks("sql", "Configuration")
            made.sql(settings_of_archive)
            made.sh(blocks("sh", "Configuration")[1])
            yield made
        finally:
            if (made.data / "postmaster.pid").exists():
                made.sh("pg_ctlcluster 15 main stop -m immediate")
