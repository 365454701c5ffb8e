"""npm packages of a benchmark: a folder with a lock file, installed when it is first needed."""

import hashlib
import shutil
import subprocess
from pathlib import Path

from devnet.services import PROJECT

CACHE = PROJECT / ".cache" / "peers"
_INSTALL = ("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
_TIMEOUT_SECONDS = 900.0


class NotInstalled(Exception):
    """npm cannot install the packages of a folder; says why in one line."""


def install(source: Path, cache: Path = CACHE) -> Path:
    """A copy of the folder with its packages; kept until its lock file changes.

    Raises `NotInstalled`.
    """
    digest = hashlib.sha256((source / "package-lock.json").read_bytes()).hexdigest()
    folder = cache / f"{source.name}-{digest[:12]}"
    shutil.copytree(source, folder, dirs_exist_ok=True)
    done = folder / ".installed"
    if not done.exists():
        _run_npm(folder)
        done.touch()
    return folder


def _run_npm(folder: Path) -> None:
    try:
        ended = subprocess.run(
            _INSTALL, cwd=folder, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS
        )
    except FileNotFoundError as error:
        raise NotInstalled("npm is not on the PATH") from error
    except subprocess.TimeoutExpired as error:
        raise NotInstalled(f"npm ci had not ended after {_TIMEOUT_SECONDS:.0f} s") from error
    if ended.returncode:
        lines = [line.removeprefix("npm error").strip() for line in ended.stderr.splitlines()]
        reason = ": ".join([line for line in lines if line][:2]) or "no message"
        raise NotInstalled(f"npm ci ended with {ended.returncode}: {reason}")
