"""Folders, accounts and programs that the embedded server refuses, each with the remedy."""

import stat
import subprocess
from pathlib import Path

import pytest

from tests.warehouse_schema.embedded.looking import NEEDS_ROOT
from warehouse_schema.embedded import (
    BinariesNotFound,
    EmbeddedPostgres,
    FolderNotUsable,
    find_binaries,
)
from warehouse_schema.embedded.accounts import nobody


def test_lost_password_is_reported(home: Path) -> None:
    (home / "data.password").unlink()
    with pytest.raises(FolderNotUsable, match=r"data\.password is gone"):
        EmbeddedPostgres(home / "data").start()


def test_cluster_of_other_postgres_version_is_kept(folder: Path) -> None:
    (folder / "data").mkdir()
    (folder / "data" / "PG_VERSION").write_text("14\n")
    with pytest.raises(FolderNotUsable, match="made by Postgres 14"):
        EmbeddedPostgres(folder / "data").start()


def test_folder_with_other_files_is_kept(folder: Path) -> None:
    (folder / "photos").mkdir()
    (folder / "photos" / "cat.png").touch()
    with pytest.raises(FolderNotUsable, match="not a Postgres cluster"):
        EmbeddedPostgres(folder / "photos").start()
    assert [file.name for file in (folder / "photos").iterdir()] == ["cat.png"]


@NEEDS_ROOT
def test_root_error_names_the_inaccessible_folder(folder: Path) -> None:
    (folder / "closed").mkdir(mode=0o700)
    with pytest.raises(FolderNotUsable, match=r"enter \S+/closed\. Work in a folder"):
        EmbeddedPostgres(folder / "closed" / "state" / "data").start()
    assert stat.S_IMODE((folder / "closed").stat().st_mode) == 0o700


@NEEDS_ROOT
def test_root_error_names_the_folder_that_hides_programs(folder: Path) -> None:
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    subprocess.run(["cp", "-a", find_binaries().folder.parent, closed / "pg"], check=True)
    with pytest.raises(BinariesNotFound, match=r"enter \S+/closed on the way"):
        EmbeddedPostgres(folder / "data", bin_dir=closed / "pg" / "bin").start()


@NEEDS_ROOT
def test_root_changes_owner_of_the_data_folder_only(running: EmbeddedPostgres) -> None:
    state = running.data_dir.parent
    assert running.data_dir.stat().st_uid == nobody().uid
    assert {file.owner() for file in state.iterdir() if file != running.data_dir} == {"root"}
    assert state.owner() == "root"


@NEEDS_ROOT
def test_cluster_owned_by_root_is_refused_with_the_remedy(folder: Path) -> None:
    (folder / "data").mkdir()
    (folder / "data" / "PG_VERSION").write_text(f"{find_binaries().major}\n")
    with pytest.raises(FolderNotUsable, match=r"chown -R nobody \S+/data"):
        EmbeddedPostgres(folder / "data").start()


def test_missing_programs_are_named(folder: Path) -> None:
    with pytest.raises(BinariesNotFound, match="looked in: /nowhere"):
        EmbeddedPostgres(folder / "data", bin_dir=Path("/nowhere")).start()
