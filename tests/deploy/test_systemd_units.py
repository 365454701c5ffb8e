"""The units of deploy/systemd name the processes, commands and settings that exist."""

import re

import pytest

from pipelines.processes import MIGRATE, PROCESSES, Process, is_variable
from tests.architecture.imports import ROOT
from warehouse_schema.variables import unknown_variables

UNITS = ROOT / "deploy/systemd"


def lines(process: Process, key: str) -> list[str]:
    text = (UNITS / f"isthmus-{process.name}.service").read_text()
    return re.findall(rf"^{key}=(.*)$", text, re.MULTILINE)


def variables(process: Process) -> dict[str, str]:
    common = (UNITS / "isthmus-.service.d/hardening.conf").read_text()
    pairs = [*lines(process, "Environment"), *re.findall(r"^Environment=(.*)$", common, re.M)]
    return dict(pair.split("=", 1) for pair in pairs)


def test_each_process_has_its_unit() -> None:
    units = {path.name for path in UNITS.glob("isthmus-*.service")}
    assert units == {f"isthmus-{each.name}.service" for each in (MIGRATE, *PROCESSES)}


@pytest.mark.parametrize("process", [MIGRATE, *PROCESSES], ids=lambda process: process.name)
def test_unit_has_command_settings_and_secrets_of_its_process(process: Process) -> None:
    assert lines(process, "ExecStart") == [" ".join(["/opt/isthmus/bin/isthmus", *process.command])]
    given = variables(process)
    assert unknown_variables(given) == []
    if process.metrics is not None:
        assert given[process.metrics] == f"127.0.0.1:{process.metrics_port}"
    secrets = {name: text for name, text in given.items() if text.startswith("%d/")}
    strange = [
        name for name in secrets if not any(is_variable(each, name) for each in process.secrets)
    ]
    assert strange == []
    loaded = dict(each.split(":", 1) for each in lines(process, "LoadCredential"))
    assert {f"%d/{name}" for name in loaded} == set(secrets.values())
    assert all(path == f"/etc/isthmus/secrets/{name}" for name, path in loaded.items())


@pytest.mark.parametrize("process", PROCESSES, ids=lambda process: process.name)
def test_unit_waits_longer_than_its_process_needs_to_stop(process: Process) -> None:
    [seconds] = lines(process, "TimeoutStopSec")
    assert int(seconds.removesuffix("s")) > process.stop_seconds
