"""`isthmus up`: what it writes and refuses, and a start of everything."""

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from configparser import ConfigParser
from functools import partial
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Engine
from sqlalchemy.engine import make_url

from devnet.process_groups import members
from devnet.services import isthmus
from devnet.supervisor import free_port
from indexer.errors import ConfigurationError
from pipelines.listeners import StartRefused
from pipelines.processes import PROCESSES
from pipelines.up import Installation
from warehouse_schema.embedded import Server

TIMEOUT = 100.0


def configuration(given: dict[str, str]) -> ConfigParser:
    parser = ConfigParser(interpolation=None)
    installation = Installation(given, bind="127.0.0.1:8081", page_port=3001)
    parser.read_string(installation.configuration())
    return parser


def test_programs_are_the_needed_processes_stopped_in_reverse(tmp_path: Path) -> None:
    key = {"ISTHMUS_WEBHOOK_KEY_FILE": "/run/secrets/webhook"}
    written = configuration({"ISTHMUS_HOME": str(tmp_path), **key})
    programs = {name: written[name] for name in written if name.startswith("program:")}
    by_priority = sorted(programs, key=lambda name: written.getint(name, "priority"))
    assert by_priority == [f"program:{each.name}" for each in PROCESSES]
    assert written["program:relay-server"]["command"].endswith("/isthmus code-server --relay")
    assert written["program:api"]["command"].endswith("/isthmus api --bind 127.0.0.1:8081")
    assert written["program:page"]["command"].endswith("/isthmus page --port 3001")
    assert "program:relay-server" not in configuration({"ISTHMUS_HOME": str(tmp_path)})


def test_supervisor_listens_on_a_private_socket_alone(tmp_path: Path) -> None:
    written = configuration({"ISTHMUS_HOME": str(tmp_path)})
    assert written["unix_http_server"]["chmod"] == "0600"
    assert "inet_http_server" not in written


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ISTHMUS_HOME": "/" + "x" * 90}, "ISTHMUS_HOME is too long for the path of a socket"),
        ({"ISTHMUS_HOME": "/a;b"}, "/a;b: supervisord takes no path with"),
    ],
)
def test_unfit_configuration_is_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        configuration(given)


@pytest.mark.parametrize(
    ("taken", "words"),
    [
        ("api", r"api cannot listen on 127.0.0.1:\d+: Address already in use.* --bind"),
        ("page", r"page cannot listen on .* --page-port"),
        ("code-server", r"code-server cannot listen on .* `code_server_port` under `\[dagster\]`"),
        ("relay-server", r"relay-server cannot listen on .* `relay_server_port`"),
        ("metrics", r"the metrics of code-server cannot listen on .* `pipelines` under"),
    ],
)
def test_address_in_use_names_its_setting(tmp_path: Path, taken: str, words: str) -> None:
    ports = {
        each: free_port() for each in ("api", "page", "code-server", "relay-server", "metrics")
    }
    given = {
        "ISTHMUS_HOME": str(tmp_path),
        "ISTHMUS_CODE_SERVER_PORT": str(ports["code-server"]),
        "ISTHMUS_RELAY_SERVER_PORT": str(ports["relay-server"]),
        "ISTHMUS_METRICS_PIPELINES": f"127.0.0.1:{ports['metrics']}",
    }
    bind = f"127.0.0.1:{ports['api']}"
    installation = Installation(given, bind=bind, page_port=ports["page"])
    installation.require_startable()
    with (
        socket.create_server(("127.0.0.1", ports[taken])),
        pytest.raises(StartRefused) as refused,
    ):
        installation.require_startable()
    [problem] = str(refused.value).splitlines()
    assert re.match(words, problem)


def test_one_port_for_two_processes_is_refused(tmp_path: Path) -> None:
    port = free_port()
    given = {"ISTHMUS_HOME": str(tmp_path), "ISTHMUS_CODE_SERVER_PORT": str(free_port())}
    installation = Installation(given, bind=f"127.0.0.1:{port}", page_port=port)
    with pytest.raises(StartRefused, match=f"cannot listen on 127.0.0.1:{port}"):
        installation.require_startable()


