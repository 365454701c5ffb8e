"""The units of deploy/systemd name the processes, commands and settings that exist."""

import re

import pytest

from pipelines.processes import (
    API,
    CODE_SERVER,
    DAEMON,
    MIGRATE,
    PAGE,
    PROCESSES,
    RELAY_SERVER,
    Process,
    is_variable,
)
from tests.architecture.imports import ROOT
from warehouse_schema.variables import unknown_variables

UNITS = ROOT / "deploy/systemd"


POOLED = {"ISTHMUS_POOLER_URL_FILE", "ISTHMUS_REPLICA_URL_FILE"}


def lines(process: Process, key: str, *, with_comments: bool = False) -> list[str]:
    """Values of a key; with those of lines that are comments until an operator edits the unit."""
    text = (UNITS / f"isthmus-{process.name}.service").read_text()
    begin = "#?" if with_comments else ""
    return re.findall(rf"^{begin}{key}=(.*)$", text, re.MULTILINE)


def variables(process: Process, *, with_comments: bool = False) -> dict[str, str]:
    common = (UNITS / "isthmus-.service.d/hardening.conf").read_text()
    own = lines(process, "Environment", with_comments=with_comments)
    pairs = [*own, *re.findall(r"^Environment=(.*)$", common, re.M)]
    return dict(pair.split("=", 1) for pair in pairs)


def test_each_process_has_its_unit() -> None:
    units = {path.name for path in UNITS.glob("isthmus-*.service")}
    assert units == {f"isthmus-{each.name}.service" for each in (MIGRATE, *PROCESSES)}


@pytest.mark.parametrize("process", [MIGRATE, *PROCESSES], ids=lambda process: process.name)
def test_unit_has_command_settings_and_secrets_of_its_process(process: Process) -> None:
    [start] = lines(process, "ExecStart")
    assert start.partition(" --host ")[0] == " ".join(
        ["/opt/isthmus/bin/isthmus", *process.command]
    )
    given = variables(process)
    assert unknown_variables(given) == []
    if process.metrics is not None:
        assert given[process.metrics] == f"127.0.0.1:{process.metrics_port}"
    check_secrets(process, with_comments=False)


def check_secrets(process: Process, *, with_comments: bool) -> None:
    """A unit has the secrets of its process alone, each loaded and named."""
    given = variables(process, with_comments=with_comments)
    secrets = {name: text for name, text in given.items() if text.startswith("%d/")}
    strange = [
        name for name in secrets if not any(is_variable(each, name) for each in process.secrets)
    ]
    assert strange == []
    lines_of = lines(process, "LoadCredential", with_comments=with_comments)
    loaded = dict(each.split(":", 1) for each in lines_of)
    assert {f"%d/{name}" for name in loaded} == set(secrets.values())
    assert all(path == f"/etc/isthmus/secrets/{name}" for name, path in loaded.items())


def test_api_unit_has_comments_for_pooler_and_replica() -> None:
    given = variables(API, with_comments=True)
    assert given.keys() - variables(API).keys() == POOLED
    assert unknown_variables(given) == []
    check_secrets(API, with_comments=True)


def test_daemon_and_page_alone_may_connect_to_code_servers() -> None:
    hosts = [
        lines(process, "ExecStart")[0].rpartition(" --host ")[2]
        for process in (CODE_SERVER, RELAY_SERVER)
    ]
    # One of the servers may not connect to the other.
    assert hosts == ["127.0.0.2", "127.0.0.3"]
    common = (UNITS / "isthmus-.service.d/hardening.conf").read_text()
    assert f"\nIPAddressDeny={' '.join(hosts)}\n" in common
    allowed = {each: lines(each, "IPAddressAllow") for each in (MIGRATE, *PROCESSES)}
    for process, allows in allowed.items():
        assert allows == ([" ".join(hosts)] if process in (DAEMON, PAGE) else []), process.name
    for process in (DAEMON, PAGE):
        given = variables(process)
        named = [given["ISTHMUS_CODE_SERVER_HOST"], given["ISTHMUS_RELAY_SERVER_HOST"]]
        assert named == hosts


@pytest.mark.parametrize("process", PROCESSES, ids=lambda process: process.name)
def test_unit_waits_longer_than_its_process_needs_to_stop(process: Process) -> None:
    [seconds] = lines(process, "TimeoutStopSec")
    assert int(seconds.removesuffix("s")) > process.stop_seconds
