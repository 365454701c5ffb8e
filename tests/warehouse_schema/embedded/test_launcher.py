"""Start, attach and stop of embedded servers, alone and concurrently."""

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from devnet.services import isthmus
from tests.warehouse_schema.embedded.looking import (
    NEEDS_PROC,
    ask,
    children_of,
    make_acknowledged_row,
    postmaster_pid,
)
from warehouse_schema.embedded import (
    HOST,
    EmbeddedPostgres,
    FolderNotUsable,
    NotRunning,
    PortTaken,
    StartFailed,
)

ROOT = Path(__file__).resolve().parents[3]


def test_first_start_makes_a_cluster_with_our_settings(running: EmbeddedPostgres) -> None:
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
    assert stat.S_IMODE(running.places.password_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(running.places.log_file.stat().st_mode) == 0o600
    assert not running.data_dir.with_name("data.new").exists()


def test_wrong_password_is_refused(running: EmbeddedPostgres) -> None:
    server = running.start()
    stranger = f"postgresql://isthmus:wrong@{HOST}:{server.port}/postgres"
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(stranger)


def test_password_is_in_the_full_url_only(running: EmbeddedPostgres) -> None:
    server = running.start()
    assert server.password in server.url("isthmus")
    assert server.password not in server.public_url("isthmus")
    assert server.password not in repr(server)
    assert running.url() == server.url("isthmus", "postgresql+psycopg")


def test_restart_keeps_data_and_port(home: Path) -> None:
    with EmbeddedPostgres(home / "data") as first:
        make_acknowledged_row(first, 7)
    with EmbeddedPostgres(home / "data") as second:
        assert second.started_here
        assert second.port == first.port
        assert ask(second, "SELECT number FROM kept") == "7"


def test_second_start_attaches_and_does_not_stop_the_server(
    running: EmbeddedPostgres,
) -> None:
    with EmbeddedPostgres(running.data_dir) as attached:
        assert not attached.started_here
    assert running.status() == attached


def test_stop_can_be_repeated(home: Path) -> None:
    postgres = EmbeddedPostgres(home / "data")
    postgres.start()
    assert postgres.stop()
    assert not postgres.stop()
    assert not EmbeddedPostgres(home / "never made").stop()


def test_stop_ends_open_sessions(home: Path) -> None:
    postgres = EmbeddedPostgres(home / "data")
    server = postgres.start()
    with psycopg.connect(server.url("postgres", "postgresql"), autocommit=True) as session:
        assert postgres.stop()
        with pytest.raises(psycopg.OperationalError):
            session.execute("SELECT 1")


def test_concurrent_starts_start_one_server(home: Path) -> None:
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


def test_recorded_port_in_use_is_replaced(home: Path) -> None:
    with socket.create_server((HOST, 0)) as somebody:
        taken = somebody.getsockname()[1]
        (home / "data.port").write_text(f"{taken}\n")
        with EmbeddedPostgres(home / "data") as server:
            assert server.port != taken
            assert (home / "data.port").read_text() == f"{server.port}\n"


def test_requested_port_in_use_is_refused(home: Path) -> None:
    with socket.create_server((HOST, 0)) as somebody:
        taken = somebody.getsockname()[1]
        with pytest.raises(PortTaken, match=str(taken)):
            EmbeddedPostgres(home / "data", port=taken).start()


def test_durable_start_refuses_a_server_without_fsync(home: Path) -> None:
    with EmbeddedPostgres(home / "data", durable=False) as server:
        assert ask(server, "SHOW fsync") == "off"
        with pytest.raises(FolderNotUsable, match="fsync"):
            EmbeddedPostgres(home / "data").start()


def test_start_that_cannot_succeed_fails_at_once(home: Path) -> None:
    with (home / "data" / "postgresql.conf").open("a") as configuration:
        configuration.write("wal_compression = snake_oil\n")
    with pytest.raises(StartFailed, match="snake_oil"):
        EmbeddedPostgres(home / "data").start()


def test_database_is_created_once(running: EmbeddedPostgres) -> None:
    assert running.ensure_database('odd "name"')
    assert not running.ensure_database('odd "name"')
    with psycopg.connect(running.url('odd "name"', "postgresql")) as connection:
        assert connection.info.dbname == 'odd "name"'


def test_url_needs_a_running_server(folder: Path) -> None:
    with pytest.raises(NotRunning, match="Start it first"):
        EmbeddedPostgres(folder / "data").url()


def run_command(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = isthmus("database", *words)
    # Captured output also proves that the server holds no pipe of its starter: this would hang.
    return subprocess.run(
        command, cwd=ROOT, input=stdin, capture_output=True, text=True, timeout=60, check=False
    )


def test_cli_starts_reports_and_stops_the_server(home: Path) -> None:
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
    asked = run_command("psql", *data, stdin="SELECT current_user || '@' || current_database()")
    assert "isthmus@isthmus" in asked.stdout
    assert asked.returncode == 0
    assert run_command("psql", *data, "-Atc", "SELECT 6 * 7").stdout == "42\n"
    assert run_command("status", *data, "-c", "x").returncode == 2, "no argument of this command"
    assert run_command("stop", *data).stdout == "stopped\n"
    for command in ("url", "psql"):
        refused = run_command(command, *data)
        assert refused.returncode == 1
        assert refused.stderr.startswith("NotRunning: ")


@NEEDS_PROC
def test_ctrl_c_of_the_starter_does_not_reach_the_server(running: EmbeddedPostgres) -> None:
    postmaster = postmaster_pid(running.data_dir.parent)
    children = children_of(postmaster)
    assert children
    assert all(os.getpgid(pid) != os.getpgid(0) for pid in [postmaster, *children])
