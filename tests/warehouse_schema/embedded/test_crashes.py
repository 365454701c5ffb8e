"""Start of the embedded server after crashes."""

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tests.warehouse_schema.embedded.looking import (
    NEEDS_PROC,
    ask,
    children_of,
    make_acknowledged_row,
    postmaster_pid,
)
from warehouse_schema.embedded import EmbeddedPostgres
from warehouse_schema.embedded.launcher import CHILDREN_REMAIN


def rename_pid(home: Path, pid: int) -> None:
    """Write `pid` into the pid file, keeping its other lines and its owner."""
    file = home / "data" / "postmaster.pid"
    _, *others = file.read_text().splitlines()
    file.write_text("\n".join([str(pid), *others]) + "\n")


def orphan(home: Path) -> int:
    """Kill the server; a child of it that is frozen, and notices nothing."""
    postmaster = postmaster_pid(home)
    child = children_of(postmaster)[0]
    os.kill(child, signal.SIGSTOP)
    os.kill(postmaster, signal.SIGKILL)
    return child


def start_sleeper(uid: int | None) -> subprocess.Popen[bytes]:
    """A process that has nothing to do with Postgres, of user `uid` (None: ours)."""
    return subprocess.Popen(["sleep", "300"], cwd="/", user=uid)


def test_start_after_a_killed_first_start_works(folder: Path) -> None:
    (folder / "data.new" / "data").mkdir(parents=True)
    (folder / "data.new" / "data" / "PG_VERSION").write_text("18\n")
    (folder / "data.password").write_text("")
    with EmbeddedPostgres(folder / "data", durable=False) as server:
        assert ask(server, "SELECT 1") == "1"


def test_start_after_killed_postmaster_keeps_the_port(home: Path) -> None:
    postgres = EmbeddedPostgres(home / "data")
    first = postgres.start()
    make_acknowledged_row(first, 1)
    os.kill(postmaster_pid(home), signal.SIGKILL)
    second = postgres.start()
    assert second.started_here
    assert second.port == first.port
    assert ask(second, "SELECT count(*) FROM kept") == "1"


@NEEDS_PROC
def test_acknowledged_rows_survive_killing_every_process(home: Path) -> None:
    postgres = EmbeddedPostgres(home / "data")
    server = postgres.start()
    for number in range(20):
        make_acknowledged_row(server, number)
    postmaster = postmaster_pid(home)
    children = children_of(postmaster)
    assert children
    for pid in [postmaster, *children]:
        # A child may notice that its server is dead before it is killed itself.
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    again = postgres.start()
    assert again.started_here
    assert ask(again, "SELECT count(*) FROM kept") == "20"


@NEEDS_PROC
def test_start_waits_for_children_of_a_killed_postmaster(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warehouse_schema.embedded.launcher._ORPHAN_TIMEOUT", 60)
    postgres = EmbeddedPostgres(home / "data")
    server = postgres.start()
    child = orphan(home)
    # It still holds the shared memory; it is let go only after a start has begun.
    has_begun = f"grep -q '{CHILDREN_REMAIN}' '{postgres.places.log_file}'"
    thaw_once = f"{has_begun} && exec kill -CONT {child}"
    thawing = f"for _ in $(seq 1200); do {thaw_once}; sleep 0.05; done; exit 1"
    with subprocess.Popen(["sh", "-c", thawing]) as thaw:
        again = postgres.start()
    assert thaw.returncode == 0
    assert again.started_here
    assert again.port == server.port
    assert CHILDREN_REMAIN in postgres.places.log_file.read_text()


@NEEDS_PROC
def test_child_that_never_exits_is_ended(home: Path) -> None:
    postgres = EmbeddedPostgres(home / "data")
    server = postgres.start()
    child = orphan(home)
    again = postgres.start()
    assert (again.started_here, again.port) == (True, server.port)
    assert not Path(f"/proc/{child}/exe").exists()
    assert CHILDREN_REMAIN in postgres.places.log_file.read_text()


@pytest.mark.parametrize("stranger_of", ["us", "the server's account"])
def test_pid_file_of_unrelated_process_does_not_stop_a_start(home: Path, stranger_of: str) -> None:
    postgres = EmbeddedPostgres(home / "data")
    postgres.start()
    os.kill(postmaster_pid(home), signal.SIGKILL)
    uid = (home / "data").stat().st_uid if stranger_of == "the server's account" else None
    with start_sleeper(uid) as stranger:
        rename_pid(home, stranger.pid)
        try:
            assert postgres.status() is None
            assert not postgres.stop()
            assert stranger.poll() is None
            assert postgres.start().started_here
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_empty_pid_file_does_not_stop_a_start(home: Path) -> None:
    (home / "data" / "postmaster.pid").touch()
    assert EmbeddedPostgres(home / "data").start().started_here