def test_missing_dagster_database_names_the_statement_to_run(
    postgres: Server, server_engine: Engine, tmp_path: Path
) -> None:
    password = "of-plain"
    with server_engine.connect() as conn:
        conn.exec_driver_sql(f"CREATE ROLE plain LOGIN PASSWORD '{password}'")
    url = make_url(postgres.url("plain_dagster")).set(username="plain", password=password)
    environment = plain_environment() | {
        "ISTHMUS_HOME": str(tmp_path),
        "DATABASE_URL": postgres.url("up"),
        "ISTHMUS_DAGSTER_URL": url.render_as_string(hide_password=False),
        "ISTHMUS_CODE_SERVER_PORT": str(free_port()),
    }
    up = isthmus("up", "--bind", f"127.0.0.1:{free_port()}", "--page-port", str(free_port()))
    try:
        done = subprocess.run(up, env=environment, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 1
        assert 'CREATE DATABASE "plain_dagster" OWNER "plain"' in done.stderr
    finally:
        with server_engine.connect() as conn:
            conn.exec_driver_sql("DROP ROLE plain")


def succeeds(command: Sequence[str], environment: Mapping[str, str], folder: Path) -> bool:
    return subprocess.run(command, env=environment, cwd=folder).returncode == 0


@pytest.mark.timeout(3 * TIMEOUT)
def test_everything_starts_and_stops(postgres: Server, server_engine, tmp_path: Path) -> None:
    api, page, code = free_port(), free_port(), free_port()
    environment = plain_environment() | {
        "ISTHMUS_HOME": str(tmp_path / "home"),
        "DATABASE_URL": postgres.url("up"),
        "ISTHMUS_DAGSTER_URL": postgres.url("up_dagster"),
        "ISTHMUS_CODE_SERVER_PORT": str(code),
        # No chain has a node: nothing is followed.
        "ISTHMUS_RPC_EIP155_31337": "",
        "ISTHMUS_RPC_STELLAR_DEVNET": "",
    }
    up = isthmus("up", "--migrate", "--bind", f"127.0.0.1:{api}", "--page-port", str(page))
    process = subprocess.Popen(up, env=environment, cwd=tmp_path, start_new_session=True)
    try:
        await_condition(process, lambda: answers(f"http://127.0.0.1:{api}/healthz"))
        await_condition(process, lambda: answers(f"http://127.0.0.1:{page}/server_info"))
        locations = (
            "{ workspaceOrError { ... on Workspace { locationEntries { name loadStatus } } } }"
        )
        answer = httpx.post(
            f"http://127.0.0.1:{page}/graphql", json={"query": locations}, timeout=TIMEOUT
        ).json()
        entries = answer["data"]["workspaceOrError"]["locationEntries"]
        assert entries == [{"name": "isthmus", "loadStatus": "LOADED"}]
        for words in (
            *(("code-server",), ("daemon",)),
            *(("api", "--port", str(api)), ("page", "--port", str(page))),
        ):
            alive = isthmus("alive", *words)
            await_condition(process, partial(succeeds, alive, environment, tmp_path))
        assert (tmp_path / "home/supervisor/supervisord.conf").stat().st_mode & 0o777 == 0o600
        second = subprocess.run(up, env=environment, cwd=tmp_path, capture_output=True, text=True)
        assert second.returncode == 1
        assert "`isthmus up` runs already under ISTHMUS_HOME" in second.stderr
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT) == 0
        stopped = [
            line.split()[4]
            for line in (tmp_path / "home/logs/supervisord.log").read_text().splitlines()
            if " stopped: " in line
        ]
        assert stopped == ["api", "page", "daemon", "code-server"]
    finally:
        if members(process.pid):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(TIMEOUT)
        with server_engine.connect() as conn:
            for name in ("up", "up_dagster"):
                conn.exec_driver_sql(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def plain_environment() -> dict[str, str]:
    return {
        name: text
        for name, text in os.environ.items()
        if not name.startswith(("ISTHMUS", "DAGSTER", "DATABASE"))
    }


def await_condition(process: subprocess.Popen[bytes], condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert process.poll() is None, "isthmus up ended"
        assert time.monotonic() < deadline, "the condition never came true"
        time.sleep(0.2)


def answers(url: str) -> bool:
    try:
        return httpx.get(url).status_code == 200
    except httpx.TransportError:
        return False
