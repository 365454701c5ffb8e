"""Checks of Postgres: a server as an operator runs it, and one fault after the other on it."""

import os
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, NullPool, create_engine, text
from sqlalchemy.engine import URL, make_url

from indexer.config.settings import Settings, load_settings
from indexer.doctor.checks import CheckResult, DoctorContext
from indexer.doctor.connections import API_WORKER, DAGSTER_PROCESS, MAX_API_WORKERS
from indexer.doctor.postgres import GROUP, TESTED_SERVER, check_clock, check_postgres
from indexer.doctor.postgres_storage import check_disk, check_replication, check_synchronous
from tests.memory import server_folder
from warehouse_schema.embedded import EmbeddedPostgres
from warehouse_schema.engine import warehouse_url
from warehouse_schema.identifiers import ChainId
from warehouse_schema.migrate import migrate

TESTNET = {
    "ISTHMUS_NETWORK": "testnet",
    "ISTHMUS_RPC_STELLAR_TESTNET": "http://127.0.0.1:1",
    "ISTHMUS_START_STELLAR_TESTNET": "1",
    "ISTHMUS_RPC_EIP155_84532": "http://127.0.0.1:1",
    "ISTHMUS_START_EIP155_84532": "1",
}


@pytest.fixture(scope="module")
def operated() -> Iterator[EmbeddedPostgres]:
    """A durable server that archives its WAL."""
    with server_folder("doctor") as folder:
        server = EmbeddedPostgres(folder / "data")
        with server as first:
            run(first.url("postgres"), "ALTER SYSTEM SET archive_mode = on")
            run(first.url("postgres"), "ALTER SYSTEM SET archive_command = '/bin/true'")
        with server as started:
            migrate(make_url(started.url()))
            yield server


@pytest.fixture
def url(operated: EmbeddedPostgres) -> URL:
    """Its warehouse, once all WAL of the test before is in the archive."""
    archived(operated, fails=False)
    return make_url(operated.url())


def run(url: str | URL, *statements: str) -> None:
    engine = create_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as conn:
        for statement in statements:
            conn.execute(text(statement))


def archived(server: EmbeddedPostgres, *, fails: bool) -> None:
    """Wait until the archiver has succeeded, or failed, with a WAL file of now."""
    engine = create_engine(server.url("postgres"), poolclass=NullPool, isolation_level="AUTOCOMMIT")
    done = "last_failed_time" if fails else "last_archived_time"
    query = text(f"SELECT {done} > :since FROM pg_stat_archiver")
    deadline = time.monotonic() + 60
    with engine.connect() as conn:
        since = conn.scalar(text("SELECT clock_timestamp()"))
        conn.execute(text("SELECT pg_logical_emit_message(true, 'test', 'x'), pg_switch_wal()"))
        while not conn.scalar(query, {"since": since}):
            assert time.monotonic() < deadline, "the archiver does nothing"
            time.sleep(0.01)


def settings_for(url: URL, **changes: str) -> Settings:
    text = url.render_as_string(hide_password=False)
    return load_settings({**TESTNET, "DATABASE_URL": text, **changes})


def results(url: URL) -> list[CheckResult]:
    return list(check_postgres(DoctorContext(settings_for(url))))


def faults(found: Sequence[CheckResult]) -> Mapping[str, str]:
    """Check → problem of all that is not well."""
    return {each.check: each.problem for each in found if each.is_finding}


def test_server_as_it_must_be_gives_no_finding(url: URL) -> None:
    found = results(url)
    assert faults(found) == {}
    assert {each.check for each in found} == {check.id for check in GROUP.checks}
    password = url.password
    assert password is not None
    assert not any(password in repr(each) for each in found)


def test_tested_version_is_the_suites(url: URL) -> None:
    with connected(url) as conn:
        assert int(conn.scalar(text("SHOW server_version_num"))) // 10_000 == TESTED_SERVER


