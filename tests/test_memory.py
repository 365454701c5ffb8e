"""Folder of the test servers' files."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests import memory
from tests.memory import server_folder


@pytest.fixture
def roomy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for the memory's folder."""
    monkeypatch.setattr(memory, "ROOM", 0)
    return tmp_path


def test_files_are_in_memory_and_deleted_afterwards(roomy: Path) -> None:
    with server_folder("x", roomy) as folder:
        (folder / "data").touch()
        assert folder.parent == roomy
        assert folder.stat().st_mode & 0o777 == 0o755
    assert list(roomy.iterdir()) == []


def test_files_are_on_disk_if_memory_is_full(roomy: Path) -> None:
    free = shutil.disk_usage(roomy).free
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "ROOM", free * 2)
        with server_folder("x", roomy) as folder:
            assert folder.parent != roomy


def test_files_are_on_disk_without_a_memory_folder(roomy: Path) -> None:
    with server_folder("x", roomy / "none") as folder:
        assert folder.parent != roomy / "none"
        assert folder.is_dir()


def test_sweep_deletes_files_of_killed_tests_only(roomy: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    left = roomy / f"isthmus-tests-{ended.pid}-ab_1"
    used = roomy / f"isthmus-tests-{os.getpid()}-ab_1"
    foreign = roomy / f"another-{ended.pid}-ab_1"
    for folder in (left, used, foreign):
        (folder / "data").mkdir(parents=True)
    with server_folder("x", roomy):
        assert not left.exists()
        assert used.exists()
        assert foreign.exists()
