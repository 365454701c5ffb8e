"""The chart of deploy/helm: rendered by Helm, valid for Kubernetes, hardened, of what exists."""

import re
from collections.abc import Iterator
from typing import Any

import helm_python
import kubernetes_validate
import pytest
import yaml

from pipelines.processes import (
    API,
    CODE_SERVER,
    MIGRATE,
    PROCESSES,
    RELAY_SERVER,
    Process,
    is_variable,
)
from tests.architecture.imports import ROOT
from warehouse_schema.variables import unknown_variables

KUBERNETES = "1.31"
RELEASE, RELAY = "isthmus", "isthmus-relay"


def rendered(values: dict[str, Any]) -> Iterator[dict[str, Any]]:
    with helm_python.Chart.load(str(ROOT / "deploy/helm")) as chart:
        files = chart.render(values, name="isthmus", namespace=RELEASE)
    for text in files.values():
        yield from (each for each in yaml.safe_load_all(text) if each is not None)


DOCUMENTS = list(rendered({}))


def of_kind(kind: str) -> dict[str, dict[str, Any]]:
    """Documents by name."""
    return {each["metadata"]["name"]: each for each in DOCUMENTS if each["kind"] == kind}


WORKLOADS = {**of_kind("Deployment"), **of_kind("Job")}


def pod(process: Process) -> dict[str, Any]:
    spec: dict[str, Any] = WORKLOADS[f"isthmus-{process.name}"]["spec"]["template"]["spec"]
    return spec


def test_documents_follow_kubernetes_schemas() -> None:
    for document in DOCUMENTS:
        kubernetes_validate.validate(document, KUBERNETES, strict=True)


def test_workloads_are_the_processes() -> None:
    assert set(WORKLOADS) == {f"isthmus-{each.name}" for each in (MIGRATE, *PROCESSES)}
    hook = WORKLOADS["isthmus-migrate"]["metadata"]["annotations"]["helm.sh/hook"]
    assert hook == "pre-install,pre-upgrade"


@pytest.mark.parametrize("process", [MIGRATE, *PROCESSES], ids=lambda process: process.name)
def test_pod_has_command_settings_and_secrets_of_its_process(process: Process) -> None:
    [container] = pod(process)["containers"]
    assert tuple(container["args"][: len(process.command)]) == process.command
    given = {each["name"]: each["value"] for each in container["env"]}
    assert unknown_variables(given) == []
    files = [name for name, text in given.items() if text.startswith("/run/secrets/")]
    assert files
    strange = [name for name in files if not any(is_variable(e, name) for e in process.secrets)]
    assert strange == []
    secrets = [each["secret"]["secretName"] for each in pod(process)["volumes"] if "secret" in each]
    assert secrets == [f"isthmus-{process.name}"]
    if process.metrics is not None:
        assert given[process.metrics] == f"0.0.0.0:{process.metrics_port}"
    ports = [each["containerPort"] for each in container.get("ports", [])]
    assert ports == [each for each in (process.port, process.metrics_port) if each is not None]


@pytest.mark.parametrize("process", [MIGRATE, *PROCESSES], ids=lambda process: process.name)
def test_pod_is_hardened_limited_and_probed(process: Process) -> None:
    spec = pod(process)
    [container] = spec["containers"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert "memory" in container["resources"]["limits"]
    if process != MIGRATE:
        assert {"startupProbe", "livenessProbe", "readinessProbe"} <= set(container)
        assert spec["terminationGracePeriodSeconds"] > process.stop_seconds
        assert f"isthmus-{process.name}" in of_kind("PodDisruptionBudget")


def test_relay_alone_is_in_its_namespace() -> None:
    spaces = {name: each["metadata"]["namespace"] for name, each in WORKLOADS.items()}
    assert [name for name, space in spaces.items() if space == RELAY] == ["isthmus-relay-server"]
    assert set(spaces.values()) == {RELEASE, RELAY}


def test_all_traffic_is_denied_but_what_policies_name() -> None:
    policies = [each for each in DOCUMENTS if each["kind"] == "NetworkPolicy"]
    denied = {
        each["metadata"]["namespace"]
        for each in policies
        if each["spec"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    }
    assert denied == {RELEASE, RELAY}
    for process in (CODE_SERVER, RELAY_SERVER):
        metrics, rule = of_kind("NetworkPolicy")[f"isthmus-{process.name}"]["spec"]["ingress"]
        [prometheus] = metrics["from"]
        namespace = {"kubernetes.io/metadata.name": "monitoring"}
        assert prometheus == {"namespaceSelector": {"matchLabels": namespace}}
        assert metrics["ports"] == [{"port": process.metrics_port}]
        assert rule["ports"] == [{"port": process.port}]
        callers = [each["podSelector"]["matchLabels"] for each in rule["from"]]
        components = [each["app.kubernetes.io/component"] for each in callers]
        assert components == ["daemon", "page"]


def test_pooler_and_replica_are_the_apis_secrets_and_let_out() -> None:
    """By the lines that are comments in values.yaml."""
    text = (ROOT / "deploy/helm/values.yaml").read_text()
    names = dict(re.findall(r"^ +# (ISTHMUS_\w+_URL_FILE): (\S+)$", text, re.MULTILINE))
    assert names == {
        "ISTHMUS_POOLER_URL_FILE": "pooler-url",
        "ISTHMUS_REPLICA_URL_FILE": "replica-url",
    }
    assert all(any(is_variable(each, name) for each in API.secrets) for name in names)
    documents = list(rendered({"processes": {"api": {"files": names}}}))
    for document in documents:
        kubernetes_validate.validate(document, KUBERNETES, strict=True)
    [deployment] = [
        each
        for each in documents
        if each["kind"] == "Deployment" and each["metadata"]["name"] == "isthmus-api"
    ]
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    given = {each["name"]: each["value"] for each in container["env"]}
    assert unknown_variables(given) == []
    assert given["ISTHMUS_POOLER_URL_FILE"] == "/run/secrets/isthmus/pooler-url"
    assert given["ISTHMUS_REPLICA_URL_FILE"] == "/run/secrets/isthmus/replica-url"
    # What it had before, it still has.
    assert "ISTHMUS_TOKEN_KEY_FILE" in given
    pooler_port = yaml.safe_load(text)["poolerPort"]
    let_out = {each["metadata"]["name"] for each in documents if reaches(each, pooler_port)}
    assert let_out == {"isthmus-api"}
    assert not [each for each in DOCUMENTS if reaches(each, pooler_port)]


def reaches(document: dict[str, Any], port: int) -> bool:
    """Whether it is a policy that lets pods connect to a port."""
    rules = document["spec"].get("egress", []) if document["kind"] == "NetworkPolicy" else []
    return any(each["port"] == port for rule in rules for each in rule.get("ports", []))


def test_installation_without_relay_has_none() -> None:
    documents = list(rendered({"processes": {"relay-server": None}}))
    assert not [each for each in documents if each["metadata"]["name"] == "isthmus-relay-server"]
    assert "ISTHMUS_RELAY_SERVER_HOST" not in yaml.safe_dump_all(documents)
