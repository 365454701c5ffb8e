"""The npm packages of the benchmarks beside peers: their lock files, and what hinders npm."""

import re
from pathlib import Path

import pytest

from tests.system.bench.npm_project import NotInstalled, install

PEERS = Path(__file__).parent / "bench" / "peers"
NAMES = ("ponder", "subsquid")


@pytest.fixture
def npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only program on the PATH; the file is to be written."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder / "npm"


@pytest.mark.parametrize("name", NAMES)
def test_lock_file_pins_packages_without_a_registry(name: str) -> None:
    lock = (PEERS / name / "package-lock.json").read_text()
    assert lock.count('"integrity"') > 100
    assert "resolved" not in lock
    manifest = (PEERS / name / "package.json").read_text()
    versions = re.findall(r'^    "\S+": "(.*)"', manifest, re.MULTILINE)
    assert versions
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in versions)


def test_missing_npm_is_named(npm: Path, tmp_path: Path) -> None:
    assert not npm.exists()
    with pytest.raises(NotInstalled, match="npm is not on the PATH"):
        install(PEERS / "subsquid", tmp_path / "cache")


def test_failure_of_npm_is_told_and_tried_again(npm: Path, tmp_path: Path) -> None:
    write_program(npm, "echo 'npm error code E404\nnpm error\nnpm error 404 Not Found' >&2; exit 1")
    for _ in range(2):
        with pytest.raises(NotInstalled, match="npm ci ended with 1: code E404: 404 Not Found"):
            install(PEERS / "subsquid", tmp_path / "cache")


def test_packages_are_installed_once(npm: Path, tmp_path: Path) -> None:
    write_program(npm, "echo ran >> runs")
    folders = {install(PEERS / "subsquid", tmp_path / "cache") for _ in range(2)}
    (folder,) = folders
    assert (folder / "runs").read_text() == "ran\n"
    assert (folder / "lib" / "main.js").exists()


def write_program(path: Path, lines: str) -> None:
    path.write_text(f"#!/bin/sh\n{lines}\n")
    path.chmod(0o755)