PLANTED: Mapping[str, tuple[str, str, str, str]] = {
    "old-grants-removed": (
        "REVOKE SELECT ON facts.blocks FROM isthmus_api",
        "GRANT SELECT ON facts.blocks TO isthmus_api",
        *("grants", "isthmus_api lacks SELECT on facts.blocks"),
    ),
    "role-may-log-in": (
        *("ALTER ROLE isthmus_relay LOGIN", "ALTER ROLE isthmus_relay NOLOGIN"),
        *("roles", "isthmus_relay may log in"),
    ),
    "role-in-another": (
        "GRANT isthmus_relay TO isthmus_api",
        "REVOKE isthmus_relay FROM isthmus_api",
        *("roles", "isthmus_api is a member of isthmus_relay"),
    ),
    "older-revision": (
        "UPDATE isthmus.alembic_version SET version_num = 'old' || version_num",
        "UPDATE isthmus.alembic_version SET version_num = substr(version_num, 4)",
        *("migrations", "the tables are at revision old"),
    ),
    "local-time": (
        "ALTER DATABASE isthmus SET timezone = 'Europe/Berlin'",
        "ALTER DATABASE isthmus RESET timezone",
        *("time_zone", "Europe/Berlin"),
    ),
    "commits-are-not-flushed": (
        "ALTER DATABASE isthmus SET synchronous_commit = off",
        "ALTER DATABASE isthmus RESET synchronous_commit",
        *("durability", "off: synchronous_commit"),
    ),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_planted_fault_is_the_only_finding(url: URL, fault: str) -> None:
    plant, undo, check, words = PLANTED[fault]
    run(url, plant)
    try:
        found = faults(results(url))
    finally:
        run(url, undo)
    assert list(found) == [f"postgres.{check}"]
    assert words in found[f"postgres.{check}"]


def test_failing_archive_is_found(operated: EmbeddedPostgres, url: URL) -> None:
    run(url, "ALTER SYSTEM SET archive_command = '/bin/false'", "SELECT pg_reload_conf()")
    try:
        archived(operated, fails=True)
        found = faults(results(url))
    finally:
        run(url, "ALTER SYSTEM SET archive_command = '/bin/true'", "SELECT pg_reload_conf()")
    assert list(found) == ["postgres.archive"]
    assert "archiving WAL fails" in found["postgres.archive"]


def test_database_in_another_encoding_is_found(url: URL) -> None:
    run(url, "CREATE DATABASE bytes ENCODING 'UTF8' LOCALE 'C' TEMPLATE template0")
    other = url.set(database="bytes")
    migrate(other)
    # `isthmus migrate` refuses such a database: this one becomes it afterwards.
    run(
        url,
        "UPDATE pg_database SET encoding = pg_char_to_encoding('SQL_ASCII') "
        "WHERE datname = 'bytes'",
    )
    found = faults(results(other))
    run(url, "DROP DATABASE bytes WITH (FORCE)")
    assert found == {"postgres.encoding": "the database is encoded in SQL_ASCII"}


def test_empty_database_lacks_tables(url: URL) -> None:
    run(url, "CREATE DATABASE empty")
    found = faults(results(url.set(database="empty")))
    run(url, "DROP DATABASE empty WITH (FORCE)")
    assert found == {"postgres.migrations": "the database has no tables of the warehouse"}


def test_more_pools_than_connections_are_found(url: URL) -> None:
    settings = settings_for(url)
    [chain] = [each for each in settings.network.evm if settings.nodes[each.id]]
    many = [replace(chain, id=ChainId(f"eip155:{number}")) for number in range(1, 40)]
    nodes = {each.id: ("http://127.0.0.1:1",) for each in many}
    wide = replace(settings, network=replace(settings.network, evm=tuple(many)), nodes=nodes)
    found = faults(list(check_postgres(DoctorContext(wide))))
    assert list(found) == ["postgres.connections"]
    assert "followers 273" in found["postgres.connections"]


def test_figures_of_pools_are_those_of_the_processes() -> None:
    from api.server import MAX_WORKERS, THREADS
    from pipelines.storage import _POOL_SIZE

    assert (API_WORKER, MAX_API_WORKERS) == (THREADS + 2, MAX_WORKERS)
    assert DAGSTER_PROCESS == _POOL_SIZE


def test_server_without_archive_and_fsync_is_found(engine: Engine) -> None:
    # The suite's own server: it archives nothing, and does without fsync.
    migrate(engine.url)
    assert set(faults(results(engine.url))) == {"postgres.archive", "postgres.durability"}


def test_devnet_needs_no_archive(engine: Engine) -> None:
    migrate(engine.url)
    devnet = {"DATABASE_URL": engine.url.render_as_string(hide_password=False)}
    found = list(check_postgres(DoctorContext(load_settings(devnet))))
    assert set(faults(found)) == {"postgres.durability"}


def test_unreachable_server_is_one_finding(url: URL) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        [found] = results(url.set(port=closed.getsockname()[1]))
    assert found.check == "postgres.reachable"
    assert "refused" in found.problem


def test_user_without_rights_is_told_which(url: URL) -> None:
    run(url, "CREATE ROLE narrow LOGIN PASSWORD 'narrow' IN ROLE isthmus_relay")
    found = results(url.set(username="narrow", password="narrow"))
    run(url, "DROP ROLE narrow")
    assert faults(found) == {"postgres.disk": "this user may not read data_directory"}


def test_clock_of_another_time_is_found(url: URL) -> None:
    with connected(url) as conn:
        result = check_clock(conn, "", now=lambda: time.time() + 90)
    assert "90.0 s behind" in result.problem


def test_little_free_disk_is_found(url: URL) -> None:
    with connected(url) as conn:
        assert not check_disk(url, conn, "").is_finding
        assert check_disk(url, conn, "", min_free=2**60).is_finding
        remote = check_disk(url.set(host="db.example.com"), conn, "")
        assert (remote.problem, remote.seen) == ("", "not known: the server is on db.example.com")


def test_lagging_standby_and_forgotten_slot_are_found(
    operated: EmbeddedPostgres, url: URL, tmp_path: Path
) -> None:
    run(url, "SELECT pg_create_physical_replication_slot('gone', true)")
    with connected(url) as conn, receiving(operated, tmp_path) as receiver:
        wait_for(conn, "SELECT count(*) = 1 FROM pg_stat_replication WHERE flush_lsn IS NOT NULL")
        assert check_replication(conn, "").seen == "1 standbys, none behind"
        os.kill(receiver.pid, signal.SIGSTOP)
        run(url, "SELECT pg_logical_emit_message(true, 'test', repeat('x', 100000))")
        lagging = check_replication(conn, "", max_bytes=50_000)
        os.kill(receiver.pid, signal.SIGCONT)
    run(url, "SELECT pg_drop_replication_slot('gone')")
    assert "standby pg_receivewal is streaming" in lagging.problem
    assert "slot gone is not read" in lagging.problem


def test_standby_that_no_commit_waits_for_is_found(url: URL) -> None:
    two_hosts = warehouse_url("postgresql://u@a,b/d?target_session_attrs=read-write")
    with connected(url) as conn:
        assert check_synchronous(url, conn, "").seen == "no standby is declared"
        found = check_synchronous(two_hosts, conn, "")
    assert found.problem == "DATABASE_URL names a standby, and no commit waits for it"


def test_pooler_that_drops_options_is_found(url: URL) -> None:
    with pooler_without_options(url) as port:
        found = faults(results(url.set(port=port)))
    assert list(found) == ["postgres.session"]
    assert "lock_timeout is 0" in found["postgres.session"]


@contextmanager
def connected(url: URL) -> Iterator[Connection]:
    engine = create_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as conn:
        yield conn


def wait_for(conn: Connection, condition: str) -> None:
    deadline = time.monotonic() + 60
    while not conn.scalar(text(condition)):
        assert time.monotonic() < deadline, condition
        time.sleep(0.01)


@contextmanager
def receiving(server: EmbeddedPostgres, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program of Postgres that streams WAL and flushes each commit."""
    program = server.binaries.folder / "pg_receivewal"
    address = server.url("", "postgresql").rstrip("/")
    process = subprocess.Popen([program, "-d", address, "-D", folder, "--synchronous"])
    try:
        yield process
    finally:
        process.terminate()
        process.wait(timeout=60)


@contextmanager
def pooler_without_options(url: URL) -> Iterator[int]:
    """A proxy that drops `options` of a session's start, as poolers are configured to; its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=proxy, args=(client, url.port), daemon=True).start()

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


def proxy(client: socket.socket, port: int) -> None:
    with closing(client), closing(socket.create_connection(("127.0.0.1", port))) as server:
        while True:
            [size] = struct.unpack("!I", client.recv(4, socket.MSG_WAITALL))
            body = client.recv(size - 4, socket.MSG_WAITALL)
            if struct.unpack("!I", body[:4]) == (196608,):
                break
            # Requests for TLS and GSSAPI.
            client.sendall(b"N")
        words = body[4:].rstrip(b"\0").split(b"\0")
        if b"options" in words:
            place = words.index(b"options")
            del words[place : place + 2]
        start = body[:4] + b"".join(word + b"\0" for word in words) + b"\0"
        server.sendall(struct.pack("!I", len(start) + 4) + start)
        back = threading.Thread(target=copy, args=(server, client), daemon=True)
        back.start()
        copy(client, server)
        back.join()


def copy(source: socket.socket, target: socket.socket) -> None:
    while piece := source.recv(65_536):
        target.sendall(piece)
    target.shutdown(socket.SHUT_WR)
