"""deploy/compose.yaml: valid, hardened, and of the processes and settings that exist."""

import json
from typing import Any

import pytest
import yaml
from compose_spec import PyCompose

from pipelines.processes import MIGRATE, PROCESSES, Process, is_variable
from tests.architecture.imports import ROOT
from warehouse_schema.variables import unknown_variables

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
OTHERS = {"postgres", "nginx"}


def test_file_follows_the_compose_specification() -> None:
    # Merge keys are YAML's: resolved, as compose resolves them.
    PyCompose.from_json(json.dumps(COMPOSE)).validate()


def test_services_are_the_processes() -> None:
    assert set(SERVICES) - OTHERS == {each.name for each in (MIGRATE, *PROCESSES)}


@pytest.mark.parametrize("process", [MIGRATE, *PROCESSES], ids=lambda process: process.name)
def test_service_has_command_settings_and_secrets_of_its_process(process: Process) -> None:
    service = SERVICES[process.name]
    assert tuple(service["command"][: len(process.command)]) == process.command
    given = service["environment"]
    assert unknown_variables(given) == []
    if process.metrics is not None:
        assert given[process.metrics] == f"0.0.0.0:{process.metrics_port}"
    files = {name: text for name, text in given.items() if text.startswith("/run/secrets/")}
    # What others read is not even mounted.
    assert {text.rpartition("/")[2] for text in files.values()} == set(service["secrets"])
    strange = [
        name for name in files if not any(is_variable(each, name) for each in process.secrets)
    ]
    assert strange == []
    assert set(service["secrets"]) <= set(COMPOSE["secrets"])


@pytest.mark.parametrize("name", SERVICES)
def test_service_is_hardened_and_limited(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "mem_limit" in service
    assert "healthcheck" in service or name == "migrate"
    if name not in OTHERS:
        assert service["user"] == "10001:10001"
        assert "cap_add" not in service


def test_only_nginx_is_published_beyond_this_machine() -> None:
    published = {name: each["ports"] for name, each in SERVICES.items() if "ports" in each}
    metrics = {
        each.name: [f"127.0.0.1:{each.metrics_port}:{each.metrics_port}"]
        for each in PROCESSES
        if each.metrics is not None
    }
    others = {"nginx": ["443:443"], "page": ["127.0.0.1:3000:3000"]}
    assert published == metrics | others


@pytest.mark.parametrize("name", ["code-server", "relay-server"])
def test_code_server_shares_networks_with_page_and_daemon_alone(name: str) -> None:
    own = set(SERVICES[name]["networks"])
    near = {other for other, each in SERVICES.items() if own & set(each["networks"])}
    assert near - {name, "postgres", "migrate"} == {"daemon", "page"}
