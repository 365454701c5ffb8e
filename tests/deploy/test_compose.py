"""deploy/compose.yaml: valid, hardened, and of the processes and settings that exist."""

import json
import re
from typing import Any

import pytest
import yaml
from compose_spec import PyCompose

from pipelines.processes import API, MIGRATE, PROCESSES, Process, is_variable
from tests.architecture.imports import ROOT
from warehouse_schema.variables import unknown_variables

TEXT = (ROOT / "deploy/compose.yaml").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load(TEXT)
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
    if process.metrics is not None:
        assert service["environment"][process.metrics] == f"0.0.0.0:{process.metrics_port}"
    check_secrets(COMPOSE, process)


def check_secrets(compose: dict[str, Any], process: Process) -> None:
    """A service has the secrets of its process alone, each mounted and named."""
    service = compose["services"][process.name]
    given = service["environment"]
    assert unknown_variables(given) == []
    files = {name: text for name, text in given.items() if text.startswith("/run/secrets/")}
    # What others read is not even mounted.
    assert {text.rpartition("/")[2] for text in files.values()} == set(service["secrets"])
    strange = [
        name for name in files if not any(is_variable(each, name) for each in process.secrets)
    ]
    assert strange == []
    assert set(service["secrets"]) <= set(compose["secrets"])


def test_api_service_has_comments_for_pooler_and_replica() -> None:
    text = re.sub(r"^( +)# (.*(pooler|replica)-url)", r"\1\2", TEXT, flags=re.MULTILINE)
    edited = yaml.safe_load(text)
    PyCompose.from_json(json.dumps(edited)).validate()
    check_secrets(edited, API)
    before, after = SERVICES["api"]["environment"], edited["services"]["api"]["environment"]
    assert after.keys() - before.keys() == {"ISTHMUS_POOLER_URL_FILE", "ISTHMUS_REPLICA_URL_FILE"}
    assert set(edited["secrets"]) - set(COMPOSE["secrets"]) == {"pooler-url", "replica-url"}


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
