"""The embedded Postgres, with real servers: crashes, strangers' pids, races, and refusals.

A test that starts or breaks a server gets a copy (`home`) of one cluster made once; one that only
talks to a server shares `running`. All lie in folders that user ``nobody`` can reach, since
Postgres runs as that user when the tests run as root (pytest's own tmp_path is closed to it).
"""

import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from warehouse_schema import embedded
from warehouse_schema.embedded import EmbeddedPostgres, Server

ROOT = Path(__file__).resolve().parents[2]
IS_ROOT = os.geteuid() == 0
NEEDS_ROOT = pytest.mark.skipif(not IS_ROOT, reason="about what root does differently")
NEEDS_PROC = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")


def make_open_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="isthmus-embedded-"))
    folder.chmod(0o755)
    return folder


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder; the server in ``data``, if the test makes one, is stopped afterwards."""
    made = make_open_folder()
    try:
        yield made
        EmbeddedPostgres(made / "data").stop()
    finally:
        shutil.rmtree(made)


@pytest.fixture(scope="module")
def template() -> Iterator[Path]:
    """A folder with a stopped cluster in ``data`` and its password beside it."""
    made = make_open_folder()
    try:
        with EmbeddedPostgres(made / "data", durable=False):
            pass
        (made / "data.port").unlink()
        yield made
    finally:
        shutil.rmtree(made)


@pytest.fixture
def home(template: Path, folder: Path) -> Path:
    """A folder with a copy of the template, owners included."""
    subprocess.run(["cp", "-a", f"{template}/.", folder], check=True)
    return folder


@pytest.fixture(scope="module")
def running() -> Iterator[EmbeddedPostgres]:
    """A server for tests that only talk to it."""
    made = make_open_folder()
    try:
        postgres = EmbeddedPostgres(made / "state" / "data")
        with postgres:
            yield postgres
    finally:
        shutil.rmtree(made)


def ask(server: Server, statement: str) -> str:
    with psycopg.connect(server.url("postgres", "postgresql")) as connection:
        row = connection.execute(statement.encode()).fetchone()
    assert row is not None
    return str(row[0])


def make_acknowledged_row(server: Server, number: int) -> None:
    with psycopg.connect(server.url("postgres", "postgresql")) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS kept (number int)")
        connection.execute("INSERT INTO kept VALUES (%s)", (number,))


def postmaster_pid(home: Path) -> int:
    return int((home / "data" / "postmaster.pid").read_text().splitlines()[0])


def children_of(parent: int) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            after_name = (entry / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # It ended while we looked.
        if int(after_name[1]) == parent:
            found.append(int(entry.name))
    return found


def rename_pid(home: Path, pid: int) -> None:
    """Write `pid` into the pid file, keeping its other lines and its owner."""
    file = home / "data" / "postmaster.pid"
    _, *others = file.read_text().splitlines()
    file.write_text("\n".join([str(pid), *others]) + "\n")


def start_sleeper(uid: int | None) -> subprocess.Popen[bytes]:
    """A process that has nothing to do with Postgres, of user `uid` (None: ours)."""
    return subprocess.Popen(["sleep", "300"], cwd="/", user=uid)


def test_a_first_start_makes_a_cluster_with_our_settings(running: EmbeddedPostgres) -> None:
    server = running.status()
    assert server is not None
    expected = {
        "server_encoding": "UTF8",
        "data_checksums": "on",
        "fsync": "on",
        "full_page_writes": "on",
        "synchronous_commit": "on",
        "timezone": "UTC",
        "max_connections": "200",
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": "",
    }
    assert {name: ask(server, f"SHOW {name}") for name in expected} == expected
    assert stat.S_IMODE(running.password_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(running.log_file.stat().st_mode) == 0o600
    assert not running.data_dir.with_name("data.new").exists()


def test_a_first_start_that_was_killed_half_way_does_not_stop_the_next(folder: Path) -> None:
    (folder / "data.new" / "data").mkdir(parents=True)
    (folder / "data.new" / "data" / "PG_VERSION").write_text("18\n")
    (folder / "data.password").write_text("")
    with EmbeddedPostgres(folder / "data", durable=False) as server:
        assert ask(server, "SELECT 1") == "1"


def test_a_wrong_password_is_refused(running: EmbeddedPostgres) -> None:
    server = running.start()
    stranger = f"postgresql://isthmus:wrong@{server.host}:{server.port}/postgres"
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(stranger)


def test_the_password_shows_in_the_url_alone(running: EmbeddedPostgres) -> None:
    server = running.start()
    assert server.password in server.url("isthmus")
    assert server.password not in server.public_url("isthmus")
    assert server.password not in repr(server)
    assert running.url() == server.url("isthmus", "postgresql+psycopg")


def test_a_restart_keeps_data_and_port(home: Path) -> None:
    with EmbeddedPostgres(home / "data") as first:
        make_acknowledged_row(first, 7)
    with EmbeddedPostgres(home / "data") as second:
        assert second.started_here
        assert second.port == first.port
        assert ask(second, "SELECT number FROM kept") == "7"


def test_a_second_start_attaches_and_does_not_stop_what_it_did_not_start(
    running: EmbeddedPostgres,
) -> None:
    with EmbeddedPostgres(running.data_dir) as attached:
        assert not attached.started_here
    assert running.status() == attached


def test_a_stop_can_be_repeated(home: Path) -> None:
    postgres = EmbeddedPostgres(home / "data")
    postgres.start()
    assert postgres.stop()
    assert not postgres.stop()
    assert not EmbeddedPostgres(home / "never made").stop()


def test_a_stop_ends_open_sessions(home: Path) -> None:
    postgres = EmbeddedPostgres(home / "data")
    server = postgres.start()
    with psycopg.connect(server.url("postgres", "postgresql"), autocommit=True) as session:
        assert postgres.stop()
        with pytest.raises(psycopg.OperationalError):
            session.execute("SELECT 1")


def test_after_the_postmaster_is_killed_a_start_works_on_the_same_port(home: Path) -> None:
    postgres = EmbeddedPostgres(home / "data")
    first = postgres.start()
    make_acknowledged_row(first, 1)
    os.kill(postmaster_pid(home), signal.SIGKILL)
    second = postgres.start()
    assert second.started_here
    assert second.port == first.port
    assert ask(second, "SELECT count(*) FROM kept") == "1"


@NEEDS_PROC
def test_after_every_process_is_killed_the_acknowledged_rows_are_there(home: Path) -> None:
    postgres = EmbeddedPostgres(home / "data")
    server = postgres.start()
    for number in range(20):
        make_acknowledged_row(server, number)
    postmaster = postmaster_pid(home)
    children = children_of(postmaster)
    assert children
    for pid in [postmaster, *children]:
        os.kill(pid, signal.SIGKILL)
    again = postgres.start()
    assert again.started_here
    assert ask(again, "SELECT count(*) FROM kept") == "20"


@NEEDS_PROC
def test_a_start_waits_for_children_that_outlive_a_killed_postmaster(home: Path) -> None:
    postgres = EmbeddedPostgres(home / "data")
    server = postgres.start()
    postmaster = postmaster_pid(home)
    child = children_of(postmaster)[0]
    os.kill(child, signal.SIGSTOP)
    os.kill(postmaster, signal.SIGKILL)
    # The frozen child still holds the shared memory; it is let go only after a start has begun.
    with subprocess.Popen(["sh", "-c", f"sleep 1.5; kill -CONT {child}"]) as thaw:
        again = postgres.start()
    assert thaw.returncode == 0
    assert again.started_here
    assert again.port == server.port
    assert embedded._CHILDREN_REMAIN in postgres.log_file.read_text()


@pytest.mark.parametrize("stranger_of", ["us", "the server's account"])
def test_a_pid_file_that_names_a_live_stranger_does_not_stop_a_start(
    home: Path, stranger_of: str
) -> None:
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


def test_an_empty_pid_file_does_not_stop_a_start(home: Path) -> None:
    (home / "data" / "postmaster.pid").touch()
    assert EmbeddedPostgres(home / "data").start().started_here


def test_of_two_concurrent_starts_one_starts_and_the_other_attaches(home: Path) -> None:
    program = (
        "import sys, pathlib; from warehouse_schema.embedded import EmbeddedPostgres;"
        "server = EmbeddedPostgres(pathlib.Path(sys.argv[1])).start();"
        "print(server.started_here, server.port)"
    )
    command = [sys.executable, "-c", program, str(home / "data")]
    racers = [
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    answers = [racer.communicate(timeout=60)[0].split() for racer in racers]
    assert sorted(started for started, _ in answers) == ["False", "True"]
    assert len({port for _, port in answers}) == 1


def test_a_kept_port_that_went_to_somebody_else_is_replaced(home: Path) -> None:
    with socket.create_server((embedded.HOST, 0)) as somebody:
        taken = somebody.getsockname()[1]
        (home / "data.port").write_text(f"{taken}\n")
        with EmbeddedPostgres(home / "data") as server:
            assert server.port != taken
            assert (home / "data.port").read_text() == f"{server.port}\n"


def test_a_port_asked_for_that_is_taken_is_refused(home: Path) -> None:
    with socket.create_server((embedded.HOST, 0)) as somebody:
        taken = somebody.getsockname()[1]
        with pytest.raises(embedded.PortTaken, match=str(taken)):
            EmbeddedPostgres(home / "data", port=taken).start()


def test_a_server_that_is_not_durable_is_refused_to_those_who_need_it_so(home: Path) -> None:
    with EmbeddedPostgres(home / "data", durable=False) as server:
        assert ask(server, "SHOW fsync") == "off"
        with pytest.raises(embedded.FolderNotUsable, match="fsync"):
            EmbeddedPostgres(home / "data").start()


def test_a_start_that_cannot_succeed_says_why_at_once(home: Path) -> None:
    with (home / "data" / "postgresql.conf").open("a") as configuration:
        configuration.write("wal_compression = snake_oil\n")
    with pytest.raises(embedded.StartFailed, match="snake_oil"):
        EmbeddedPostgres(home / "data").start()


def test_a_lost_password_is_named(home: Path) -> None:
    (home / "data.password").unlink()
    with pytest.raises(embedded.FolderNotUsable, match=r"data\.password is gone"):
        EmbeddedPostgres(home / "data").start()


def test_a_cluster_of_another_postgres_is_left_alone(folder: Path) -> None:
    (folder / "data").mkdir()
    (folder / "data" / "PG_VERSION").write_text("14\n")
    with pytest.raises(embedded.FolderNotUsable, match="made by Postgres 14"):
        EmbeddedPostgres(folder / "data").start()


def test_a_folder_with_other_files_is_left_alone(folder: Path) -> None:
    (folder / "photos").mkdir()
    (folder / "photos" / "cat.png").touch()
    with pytest.raises(embedded.FolderNotUsable, match="not a Postgres cluster"):
        EmbeddedPostgres(folder / "photos").start()
    assert [file.name for file in (folder / "photos").iterdir()] == ["cat.png"]


@NEEDS_ROOT
def test_root_is_told_which_folder_the_server_cannot_enter(folder: Path) -> None:
    (folder / "closed").mkdir(mode=0o700)
    with pytest.raises(embedded.FolderNotUsable, match=r"enter \S+/closed\. Set ISTHMUS_HOME"):
        EmbeddedPostgres(folder / "closed" / "state" / "data").start()
    assert stat.S_IMODE((folder / "closed").stat().st_mode) == 0o700


@NEEDS_ROOT
def test_root_is_told_which_folder_hides_the_programs(folder: Path) -> None:
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    subprocess.run(["cp", "-a", embedded.find_binaries().folder.parent, closed / "pg"], check=True)
    with pytest.raises(embedded.BinariesNotFound, match=r"enter \S+/closed on the way"):
        EmbeddedPostgres(folder / "data", bin_dir=closed / "pg" / "bin").start()


@NEEDS_ROOT
def test_root_gives_away_the_data_folder_alone(running: EmbeddedPostgres) -> None:
    state = running.data_dir.parent
    assert running.data_dir.stat().st_uid == embedded._nobody().uid
    assert {file.owner() for file in state.iterdir() if file != running.data_dir} == {"root"}
    assert state.owner() == "root"


@NEEDS_ROOT
def test_a_cluster_that_belongs_to_root_is_refused_with_the_remedy(folder: Path) -> None:
    (folder / "data").mkdir()
    (folder / "data" / "PG_VERSION").write_text(f"{embedded.find_binaries().major}\n")
    with pytest.raises(embedded.FolderNotUsable, match=r"chown -R nobody \S+/data"):
        EmbeddedPostgres(folder / "data").start()


def test_programs_that_are_not_there_are_named(folder: Path) -> None:
    with pytest.raises(embedded.BinariesNotFound, match="looked in: /nowhere"):
        EmbeddedPostgres(folder / "data", bin_dir=Path("/nowhere")).start()


def test_a_database_is_created_once(running: EmbeddedPostgres) -> None:
    assert running.ensure_database('odd "name"')
    assert not running.ensure_database('odd "name"')
    with psycopg.connect(running.url('odd "name"', "postgresql")) as connection:
        assert connection.info.dbname == 'odd "name"'


def test_a_url_needs_a_running_server(folder: Path) -> None:
    with pytest.raises(embedded.NotRunning, match="Start it first"):
        EmbeddedPostgres(folder / "data").url()


def run_command(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "warehouse_schema.embedded", *words]
    # Captured output also proves that the server holds no pipe of its starter: this would hang.
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )


def test_the_command_line_starts_tells_and_stops(home: Path) -> None:
    data = ("--data", str(home / "data"))
    assert run_command("status", *data).returncode == 3
    started = run_command("start", *data)
    assert started.returncode == 0
    full = run_command("url", *data, "--scheme", "postgresql").stdout.strip()
    password = (home / "data.password").read_text()
    assert password in full
    assert password not in started.stdout
    assert run_command("status", *data).stdout == started.stdout
    with psycopg.connect(full) as connection:
        assert connection.info.dbname == "isthmus"
    assert run_command("stop", *data).stdout == "stopped\n"
    refused = run_command("url", *data)
    assert refused.returncode == 1
    assert refused.stderr.startswith("NotRunning: ")


@NEEDS_PROC
def test_a_ctrl_c_for_the_starter_does_not_reach_the_server(running: EmbeddedPostgres) -> None:
    postmaster = postmaster_pid(running.data_dir.parent)
    children = children_of(postmaster)
    assert children
    assert all(os.getpgid(pid) != os.getpgid(0) for pid in [postmaster, *children])
