"""Prerequisite checks of `make setup`."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
TOOLS = ("bash", "env", "test", "make", "dirname", "uname")


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A fresh clone beside a `bin` folder with what the PATH has: all but node and npm."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in TOOLS:
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    (folder / "python3").symlink_to(sys._base_executable)  # type: ignore[attr-defined]
    clone = tmp_path / "clone"
    script = clone / "devnet" / "prerequisites.py"
    script.parent.mkdir(parents=True)
    shutil.copy(PROJECT / "Makefile", clone)
    shutil.copy(PROJECT / "devnet" / "prerequisites.py", script)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(PROJECT / name, clone)
    shutil.copytree(PROJECT / "requirements", clone / "requirements")
    return tmp_path


def set_up(machine: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(machine / "bin" / "make"), "setup"],
        cwd=machine / "clone",
        env={"PATH": str(machine / "bin"), "HOME": str(machine), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def put(machine: Path, name: str, says: str) -> None:
    program = machine / "bin" / name
    program.write_text(f"#!/usr/bin/env bash\necho {says}\n")
    program.chmod(0o755)


def test_all_missing_prerequisites_are_listed_first(machine: Path) -> None:
    ended = set_up(machine)
    assert ended.returncode != 0
    assert "Node.js 20 or newer is missing" in ended.stderr
    assert "npm is missing" in ended.stderr
    assert not (machine / "clone" / ".venv").exists()


def test_old_node_is_reported_with_its_version(machine: Path) -> None:
    put(machine, "node", "v18.19.0")
    put(machine, "npm", "9")
    ended = set_up(machine)
    assert ended.returncode != 0
    assert f"{machine}/bin/node is v18.19.0" in ended.stderr
    assert "npm is missing" not in ended.stderr


def test_old_python_is_reported_with_its_version(machine: Path) -> None:
    code = (
        "import sys; sys.version_info = (3, 9, 2); sys.path.insert(0, 'devnet');"
        "import prerequisites; print(list(prerequisites.missing('.')))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    assert "Python 3.11 or newer is needed, this is 3.9: set PYTHON." in ended.stdout


def test_caches_are_in_project_folder_if_home_is_read_only(machine: Path) -> None:
    command = [
        "make",
        "--eval",
        "caches: ; @echo $${npm_config_cache:-} $${UV_CACHE_DIR:-}",
        "caches",
    ]
    for home, inside in (("/proc", True), (str(machine), False)):
        output = subprocess.run(
            command,
            cwd=machine / "clone",
            env={"PATH": os.environ["PATH"], "HOME": home},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        folder = machine / "clone" / ".cache"
        assert output == ([str(folder / "npm"), str(folder / "uv")] if inside else [])
